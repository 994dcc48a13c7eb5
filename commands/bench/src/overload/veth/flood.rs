//! A worker that serves its own flows while worker 0 is flooded, on a veth of two queues.
//!
//! A client keeps requests under way at worker 1's queue, from worker 1's core. A flood of fragments and packets of
//! unknown flows is sent to worker 0's queue from worker 0's core, as fast as possible; without it, a thread there
//! spins, since the two cores may be halves of one. For the figure of both queues, one of these packets also goes
//! with each request of the client; in the rate without flood, as many frames for another host take their place,
//! which cost the cable as much. For the figure of errors these are ICMP errors that quote connections of worker 0's.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use weever_engine::{Mode, monotonic};
use weever_link::{Link, LinkError};
use weever_testbed::{Fixture, pin_to};

use super::super::errors::{errors, syns};
use super::super::flood::{harmless, is_answer, own, pool, strangers, team};
use super::station::{Station, open};
use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

const FAILED: &str = "flood";
/// Requests under way.
const WINDOW: usize = 128;
/// Frames that are sent at once.
const AT_ONCE: usize = 32;
/// After this time without an answer, requests count as lost.
const LOST: Duration = Duration::from_millis(10);
const WARM_UP: Duration = Duration::from_millis(100);

pub(super) fn measure(
    cores: [usize; 2],
    plan: Plan,
    report: &mut Report,
) -> Result<(), BenchError> {
    for kind in [Kind::There, Kind::Both, Kind::Errors] {
        let (mut alone, mut flooded) = <(Samples, Samples)>::default();
        for _ in plan.rounds() {
            alone.push(rate(cores, false, kind, plan.each)?);
            flooded.push(rate(cores, true, kind, plan.each)?);
        }
        let ratio = flooded.ratio(&alone);
        let (what, key) = match kind {
            Kind::There => ("veth: a dedicated worker", "dedicated_under_flood_veth"),
            Kind::Both => {
                ("veth: both queues flooded, worker 1", "dedicated_under_flood_both_veth")
            }
            Kind::Errors => ("veth: beside ICMP errors, worker 1", "dedicated_under_errors_veth"),
        };
        report.row(&format!("{what} alone"), "Mpps", &alone);
        report.row(&format!("{what} under the flood"), "Mpps", &flooded);
        report.ratio(key, "", &ratio);
    }
    Ok(())
}

/// The floods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Fragments and strangers at worker 0's queue.
    There,
    /// The same at both queues.
    Both,
    /// ICMP errors about connections of worker 0's, at both.
    Errors,
}

impl Kind {
    fn frames(self, mac: [u8; 6]) -> Result<Vec<Vec<u8>>, BenchError> {
        match self {
            Kind::There | Kind::Both => strangers(mac),
            Kind::Errors => Ok([syns(mac)?, errors(mac)?].concat()),
        }
    }
}

/// Millions of answers per second from worker 1, with or without a flood; 0 if the flood has not arrived.
fn rate(
    [other, own_core]: [usize; 2],
    is_flooded: bool,
    kind: Kind,
    each: Duration,
) -> Result<f64, BenchError> {
    let fixture = Fixture::pair(2)?;
    let frames = pool()?;
    let mut link = fixture.right.run(|| open("right0", &frames))?;
    let mac = link.info().mac;
    let host = team(link.info().clone(), link.take_queues(), frames, monotonic(), |builder| {
        builder.cores(&[other, own_core]);
        builder.mode(Mode::Interrupt);
    })?;
    let host = host.start().map_err(BenchError::of(FAILED))?;
    let (_left, stations) = Station::open(&fixture.left, "left0")?;
    let [station, asking]: [Station; 2] = stations
        .try_into()
        .map_err(|_| BenchError::of(FAILED)("the cable does not have two queues"))?;
    let flood = kind.frames(mac)?;
    let others = match (kind, is_flooded) {
        (Kind::There, _) => Vec::new(),
        (_, false) => harmless()?,
        (Kind::Both, true) => flood.clone(),
        (Kind::Errors, true) => errors(mac)?,
    };
    let client = Client { station: asking, own: own(mac)?, others, next: 0, under_way: 0 };
    let flooder = (station, if is_flooded { flood } else { Vec::new() });
    let rate = meet((client, own_core), (flooder, other), each)?;
    let received = host.handle().workers[0].stats.received();
    let handed_over = host.handle().workers[1].stats.handed_over();
    if let Some(failure) = host.stop().failure {
        return Err(BenchError::of(FAILED)(failure));
    }
    // A flood that does not arrive, or is not for the other worker, proves nothing.
    let has_arrived = received > 0 && (kind != Kind::Errors || handed_over > 0);
    Ok(if is_flooded && !has_arrived { 0.0 } else { rate })
}

