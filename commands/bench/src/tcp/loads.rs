//! What the generator's clients do: ask again as soon as they are answered, ask at a rate, or connect anew for
//! each request.

use std::time::Duration;

use hdrhistogram::Histogram;
use weever_tcp::Id;
use weever_wire::checksum::Pseudo;
use weever_wire::tcp::{HEADER_LEN, TcpOptionsRepr, TcpRepr, fill_checksum, flag};

use super::generator::{Generator, address, flooding};
use crate::BenchError;
use crate::rig::{HOST, PORT};

/// Longer times count as this.
const LONGEST: u64 = 10_000_000_000;
/// Connections of [`anew`] that are under way at once.
const UNDER_WAY: usize = 64;
/// A request or a connection that takes longer has failed.
const LOST: u64 = 2_000_000_000;

/// The service that all clients together got.
pub(crate) struct Outcome {
    /// Answers, or connections that were answered.
    pub(crate) answers: u64,
    /// Nanoseconds from each request to its answer.
    pub(crate) times: Histogram<u64>,
    /// The time in nanoseconds, and the part of it in which the generator had something to do.
    elapsed: u64,
    busy: u64,
}

impl Outcome {
    fn new() -> Result<Outcome, BenchError> {
        let times = Histogram::new_with_max(LONGEST, 3).map_err(BenchError::of("generator"))?;
        Ok(Outcome { answers: 0, times, elapsed: 0, busy: 0 })
    }

    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        self.answers as f64 * 1e9 / self.elapsed.max(1) as f64
    }

    /// The rate that the generator could drive, by the time that it had nothing to do.
    pub(crate) fn generators_limit(&self) -> f64 {
        self.answers as f64 * 1e9 / self.busy.max(1) as f64
    }

    /// Microseconds that a share of all requests took at the most.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        self.times.value_at_quantile(share) as f64 / 1e3
    }

    /// Whether a load that has run for so many nanoseconds goes on: on a busy machine the first answer may come
    /// late.
    fn goes_on(&self, elapsed: u64, during: Duration) -> bool {
        elapsed < during.as_nanos() as u64 || self.answers == 0 && elapsed < LOST
    }

    fn answered(&mut self, nanoseconds: u64) {
        self.answers += 1;
        self.times.saturating_record(nanoseconds);
    }

    fn finish(
        mut self,
        generator: &Generator,
        (began, busy): (u64, u64),
    ) -> Result<Outcome, BenchError> {
        generator.check()?;
        self.elapsed = generator.now() - began;
        self.busy = generator.busy() - busy;
        if self.answers == 0 {
            return Err(BenchError::of("generator")("no request was answered"));
        }
        Ok(self)
    }
}

/// Clients with a connection each.
pub(crate) struct Clients {
    pub(crate) generator: Generator,
    open: Vec<Id>,
    /// By slot: when the request in flight was sent.
    asked: Vec<Option<u64>>,
}

impl Clients {
    /// Connects so many.
    pub(crate) fn connect(mut generator: Generator, count: usize) -> Result<Clients, BenchError> {
        let open = generator.connected(count)?;
        let slots = open.iter().map(|id| id.slot() + 1).max().unwrap_or(0);
        Ok(Clients { generator, open, asked: vec![None; slots] })
    }

    fn ask(&mut self, id: Id) {
        self.asked[id.slot()] = Some(self.generator.now());
        self.generator.ask(id);
    }

    /// Each client asks again as soon as it is answered.
    pub(crate) fn closed_loop(&mut self, during: Duration) -> Result<Outcome, BenchError> {
        let (mut outcome, began) = (Outcome::new()?, (self.generator.now(), self.generator.busy()));
        for at in 0..self.open.len() {
            let id = self.open[at];
            if self.asked[id.slot()].is_none() {
                self.ask(id);
            }
        }
        self.generator.send()?;
        while outcome.goes_on(self.generator.now() - began.0, during) {
            self.generator.receive()?;
            while let Some(id) = self.generator.next_answered() {
                let now = self.generator.now();
                if let Some(asked) = self.asked[id.slot()].take() {
                    outcome.answered(now - asked);
                    self.ask(id);
                }
            }
            self.generator.send()?;
        }
        outcome.finish(&self.generator, began)
    }

