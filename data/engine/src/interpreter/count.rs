//! Counts the nodes and ports that a batch has passed, and where its packets ended.

use std::sync::Arc;

use weever_packet::{Mask, bits};

use super::walk::Walk;
use crate::schedule::{End, EntryCode, TaskMasks, span};
use crate::slots::total;

impl Walk<'_> {
    /// One pass over the masks that the steps left updates the counters and clears the masks. Most
    /// nodes see the same tasks, so most masks equal the previous one.
    #[inline(never)]
    pub(super) fn count(&mut self, code: &EntryCode) {
        let mut unclaimed = self.batch.occupied & !self.state.disposed;
        if !self.state.lost.is_empty() {
            unclaimed = self.count_lost(unclaimed);
        }
        if unclaimed != 0 {
            self.count_drops(code, unclaimed);
        }
        if self.batch.occupied != self.batch.tasks {
            self.count_timers(code);
        }
        let counters = &*self.runtime.counters;
        let TaskMasks { slots, passed, ending, .. } = &mut self.state.masks;
        ending.fill(0);
        let mut last = (self.batch.tasks, u64::from(self.batch.tasks.count_ones()));
        counters.add(total::TASKS, last.1);
        counters.add(total::BATCHES, 1);
        for (word, steps) in passed.iter_mut().zip(code.steps.chunks(64)) {
            for step in bits(std::mem::take(word)).map(|i| &steps[i]) {
                for (i, mask) in slots[step.slots()].iter_mut().enumerate() {
                    if *mask != 0 {
                        if *mask != last.0 {
                            last = (*mask, u64::from(mask.count_ones()));
                        }
                        counters.add(step.counter.plus(i), last.1);
                        *mask = 0;
                    }
                }
            }
        }
    }

    /// Counts each unclaimed packet once: at the first port with a stated reason by which it left, in
    /// the order of the schedule, else as used, else at the first port that leads nowhere.
    #[inline(never)]
    fn count_drops(&self, code: &EntryCode, mut unclaimed: Mask) {
        let TaskMasks { slots, ending, .. } = &self.state.masks;
        let counters = &*self.runtime.counters;
        for end in [End::Stated, End::Used, End::Nowhere] {
            for (word, steps) in ending.iter().zip(code.steps.chunks(64)) {
                for step in bits(*word).map(|i| &steps[i]) {
                    let drops = &code.drops[span(&step.drops)];
                    for drop in drops.iter().filter(|drop| drop.end == end) {
                        let tasks = slots[drop.slot as usize] & unclaimed;
                        if tasks != 0 {
                            counters.add(drop.reason, u64::from(tasks.count_ones()));
                            unclaimed &= !tasks;
                        }
                    }
                }
            }
            if unclaimed == 0 {
                return;
            }
        }
        counters.add(total::UNCLAIMED, u64::from(unclaimed.count_ones()));
    }

    /// Counts tasks without a packet apart, and takes them out of the masks that packets are counted by.
    #[inline(never)]
    fn count_timers(&mut self, code: &EntryCode) {
        let counters = &*self.runtime.counters;
        let TaskMasks { slots, passed, .. } = &mut self.state.masks;
        for (word, steps) in passed.iter().zip(code.steps.chunks(64)) {
            for step in bits(*word).map(|i| &steps[i]) {
                let slots = &mut slots[step.slots()];
                let timers = slots[0] & !self.batch.occupied;
                if timers != 0 {
                    let counter = step.counter.plus(slots.len());
                    counters.add(counter, u64::from(timers.count_ones()));
                }
                slots.iter_mut().for_each(|mask| *mask &= self.batch.occupied);
            }
        }
    }

    /// Counts the packets of `unclaimed` that nodes without a working block have lost; returns the
    /// others.
    #[cold]
    pub(super) fn count_lost(&mut self, mut unclaimed: Mask) -> Mask {
        for (node, loss, tasks) in self.state.lost.drain(..) {
            let lost = tasks & unclaimed;
            unclaimed &= !tasks;
            let name: &Arc<str> = &self.program.nodes[node as usize].name;
            self.faults.count(name, loss, u64::from(lost.count_ones()));
        }
        unclaimed
    }
}
