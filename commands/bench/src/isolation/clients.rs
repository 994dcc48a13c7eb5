//! The clients: open-loop load from one thread, and the time that each answer took.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weever_engine::monotonic;
use weever_link::LinkQueue;
use weever_packet::{BURST, Buffer, Burst, PoolCache};

use crate::BenchError;
use crate::traffic::{Ends, udp_frame};

/// Where flow and time stand in a frame, behind the UDP header.
const FLOW: usize = 42;
const TIME: usize = 44;
const LENGTH: usize = 64;
/// The server's port.
const PORT: u16 = 11_211;
/// This many good slices in a row are no accident.
const STEADY: usize = 5;
/// How long answers are waited for when all is sent.
const LATE: Duration = Duration::from_millis(100);

/// A flow of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The client's port.
    pub(super) port: u16,
    /// Requests per second.
    pub(super) rate: u64,
    /// When it begins.
    pub(super) from: Duration,
}

/// The outcome of a flow: for each request in order, the time it was sent since the beginning and
/// the time its answer took, in nanoseconds, if one came.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) requests: Vec<(u64, Option<u64>)>,
}

pub(super) struct Clients {
    pub(super) queue: Box<dyn LinkQueue>,
    pub(super) cache: PoolCache,
    pub(super) ends: Ends,
    /// Which flow sends first.
    pub(super) turn: usize,
}

struct Flow {
    frame: Vec<u8>,
    interval: u64,
    next: u64,
    outcome: Outcome,
}

impl Clients {
    /// Sends for so long. A late client catches up: the load does not wait for the server.
    pub(super) fn play(
        &mut self,
        loads: &[Load],
        length: Duration,
    ) -> Result<Vec<Outcome>, BenchError> {
        let (began, mut flows) = (monotonic(), Vec::new());
        for (number, load) in loads.iter().enumerate() {
            flows.push(self.flow(number as u16, load)?);
        }
        let (end, late) = (length.as_nanos() as u64, LATE.as_nanos() as u64);
        let mut packets = VecDeque::new();
        loop {
            let now = monotonic() - began;
            if now > end + late {
                break;
            }
            if now < end {
                self.send(&mut flows, now, &mut packets)?;
            }
            self.receive(&mut flows, began)?;
        }
        packets.into_iter().for_each(|packet| self.cache.free(packet));
        Ok(flows.into_iter().map(|flow| flow.outcome).collect())
    }

    fn flow(&self, number: u16, load: &Load) -> Result<Flow, BenchError> {
        let mut frame = udp_frame(self.ends, PORT, LENGTH).map_err(BenchError::of("frame"))?;
        frame[34..36].copy_from_slice(&load.port.to_be_bytes());
        // No checksum: the contents change with each request.
        frame[40..42].fill(0);
        frame[FLOW..TIME].copy_from_slice(&number.to_be_bytes());
        let (interval, next) = (1_000_000_000 / load.rate.max(1), load.from.as_nanos() as u64);
        Ok(Flow { frame, interval, next, outcome: Outcome::default() })
    }

