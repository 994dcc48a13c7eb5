//! One direction of a faulty queue.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use weever_packet::{BURST, Buffer, Flags, Nanos, PoolCache};

use super::control::{Faults, LaneCounters, Rate, count};

/// How many packets may wait to be overtaken; a packet drawn beyond that goes its way.
const MOST_KEPT: usize = BURST;

/// How many packets may be on their way.
const MOST_WAITING: usize = 1 << 16;

#[derive(Debug)]
struct Kept {
    packet: Buffer,
    /// How many are still to overtake it.
    to_pass: u32,
}

/// Packets on their way, those kept back, and those that got through.
#[derive(Debug)]
pub(super) struct Lane {
    faults: Faults,
    random: Random,
    passage: Passage,
    /// On their way, with the time of their arrival, which never falls.
    waiting: VecDeque<(Nanos, Buffer)>,
    kept: Vec<Kept>,
    pub(super) ready: VecDeque<Buffer>,
}

impl Lane {
    pub(super) fn new(faults: Faults, random: Random) -> Lane {
        Lane {
            faults,
            random,
            passage: Passage::new(faults.rate),
            waiting: VecDeque::new(),
            kept: Vec::with_capacity(MOST_KEPT),
            // Everything kept may be released behind a full burst.
            ready: VecDeque::with_capacity(BURST + MOST_KEPT),
        }
    }

    /// Decides a packet's fate.
    pub(super) fn push(
        &mut self,
        mut packet: Buffer,
        now: Nanos,
        pool: &mut PoolCache,
        counters: &LaneCounters,
    ) {
        let faults = &self.faults;
        if faults.longest != 0 && packet.len() > faults.longest.into() {
            count(&counters.too_long);
            return pool.free(packet);
        }
        if self.random.chance(faults.loss) {
            count(&counters.lost);
            return pool.free(packet);
        }
        if self.random.chance(faults.corrupt) {
            flip_a_bit(&mut packet, &mut self.random);
            count(&counters.corrupted);
        }
        let twin = if self.random.chance(faults.duplicate) { twin(&packet, pool) } else { None };
        self.set_out(packet, now, pool, counters);
        if let Some(twin) = twin {
            count(&counters.duplicated);
            self.set_out(twin, now, pool, counters);
        }
    }

    /// Sends a packet on its way, at the end of which it may be overtaken.
    fn set_out(
        &mut self,
        packet: Buffer,
        now: Nanos,
        pool: &mut PoolCache,
        counters: &LaneCounters,
    ) {
        if !self.faults.has_clock() {
            return self.arrive(packet, counters);
        }
        let full = self.waiting.len() == MOST_WAITING;
        let Some(through) = self.passage.enter(packet.len(), now).filter(|_| !full) else {
            count(&counters.overflowed);
            return pool.free(packet);
        };
        let jitter = self.random.below(self.faults.jitter.saturating_add(1));
        let at = through.saturating_add(self.faults.delay).saturating_add(jitter);
        let at = self.waiting.back().map_or(at, |(last, _)| at.max(*last));
        self.waiting.push_back((at, packet));
    }

    /// Lets those arrive whose time has come.
    pub(super) fn advance(&mut self, now: Nanos, counters: &LaneCounters) {
        while let Some((_, packet)) = self.waiting.pop_front_if(|(at, _)| *at <= now) {
            self.arrive(packet, counters);
        }
    }

    fn arrive(&mut self, packet: Buffer, counters: &LaneCounters) {
        if self.kept.len() < MOST_KEPT && self.random.chance(self.faults.reorder) {
            count(&counters.reordered);
            let to_pass = self.random.up_to(self.faults.reorder_depth);
            return self.kept.push(Kept { packet, to_pass });
        }
        self.ready.push_back(packet);
        for kept in &mut self.kept {
            kept.to_pass -= 1;
        }
        let due = self.kept.extract_if(.., |kept| kept.to_pass == 0);
        self.ready.extend(due.map(|kept| kept.packet));
    }

    /// Lets go of the kept packet, if nothing is on its way that could overtake it.
    pub(super) fn release(&mut self) {
        if self.waiting.is_empty() {
            self.ready.extend(self.kept.drain(..).map(|kept| kept.packet));
        }
    }

    /// Loses everything.
    pub(super) fn cut(&mut self, pool: &mut PoolCache, counters: &LaneCounters) {
        let waiting = self.waiting.drain(..).map(|(_, packet)| packet);
        let kept = self.kept.drain(..).map(|kept| kept.packet);
        for packet in waiting.chain(kept).chain(self.ready.drain(..)) {
            counters.while_down.fetch_add(1, Ordering::Relaxed);
            pool.free(packet);
        }
    }

