//! What it costs to take packets off a ring that several threads share: the claim ring beside one with a lock.
//!
//! The ring is full before the clock starts, and is emptied by batches; there is no work, so contention is as
//! bad as it can be. [`fed`](super::fed) measures the same while a producer fills the ring.

use std::hint::{black_box, spin_loop};
use std::sync::{Arc, Mutex};

use weever_ring::simulated::SimulatedQueue;

use super::crew::{Crew, Member};
use crate::samples::Samples;
use crate::{BenchError, Report};

/// Slots of the rings, all of them full.
const RING: u32 = 1 << 16;
/// Descriptors that a thread takes at once.
pub(super) const BATCH: usize = 32;
/// Runs in a round.
const RUNS: usize = 5;
/// Numbers of threads.
pub(super) const THREADS: [usize; 3] = [1, 2, 4];

/// A way for threads to take what they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Claims,
    Mutex,
    Spinlock,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Claims, Kind::Mutex, Kind::Spinlock];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Claims => "claim ring",
            Kind::Mutex => "ring in a mutex",
            Kind::Spinlock => "ring in a spinlock",
        }
    }
}

/// A ring as its consumers see it.
pub(super) enum Ring {
    Claims(Arc<SimulatedQueue<u64>>),
    Locked(Mutex<rtrb::Consumer<u64>>, Kind),
}

/// Its other end.
pub(super) enum Feed {
    Claims(Arc<SimulatedQueue<u64>>),
    Plain(rtrb::Producer<u64>),
}

impl Ring {
    /// An empty ring of so many slots, a power of two.
    pub(super) fn new(kind: Kind, len: u32) -> (Ring, Feed) {
        if kind == Kind::Claims {
            let ring = Arc::new(SimulatedQueue::new(len, 0, 0).expect("a power of two"));
            return (Ring::Claims(Arc::clone(&ring)), Feed::Claims(ring));
        }
        let (consumer, feed) = plain(len);
        (Ring::Locked(Mutex::new(consumer), kind), feed)
    }

    /// Takes up to a batch, and says how many.
    #[inline]
    pub(super) fn take(&self, out: &mut [u64; BATCH]) -> usize {
        match self {
            Ring::Claims(ring) => ring.pop(out),
            Ring::Locked(ring, Kind::Spinlock) => loop {
                match ring.try_lock() {
                    Ok(mut ring) => return pop(&mut ring, out),
                    Err(_) => spin_loop(),
                }
            },
            Ring::Locked(ring, _) => ring.lock().map_or(0, |mut ring| pop(&mut ring, out)),
        }
    }
}

impl Feed {
    /// Puts in as many of these as there is room for, and says how many.
    #[inline]
    pub(super) fn give(&mut self, numbers: &[u64]) -> usize {
        match self {
            Feed::Claims(ring) => ring.give(numbers),
            Feed::Plain(ring) => {
                let room = numbers.len().min(ring.slots());
                let chunk = ring.write_chunk_uninit(room).expect("there is room");
                chunk.fill_from_iter(numbers.iter().copied())
            }
        }
    }
}

/// An empty ring for one consumer.
pub(super) fn plain(len: u32) -> (rtrb::Consumer<u64>, Feed) {
    let (producer, consumer) = rtrb::RingBuffer::new(len as usize);
    (consumer, Feed::Plain(producer))
}

/// Fills a ring.
fn full<R>((ring, mut feed): (R, Feed)) -> R {
    let numbers: Vec<u64> = (0..u64::from(RING)).collect();
    let given = feed.give(&numbers);
    debug_assert_eq!(given, numbers.len(), "it was empty");
    ring
}

#[inline]
pub(super) fn pop(ring: &mut rtrb::Consumer<u64>, out: &mut [u64; BATCH]) -> usize {
    let ready = ring.slots().min(BATCH);
    let chunk = ring.read_chunk(ready).expect("they are there");
    chunk.into_iter().zip(out).for_each(|(number, place)| *place = number);
    ready
}

