//! One direction of a faulty queue.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use weever_packet::{BURST, Buffer, Flags, Nanos, PoolCache};

use super::Faults;
use super::control::{LaneCounters, count};
use super::passage::Passage;
use crate::random::Random;

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