    /// Whether anything can come out without time passing.
    pub(super) fn holds_some_back(&self) -> bool {
        !self.ready.is_empty() || self.waiting.is_empty() && !self.kept.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.ready.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.waiting.front().map(|(at, _)| *at)
    }
}

fn flip_a_bit(packet: &mut Buffer, random: &mut Random) {
    let bit = random.below(packet.len() as u64 * 8) as usize;
    if let Some(byte) = packet.data_mut().get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
    // The device vouched for the packet before it was damaged.
    let meta = packet.meta_mut();
    meta.flags = meta.flags.without(Flags::CHECKSUM_VERIFIED);
}

/// A copy at the same place of another frame, with the same metadata.
fn twin(packet: &Buffer, pool: &mut PoolCache) -> Option<Buffer> {
    let mut twin = pool.alloc()?;
    let end = packet.head() as usize + packet.len();
    if !u16::try_from(end).is_ok_and(|end| twin.set_bounds(packet.head(), end)) {
        pool.free(twin);
        return None;
    }
    twin.data_mut().copy_from_slice(packet.data());
    *twin.meta_mut() = *packet.meta();
    Some(twin)
}

const SECOND: u128 = 1_000_000_000;

/// The generic cell rate algorithm in its virtual scheduling form (ITU-T I.371, annex A): the same
/// as a bucket of tokens that is filled at the rate.
#[derive(Debug)]
pub(super) struct Passage {
    rate: Rate,
    /// When the passage has worked off everything that entered, at its rate.
    worked_off: Nanos,
}

impl Passage {
    pub(super) fn new(rate: Rate) -> Passage {
        Passage { rate, worked_off: 0 }
    }

    /// When a packet of `len` bytes that comes now is through; `None` if the queue is full.
    pub(super) fn enter(&mut self, len: usize, now: Nanos) -> Option<Nanos> {
        if self.rate.bits_per_second == 0 {
            return Some(now);
        }
        let burst = self.takes(self.rate.burst as usize);
        let starts = self.worked_off.max(now);
        let waits = (starts - now).saturating_sub(burst);
        // An empty queue takes any packet, however small it is.
        if waits > 0 && waits.saturating_add(self.takes(len)) > self.takes(self.rate.queue as usize)
        {
            return None;
        }
        self.worked_off = starts.saturating_add(self.takes(len));
        Some(self.worked_off.saturating_sub(burst).max(now))
    }

    /// How long so many bytes take.
    fn takes(&self, bytes: usize) -> Nanos {
        let time = bytes as u128 * 8 * SECOND / u128::from(self.rate.bits_per_second);
        Nanos::try_from(time).unwrap_or(Nanos::MAX)
    }
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True with probability `p`; always for 1 and above, never for 0 and below.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        // The upper 53 bits make an exact double in [0, 1).
        p > 0.0 && ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// A number in `0..end`; 0 if `end` is. Draws nothing when there is no choice.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end <= 1 { 0 } else { self.next() % end }
    }

    /// A number in `1..=most`; 1 if `most` is 0.
    pub(crate) fn up_to(&mut self, most: u32) -> u32 {
        (self.next() % u64::from(most.max(1))) as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte takes a microsecond.
    fn passage(burst: u32, queue: u32) -> Passage {
        Passage::new(Rate { bits_per_second: 8_000_000, burst, queue })
    }

    #[test]
    fn a_wire_takes_a_packets_length() {
        let mut wire = passage(0, 1000);
        assert_eq!(wire.enter(100, 5_000), Some(105_000));
        assert_eq!(wire.enter(100, 5_000), Some(205_000));
        assert_eq!(wire.enter(100, 1_000_000), Some(1_100_000), "a pause is not saved up");
    }

    #[test]
    fn a_burst_passes_at_once_and_has_to_be_earned_again() {
        let mut bucket = passage(200, 1000);
        let through = |bucket: &mut Passage, now| bucket.enter(100, now).unwrap();
        assert_eq!([0, 0, 0].map(|now| through(&mut bucket, now)), [0, 0, 100_000]);
        assert_eq!(through(&mut bucket, 250_000), 250_000);
        assert_eq!(through(&mut bucket, 250_000), 300_000);
    }

    #[test]
    fn the_queue_has_an_end() {
        let mut wire = passage(0, 250);
        let accepted = (0..10).filter(|_| wire.enter(100, 0).is_some()).count();
        assert_eq!(accepted, 2, "250 bytes waiting hold no third");
        assert!(wire.enter(100, 120_000).is_some(), "one is through");
        assert!(passage(0, 0).enter(9_000, 0).is_some(), "no packet waits");
    }
}