/// The client's rate beside the flooder, each on its core.
fn meet(
    (mut client, own_core): (Client, usize),
    ((mut station, flood), other): ((Station, Vec<Vec<u8>>), usize),
    each: Duration,
) -> Result<f64, BenchError> {
    let failed = || BenchError::of(FAILED);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let flooder = scope.spawn(|| {
            pin_to(other).map_err(BenchError::of(FAILED))?;
            flood_until(&mut station, &flood, &stop).map_err(failed())
        });
        let client = scope.spawn(|| {
            pin_to(own_core).map_err(BenchError::of(FAILED))?;
            client.run(WARM_UP).map_err(failed())?;
            client.run(each).map_err(failed())
        });
        let rate = client.join();
        stop.store(true, Relaxed);
        let panicked = |_| BenchError::of(FAILED)("a thread panicked");
        flooder.join().map_err(panicked)??;
        rate.map_err(panicked)?
    })
}

/// Sends the frames over and over, as fast as possible; without frames it spins.
fn flood_until(
    station: &mut Station,
    frames: &[Vec<u8>],
    stop: &AtomicBool,
) -> Result<(), LinkError> {
    let mut frames = frames.iter().cycle();
    while !stop.load(Relaxed) {
        let room = AT_ONCE.saturating_sub(station.packets.len());
        frames.by_ref().take(room).for_each(|frame| station.put(frame));
        if station.packets.is_empty() {
            std::hint::spin_loop();
            continue;
        }
        station.send()?;
        station.receive(|_| true)?;
    }
    Ok(())
}

/// A client with requests under way. With each request it sends one of the other frames, if there are
/// any.
struct Client {
    station: Station,
    own: Vec<u8>,
    others: Vec<Vec<u8>>,
    next: usize,
    under_way: usize,
}

impl Client {
    /// Millions of answers per second over this time.
    fn run(&mut self, during: Duration) -> Result<f64, LinkError> {
        let (started, mut answers, mut heard) = (Instant::now(), 0, Instant::now());
        while started.elapsed() < during {
            while self.under_way < WINDOW && self.station.packets.len() < AT_ONCE {
                self.ask();
            }
            self.station.send()?;
            let n = self.station.receive(is_answer)?;
            answers += n;
            self.under_way = self.under_way.saturating_sub(n);
            if n > 0 {
                heard = Instant::now();
            } else if heard.elapsed() > LOST {
                (self.under_way, heard) = (0, Instant::now());
            } else {
                // The worker shares this core.
                thread::yield_now();
            }
        }
        Ok(answers as f64 / started.elapsed().as_secs_f64() / 1e6)
    }

    fn ask(&mut self) {
        self.station.put(&self.own);
        if !self.others.is_empty() {
            self.station.put(&self.others[self.next]);
            self.next = (self.next + 1) % self.others.len();
        }
        self.under_way += 1;
    }
}

#[cfg(test)]
mod tests {
    use weever_testbed::{allowed_cores, require_net_admin};

    use super::*;

    #[test]
    fn a_worker_answers_beside_a_flood_on_both_queues() {
        require_net_admin!();
        let Ok(cores) = allowed_cores() else {
            return println!("skipped: needs to know its cores");
        };
        let [first, second, ..] = cores[..] else { return println!("skipped: needs two cores") };
        for (flooded, kind) in [(false, Kind::Both), (true, Kind::Both), (true, Kind::Errors)] {
            // On a busy machine one of the threads may not run for a while.
            let each = Duration::from_millis(200);
            let mut rates = (0..20).map(|_| rate([first, second], flooded, kind, each).unwrap());
            assert!(rates.any(|rate| rate > 0.0), "{flooded} {kind:?}");
        }
    }
}