    /// At most a burst, so that answers are not kept waiting, and each time another flow first: a
    /// machine that cannot send all of it is to be fair.
    fn send(
        &mut self,
        flows: &mut [Flow],
        now: u64,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<(), BenchError> {
        self.turn = (self.turn + 1) % flows.len().max(1);
        let (last, first) = flows.split_at_mut(self.turn.min(flows.len()));
        for flow in first.iter_mut().chain(last) {
            while flow.next <= now && packets.len() < BURST {
                let Some(mut packet) = self.cache.alloc() else { break };
                let request = flow.outcome.requests.len() as u32;
                flow.frame[TIME..TIME + 4].copy_from_slice(&request.to_be_bytes());
                if packet.append(&flow.frame) {
                    packets.push_back(packet);
                    flow.outcome.requests.push((now, None));
                }
                flow.next += flow.interval;
            }
        }
        let sent = self.queue.tx(&mut self.cache, packets);
        sent.and_then(|_| self.queue.flush(&mut self.cache)).map_err(BenchError::of("clients"))
    }

    fn receive(&mut self, flows: &mut [Flow], began: u64) -> Result<(), BenchError> {
        let mut burst = Burst::new();
        let n = self.queue.rx(&mut self.cache, &mut burst, BURST);
        let n = n.map_err(BenchError::of("clients"))?;
        let now = monotonic() - began;
        for slot in 0..n {
            let Some(packet) = burst.take(slot) else { continue };
            if let Some((flow, request)) = answer(packet.data()) {
                let outcome = flows.get_mut(flow).map(|flow| &mut flow.outcome);
                let asked = outcome.and_then(|outcome| outcome.requests.get_mut(request));
                if let Some((sent, answered)) = asked {
                    *answered = Some(now.saturating_sub(*sent));
                }
            }
            self.cache.free(packet);
        }
        Ok(())
    }
}

/// Which request of which flow a frame answers, if it is an answer.
fn answer(frame: &[u8]) -> Option<(usize, usize)> {
    if frame.get(34..36)? != PORT.to_be_bytes() {
        return None;
    }
    let flow = u16::from_be_bytes(*frame.get(FLOW..)?.first_chunk()?);
    let request = u32::from_be_bytes(*frame.get(TIME..)?.first_chunk()?);
    Some((flow.into(), request as usize))
}

impl Outcome {
    /// The times that answers took to requests sent in this part of the time, in µs, sorted.
    pub(super) fn latencies(outcomes: &[Outcome], from: Duration) -> Vec<f64> {
        let since = from.as_nanos() as u64;
        let requests = outcomes.iter().flat_map(|outcome| &outcome.requests);
        let answered = requests.filter(|(sent, _)| *sent >= since).filter_map(|(_, took)| *took);
        let mut all: Vec<f64> = answered.map(|took| took as f64 / 1e3).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// The time after `from`, in ms, at which the first of [`STEADY`] good slices of time begins: at
    /// least half of the requests of each were answered within `good`; nothing if there are none.
    pub(super) fn transient(
        outcomes: &[Outcome],
        (from, slice): (Duration, Duration),
        good: Duration,
    ) -> Option<f64> {
        let (from, good) = (from.as_nanos() as u64, good.as_nanos() as u64);
        let mut slices: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        for (sent, took) in outcomes.iter().flat_map(|outcome| &outcome.requests) {
            let number = sent.saturating_sub(from) / slice.as_nanos() as u64;
            let (all, fine) = slices.entry(number).or_default();
            *all += 1;
            *fine += usize::from(took.is_some_and(|took| took <= good));
        }
        let slices: Vec<_> =
            slices.into_iter().map(|(n, (all, fine))| (n, 2 * fine >= all)).collect();
        let steady = slices.windows(STEADY).find(|slices| slices.iter().all(|(_, good)| *good))?;
        Some(steady[0].0 as f64 * slice.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transient_ends_when_half_of_the_answers_are_good() {
        let ms = |n: u64| n * 1_000_000;
        let good = |sent: u64| (ms(sent), Some(10));
        let mut requests = vec![(ms(5), None), good(6), (ms(7), Some(ms(9))), (ms(8), None)];
        requests.extend((9..=18).map(good));
        let outcomes = [Outcome { requests }];
        let slices = |from| (Duration::from_millis(from), Duration::from_millis(2));
        let transient =
            |from| Outcome::transient(&outcomes, slices(from), Duration::from_millis(1));
        assert_eq!((transient(5), transient(4), transient(12)), (Some(4.0), Some(2.0), None));
        assert_eq!(Outcome::transient(&[], slices(0), LATE), None);
        assert_eq!(Outcome::latencies(&outcomes, Duration::from_millis(17)), [0.01, 0.01]);
    }

    #[test]
    fn what_is_no_answer_is_not_taken_for_one() {
        for frame in [&[][..], &[0; 64], &[0; 35]] {
            assert_eq!(answer(frame), None);
        }
    }
}