/// Takes until nothing is left. Returns the number of packets and their sum, by which none can be lost or
/// taken twice unseen.
fn empty(mut take: impl FnMut(&mut [u64; BATCH]) -> usize) -> (u64, u64) {
    let (mut out, mut count, mut sum) = ([0; BATCH], 0, 0);
    loop {
        let taken = take(&mut out);
        if taken == 0 {
            return (count, sum);
        }
        count += taken as u64;
        sum += black_box(&out[..taken]).iter().sum::<u64>();
    }
}

/// Nanoseconds of the team for each packet.
fn shared(kind: Kind, threads: usize) -> Result<f64, BenchError> {
    let ring = full(Ring::new(kind, RING));
    let work = |member: &Member<'_>| {
        member.begin();
        Ok((empty(|out| ring.take(out)), member.nanos()))
    };
    checked(Crew::run((0..threads).map(|_| work))?)
}

/// The same by one thread on a ring for one consumer.
fn alone() -> Result<f64, BenchError> {
    let work = |member: &Member<'_>| {
        let mut ring = full(plain(RING));
        member.begin();
        Ok((empty(|out| pop(&mut ring, out)), member.nanos()))
    };
    checked(Crew::run([work])?)
}

fn checked(results: Vec<((u64, u64), u64)>) -> Result<f64, BenchError> {
    let total = |of: fn(&((u64, u64), u64)) -> u64| results.iter().map(of).sum::<u64>();
    let all = u64::from(RING);
    each_once(all, total(|((count, _), _)| *count), total(|((_, sum), _)| *sum))?;
    let longest = results.iter().map(|(_, nanos)| *nanos).max().unwrap_or_default();
    Ok(longest as f64 / all as f64)
}

/// Whether so many packets with this sum can be the numbers below `all`, each once.
pub(super) fn each_once(all: u64, count: u64, sum: u64) -> Result<(), BenchError> {
    let is_all = (count, sum) == (all, all * (all - 1) / 2);
    let missing = || BenchError::of("claims")(format!("{count} packets of {all}"));
    if is_all { Ok(()) } else { Err(missing()) }
}

/// The costs of each kind at each number of threads.
#[derive(Default)]
pub(super) struct Claims {
    alone: Samples,
    shared: [[Samples; THREADS.len()]; Kind::ALL.len()],
}

impl Claims {
    /// A round of all of them: some short runs.
    pub(super) fn round(&mut self) -> Result<(), BenchError> {
        (0..RUNS).try_for_each(|_| self.run())
    }

    fn run(&mut self) -> Result<(), BenchError> {
        self.alone.push(alone()?);
        for (kind, samples) in Kind::ALL.into_iter().zip(&mut self.shared) {
            for (threads, samples) in THREADS.into_iter().zip(samples) {
                samples.push(shared(kind, threads)?);
            }
        }
        Ok(())
    }

    pub(super) fn report(&self, report: &mut Report) {
        report.setup(format!(
            "claims: a full ring of {RING} emptied in batches of {BATCH}; wall time for each packet of the team"
        ));
        report.row("claim: plain ring, one thread", "ns/packet", &self.alone);
        for (kind, samples) in Kind::ALL.into_iter().zip(&self.shared) {
            for (threads, samples) in THREADS.into_iter().zip(samples) {
                let name = format!("claim: {}, threads: {threads}", kind.name());
                report.row(&name, "ns/packet", samples);
            }
        }
        let [claims, mutex, spinlock] = &self.shared;
        report.ratio("claim_one_thread_vs_plain", "ratio", &claims[0].ratio(&self.alone));
        report.ratio("claim_two_threads_vs_mutex", "ratio", &claims[1].ratio(&mutex[1]));
        report.ratio("claim_two_threads_vs_spinlock", "ratio", &claims[1].ratio(&spinlock[1]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_hands_out_each_packet_once() {
        for kind in Kind::ALL {
            for threads in THREADS {
                assert!(shared(kind, threads).unwrap() > 0.0, "{kind:?} {threads}");
            }
        }
        assert!(alone().unwrap() > 0.0);
    }

    #[test]
    fn a_packet_that_is_missing_is_noticed() {
        let all = u64::from(RING);
        let sum = all * (all - 1) / 2;
        assert!(checked(vec![((all, sum), 1)]).is_ok());
        assert!(checked(vec![((all - 1, sum), 1)]).is_err());
        assert!(checked(vec![((all, sum - 1), 1)]).is_err());
    }
}