    /// `rate` requests a second, by clients that take turns; a client that waits for an answer is passed over,
    /// and its request is not made up for. Beside them so many SYNs a second, from addresses that answer nothing.
    pub(crate) fn paced(
        &mut self,
        rate: f64,
        syns: f64,
        during: Duration,
    ) -> Result<Outcome, BenchError> {
        let (mut outcome, began) = (Outcome::new()?, (self.generator.now(), self.generator.busy()));
        let (mut turn, mut flood) = (0, Flood::default());
        let mut due = began.0 as f64;
        while outcome.goes_on(self.generator.now() - began.0, during) {
            self.generator.receive()?;
            let now = self.generator.now();
            while let Some(id) = self.generator.next_answered() {
                if let Some(asked) = self.asked[id.slot()].take() {
                    outcome.answered(now - asked);
                }
            }
            while due <= now as f64 {
                due += 1e9 / rate;
                turn = (turn + 1) % self.open.len();
                let id = self.open[turn];
                if self.asked[id.slot()].is_none() {
                    self.ask(id);
                }
            }
            flood.send(&mut self.generator, (now - began.0) as f64 * syns / 1e9);
            self.generator.send()?;
        }
        outcome.finish(&self.generator, began)
    }
}

/// SYNs from many addresses and ports.
#[derive(Default)]
struct Flood {
    sent: u32,
}

/// SYNs in one turn at the most, so that answers are not kept waiting.
const IN_A_TURN: u32 = 32;

impl Flood {
    /// Sends as many as are missing at `due`.
    fn send(&mut self, generator: &mut Generator, due: f64) {
        let until = (due as u32).min(self.sent + IN_A_TURN);
        while self.sent < until {
            let mut frame = [0; 34 + HEADER_LEN + 4];
            let header = TcpRepr {
                src_port: 1024 + (self.sent >> 10) as u16 % 60_000,
                dst_port: PORT,
                seq: self.sent.wrapping_mul(0x9e37_79b9),
                ack: 0,
                flags: flag::SYN,
                window: 65_535,
                checksum: 0,
                urgent: 0,
            };
            let options = TcpOptionsRepr { mss: Some(1460), ..TcpOptionsRepr::default() };
            let ends = (flooding(self.sent), HOST);
            let written = header.emit_with_options(&options, &mut frame[34..]).is_ok();
            let host = generator.host_mac();
            let len = (frame.len() - 34) as u16;
            let both = [ends.0.octets(), ends.1.octets()].concat();
            let both = both.first_chunk().expect("two addresses");
            fill_checksum(&mut frame[34..], Pseudo::v4(both, 6, len));
            if written && address(&mut frame, host, ends, weever_tcp::Ecn::NotEct).is_some() {
                generator.send_also(&frame);
            }
            self.sent += 1;
        }
    }
}

/// Clients that connect, ask once and close, many at once.
pub(crate) fn anew(generator: &mut Generator, during: Duration) -> Result<Outcome, BenchError> {
    let (mut outcome, began) = (Outcome::new()?, (generator.now(), generator.busy()));
    let mut number = began.0;
    let mut begun: Vec<Option<(Id, u64)>> = Vec::new();
    let mut under_way = 0;
    while outcome.goes_on(generator.now() - began.0, during) {
        generator.receive()?;
        let now = generator.now();
        while let Some(id) = generator.next_established() {
            generator.ask(id);
        }
        while let Some(id) = generator.next_answered() {
            if let Some((_, since)) = begun[id.slot()].take_if(|(of, _)| *of == id) {
                outcome.answered(now - since);
                under_way -= 1;
                generator.close(id);
            }
        }
        while under_way < UNDER_WAY {
            number += 1;
            let id = generator.connect(number)?;
            if begun.len() <= id.slot() {
                begun.resize(id.slot() + 1, None);
            }
            // A slot that is free again had its connection closed by itself: it failed.
            if begun[id.slot()].replace((id, now)).is_none() {
                under_way += 1;
            }
        }
        generator.send()?;
    }
    let lost = begun.iter().flatten().filter(|(_, since)| generator.now() - since > LOST).count();
    if lost > 0 {
        let message = format!("{lost} connections were not answered");
        return Err(BenchError::of("generator")(message));
    }
    for (id, _) in begun.into_iter().flatten() {
        generator.close(id);
    }
    generator.send()?;
    outcome.finish(generator, began)
}
