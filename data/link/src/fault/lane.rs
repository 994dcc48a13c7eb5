//! One direction of a faulty queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use weever_packet::{BURST, Buffer, PoolCache};

use super::Faults;
use crate::random::Random;

/// How many packets may wait to be overtaken; a packet drawn beyond that goes its way.
const MOST_KEPT: usize = BURST;

#[derive(Debug)]
struct Kept {
    packet: Buffer,
    /// How many are still to overtake it.
    to_pass: u32,
}

/// Packets that went through the mill and those kept back in it.
#[derive(Debug)]
pub(super) struct Lane {
    faults: Faults,
    random: Random,
    kept: Vec<Kept>,
    pub(super) ready: VecDeque<Buffer>,
}

impl Lane {
    pub(super) fn new(faults: Faults, random: Random) -> Lane {
        // Everything kept may be released behind a full burst.
        let ready = VecDeque::with_capacity(BURST + MOST_KEPT);
        Lane { faults, random, kept: Vec::with_capacity(MOST_KEPT), ready }
    }

    /// Decides a packet's fate.
    pub(super) fn push(
        &mut self,
        packet: Buffer,
        pool: &mut PoolCache,
        lost: &AtomicU64,
        reordered: &AtomicU64,
    ) {
        if self.random.chance(self.faults.loss) {
            lost.fetch_add(1, Ordering::Relaxed);
            return pool.free(packet);
        }
        if self.kept.len() < MOST_KEPT && self.random.chance(self.faults.reorder) {
            reordered.fetch_add(1, Ordering::Relaxed);
            let to_pass = self.random.up_to(self.faults.reorder_depth);
            return self.kept.push(Kept { packet, to_pass });
        }
        self.ready.push_back(packet);
        self.passed();
    }

    /// A packet has overtaken all that are kept.
    fn passed(&mut self) {
        for kept in &mut self.kept {
            kept.to_pass -= 1;
        }
        let due = self.kept.extract_if(.., |kept| kept.to_pass == 0);
        self.ready.extend(due.map(|kept| kept.packet));
    }

    /// Lets go of everything that is kept.
    pub(super) fn release(&mut self) {
        self.ready.extend(self.kept.drain(..).map(|kept| kept.packet));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.ready.is_empty()
    }
}
