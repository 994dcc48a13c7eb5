//! Tasks that go together: as long as all of a batch leave each node by the same port, they need no masks.
//!
//! ```text
//!  step ── all by one port ──► one step behind it ── all by one port ──► …  their end
//!    └─ by several, or several steps behind it ─► the walk goes on with masks
//! ```
//!
//! One packet alone always goes together with itself, and so do most bursts of one flow. Each node and port is
//! counted at once; there is nothing to look for and nothing to clear when the tasks have ended.

use weever_block::Ports;
use weever_packet::{Mask, number_of};

use super::batch::BatchState;
use super::walk::{Walk, only_sound, ports_of};
use crate::faults::Loss;
use crate::schedule::{EntryCode, NO_NODE, Next, NextPlace, Step, StepKind, span};
use crate::slots::{Counter, total};

/// How all tasks have left a step.
enum Left {
    /// By the port with this number.
    By(usize),
    /// The block has taken them away, or they are lost.
    Gone,
    /// In several ways, which their masks tell.
    Apart,
}

impl Walk<'_> {
    /// Walks from the first step while the tasks stay together; returns whether they have ended. If they have not,
    /// the masks and the steps that are due say where they are.
    #[inline]
    pub(super) fn together(&mut self, code: &EntryCode) -> bool {
        let tasks = self.batch.tasks;
        let Some(mut step) = code.steps.first() else { return false };
        if tasks != self.batch.occupied || step.kind != StepKind::Function {
            self.state.masks.due[0] = 1;
            return false;
        }
        let n = u64::from(number_of(tasks));
        let mut at = 0;
        loop {
            if let Some(shortcut) = step.shortcut
                && self.try_shortcut(code, shortcut, tasks)
            {
                if let Some(next) = self.whole_way(code, shortcut, tasks, n) {
                    (at, step) = (next, &code.steps[next as usize]);
                    continue;
                }
                let taken = self.take_ways(code, shortcut, tasks);
                if taken != 0 {
                    self.run_rest(code, at, tasks & !taken);
                    return false;
                }
            }
            self.count_together(step, 0, n);
            let port = match self.run_together(step, tasks) {
                Left::By(port) => port,
                Left::Gone => return self.end(None, n),
                Left::Apart => return self.part(code, at),
            };
            let slot = step.first_slot as usize + 1 + port;
            let next = &code.next[slot];
            if next.place == NextPlace::Masks {
                return self.part(code, at);
            }
            self.state.masks.slots[slot] = 0;
            self.count_together(step, 1 + port, n);
            let last = self.pass_operators(code, next, (step, 1 + port), n);
            match next.place {
                NextPlace::Step(next) => (at, step) = (next, &code.steps[next as usize]),
                _ => return self.end(reason(code, last), n),
            }
        }
    }

    /// Runs the step's block.
    #[inline]
    fn run_together(&mut self, step: &Step, tasks: Mask) -> Left {
        let BatchState { masks, requests, running, lost, .. } = &mut *self.state;
        let Some(block) = &mut self.blocks[step.node as usize] else {
            lost.push((step.node, Loss::Quarantine, tasks));
            return Left::Gone;
        };
        *running = step.node;
        let outputs = &mut masks.slots[ports_of(step)];
        self.runtime.call(self.now, requests, None, |cx| {
            block.run(cx, self.burst, tasks, &mut Ports::new(outputs));
        });
        #[cfg(debug_assertions)]
        (*running = NO_NODE);
        let port = outputs.iter().position(|left| *left != 0);
        let others = outputs[port.map_or(0, |port| port + 1)..].iter().any(|left| *left != 0);
        let all = port.filter(|port| outputs[*port] == tasks && !others);
        let claimed = if requests.is_empty() { 0 } else { self.drain(step, tasks) };
        match (port, all) {
            (Some(_), Some(port)) if claimed == 0 => Left::By(port),
            (None, _) if claimed == tasks => Left::Gone,
            _ => {
                self.check_apart(step, tasks, claimed);
                Left::Apart
            }
        }
    }

    /// Has the masks say nothing that cannot be, if the block is faulty.
    #[cold]
    fn check_apart(&mut self, step: &Step, tasks: Mask, claimed: Mask) {
        let name = &self.program.nodes[step.node as usize].name;
        let enabled = only_sound(&mut self.state.masks.slots[ports_of(step)], tasks, name);
        debug_assert!(
            enabled & claimed == 0 && enabled | claimed == tasks,
            "block of node {name}: of input {tasks:#x}, {enabled:#x} left and {claimed:#x} were \
             taken away; each task must do one of the two",
        );
    }

    /// Counts tasks at a step's input, offset 0, or at one of its ports.
    #[inline]
    fn count_together(&mut self, step: &Step, offset: usize, n: u64) {
        self.runtime.counters.add(step.counter.plus(offset), n);
        #[cfg(test)]
        self.state.together.push((step.first_slot as usize + offset, self.batch.tasks));
    }

    /// Counts the operators between a port and the next step; returns the last step and port passed.
    #[inline]
    fn pass_operators<'c>(
        &mut self,
        code: &'c EntryCode,
        next: &Next,
        mut last: (&'c Step, usize),
        n: u64,
    ) -> (&'c Step, usize) {
        for (operator, port) in &code.through[span(&next.through)] {
            last = (&code.steps[*operator as usize], *port as usize);
            self.count_together(last.0, 0, n);
            self.count_together(last.0, last.1, n);
        }
        last
    }

    /// The step behind the one way that all tasks have taken, if it is known; they are counted.
    #[inline]
    fn whole_way(&mut self, code: &EntryCode, shortcut: u32, tasks: Mask, n: u64) -> Option<u32> {
        let ways = &code.ways[span(&code.shortcuts[shortcut as usize].ways)];
        let way = ways.get(self.state.ways.only(tasks)?)?.as_ref()?;
        let (next, counter) = way.whole?;
        if !self.observe(code, way, tasks) {
            return None;
        }
        let _ = self.state.ways.take_first();
        if self.state.ways.is_counting() {
            self.count_own(code, shortcut, tasks);
        }
        self.runtime.counters.add(counter, n);
        #[cfg(test)]
        self.state.taken.push((counter, tasks));
        Some(next)
    }

    /// Has the walk go on behind a step whose ports have masks. The tasks have not ended.
    #[inline(never)]
    fn part(&mut self, code: &EntryCode, at: u32) -> bool {
        self.state.masks.passed[at as usize / 64] |= 1 << (at % 64);
        self.wake_behind(code, at);
        false
    }

    /// Runs a step for the tasks that have not taken a way past it, and has the walk go on behind it.
    #[inline(never)]
    fn run_rest(&mut self, code: &EntryCode, at: u32, tasks: Mask) {
        if tasks != 0 && self.function(&code.steps[at as usize], tasks) {
            self.part(code, at);
        }
    }

    /// Counts the batch, whose tasks have ended.
    #[inline]
    fn end(&mut self, reason: Option<Counter>, n: u64) -> bool {
        let tasks = self.batch.tasks;
        let mut unclaimed = tasks & !self.state.disposed;
        if !self.state.lost.is_empty() {
            unclaimed = self.count_lost(unclaimed);
        }
        let counters = &*self.runtime.counters;
        if unclaimed != 0 {
            counters.add(reason.unwrap_or(total::UNCLAIMED), u64::from(number_of(unclaimed)));
        }
        counters.add(total::TASKS, n);
        counters.add(total::BATCHES, 1);
        self.state.running = NO_NODE;
        true
    }
}

/// The counter of packets that end at a port.
#[inline]
fn reason(code: &EntryCode, (step, offset): (&Step, usize)) -> Option<Counter> {
    let slot = step.first_slot + offset as u32;
    code.drops[span(&step.drops)].iter().find(|drop| drop.slot == slot).map(|drop| drop.reason)
}
