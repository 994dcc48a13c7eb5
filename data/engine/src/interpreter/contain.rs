//! Calls of blocks that may panic, outside of a walk and after one.
//!
//! A panic of a block costs its batch: packets that other nodes have taken go on their way, the
//! rest is dropped and counted, and a fresh block takes the culprit's place. Only calls of blocks are
//! contained: after a panic of the engine itself its state would be unknown.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use weever_block::{Block, Mask};
use weever_packet::Nanos;

use super::Engine;
use super::batch::owners;
use super::task_queues::Batch;
use super::walk::Walk;
use crate::faults::Loss;
use crate::schedule::{Entry, NO_NODE};

/// The most blocks polled in one go, so that packets are not kept waiting.
const MAX_POLLS: usize = 64;

impl Engine {
    /// Polls blocks whose deadlines have come. Returns how many.
    pub(super) fn poll_blocks(&mut self, now: Nanos) -> usize {
        if self.runtime.deadlines.is_empty() {
            return 0;
        }
        match self.runtime.deadlines.due(now) {
            Some(first) => self.poll_due(first, now),
            None => 0,
        }
    }

    #[inline(never)]
    fn poll_due(&mut self, first: u32, now: Nanos) -> usize {
        let mut burst = self.burst.take().unwrap_or_default();
        let (mut next, mut polled) = (Some(first), 0);
        while let Some(node) = next {
            let batch = Batch { entry: Entry(0), tasks: 0, occupied: 0 };
            self.walker(&mut burst, batch, now).poll(node);
            polled += 1;
            next = (polled < MAX_POLLS).then(|| self.runtime.deadlines.due(now)).flatten();
        }
        self.burst = Some(burst);
        polled
    }

    /// Replaces a block that panicked in a call outside of a walk.
    #[cold]
    pub(super) fn replace_after_question(&mut self, panic: Panic, now: Nanos) {
        let mut burst = self.burst.take().unwrap_or_default();
        let batch = Batch { entry: Entry(0), tasks: 0, occupied: 0 };
        self.walker(&mut burst, batch, now).replace_culprit(panic);
        self.burst = Some(burst);
    }
}

impl Walk<'_> {
    fn poll(mut self, node: u32) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.call(node))) {
            self.replace_culprit(panic);
        }
    }

    fn call(&mut self, node: u32) {
        let Some(block) = &mut self.blocks[node as usize] else { return };
        self.state.running = node;
        let (requests, flows) = (&mut self.state.requests, owners(self.program, node));
        self.runtime.call(self.now, requests, flows, |cx| block.poll(cx));
        self.dispositions().end_call(node);
        self.state.running = NO_NODE;
    }
}

type Panic = Box<dyn Any + Send>;

impl Walk<'_> {
    /// Ends a batch in which a block panicked; returns the tasks that go on in the burst, if some do.
    #[cold]
    pub(super) fn contain(&mut self, panic: Panic) -> Option<Batch> {
        let code = &*self.program.entries[self.batch.entry.index()].code;
        if self.state.collecting.is_some() {
            self.give_up_claim(panic);
        } else {
            let node = self.replace_culprit(panic);
            self.state.lost.push((node, Loss::Panic, Mask::MAX));
            self.state.masks.due.fill(0);
            self.count(code);
            // Of tasks that went together, the culprit may have left some.
            self.state.masks.slots.fill(0);
        }
        // Each round gives up a claim, so they come to an end.
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.dispositions().run())) {
                Ok(next) => return next,
                Err(panic) => self.give_up_claim(panic),
            }
        }
    }

    /// Drops the packets that the culprit was collecting.
    fn give_up_claim(&mut self, panic: Panic) {
        let Some(claim) = self.state.collecting.take() else { resume_unwind(panic) };
        let node = self.replace_culprit(panic);
        let to = self.state.claims[claim].to;
        let mut tasks = 0;
        for claim in self.state.claims[claim..].iter_mut().filter(|claim| claim.to == to) {
            tasks |= std::mem::take(&mut claim.tasks);
        }
        let lost = u64::from((tasks & self.batch.occupied).count_ones());
        self.faults.count(&self.program.nodes[node as usize].name, Loss::Panic, lost);
        self.dispositions().free(tasks);
    }

    /// Puts a fresh block in place of the one that panicked, or none after repeated panics. Returns
    /// its node.
    pub(super) fn replace_culprit(&mut self, panic: Panic) -> u32 {
        self.state.requests.clear();
        self.state.ways.clear();
        let shortcut = self.state.shortcut.take();
        let node = match shortcut {
            Some(number) => {
                self.program.shortcuts[number as usize].as_ref().map_or(NO_NODE, |s| s.place)
            }
            None => std::mem::replace(&mut self.state.running, NO_NODE),
        };
        if node == NO_NODE {
            resume_unwind(panic);
        }
        let name = &self.program.nodes[node as usize].name;
        let may_go_on = self.faults.panicked(name, self.now, &*panic);
        match shortcut {
            // Its packets go from node to node from now on.
            Some(number) => self.shortcuts[number as usize] = None,
            None => {
                let block = if may_go_on { self.fresh_block(node) } else { None };
                let old = std::mem::replace(&mut self.blocks[node as usize], block);
                // Its destructor meets the state that the panic left, and may well panic again.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(old)));
                self.runtime.deadlines.clear(node);
                if let Some(owners) = owners(self.program, node) {
                    owners.release_all(self.runtime.worker);
                }
                if let Some(entry) = self.program.nodes[node as usize].entry {
                    self.runtime.flows.lose_states(entry);
                }
                if self.blocks[node as usize].is_none() {
                    self.faults.quarantine(name);
                }
            }
        }
        node
    }

    fn fresh_block(&self, node: u32) -> Option<Box<dyn Block>> {
        let id = self.plan.id_at(node)?;
        let make = || self.maker.block(&self.plan.graph, id);
        catch_unwind(AssertUnwindSafe(make)).ok()?.ok()?
    }
}
