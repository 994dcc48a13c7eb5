//! Replacing a worker's graph between two bursts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weever_block::Priority;
use weever_packet::Nanos;

use super::Engine;
use super::runtime::Runtime;
use super::task_queues::Task;
use crate::counters::total;
use crate::schedule::{Program, Removed, Update};

impl Engine {
    /// Switches to the graph of `update`, which must have been made for the graph that this engine
    /// runs. Unchanged blocks keep their state and tasks stay queued; tasks at removed nodes go
    /// where the change says, or are counted drops. Afterwards `update` holds the objects no longer
    /// needed.
    pub fn switch(&mut self, update: &mut Update, now: Nanos) {
        if !self.faults.is_empty() {
            self.forget_faults(update);
        }
        self.give_up_flows(update, now);
        let went_on = self.move_blocks(update, now);
        self.end_flows(update, &went_on);
        if !self.runtime.deadlines.is_empty() {
            // A block that takes another's place is polled when that would have been.
            let stays = |old| update.kept.iter().chain(&update.replaced).find(|node| node.0 == old);
            self.runtime.deadlines.renumber(|old| stays(old).map(|node| node.1));
        }
        std::mem::swap(&mut self.plan, &mut update.plan);
        std::mem::swap(&mut self.blocks, &mut update.blocks);
        std::mem::swap(&mut self.shortcuts, &mut update.shortcuts);
        std::mem::swap(&mut self.state.masks, &mut update.masks);
        update.cells.go_on_from(&self.runtime.counters, &update.counters);
        self.counters.publish(update.cells.clone());
        std::mem::swap(&mut self.runtime.counters, &mut update.cells);
        self.runtime.epoch = update.epoch;
        self.runtime.tasks.widen(self.plan.program.entries.len());
        self.runtime.recount_delayed(update);
        let program = &self.plan.program;
        update.removed.iter().for_each(|removed| self.runtime.clear(program, *removed, update));
        for entry in &update.init {
            if !self.runtime.is_home(program.home(*entry)) {
                continue;
            }
            // A queue too small for one task is a bound like any other.
            let _ = self.runtime.tasks.queue(Priority::High).push(*entry, None);
        }
    }

    /// Returns the replaced nodes whose blocks went on with their predecessors' state.
    fn move_blocks(&mut self, update: &mut Update, now: Nanos) -> Vec<u32> {
        let mut went_on = Vec::new();
        for (old, new) in &update.kept {
            update.blocks[*new as usize] = self.blocks[*old as usize].take();
        }
        for (old, new) in &update.replaced {
            let Some(old) = &mut self.blocks[*old as usize] else { continue };
            let Some(successor) = &mut update.blocks[*new as usize] else { continue };
            let node = &update.plan.program.nodes[*new as usize].name;
            let mut hand_over = || old.export_state().map(|state| successor.import_state(state));
            match catch_unwind(AssertUnwindSafe(&mut hand_over)) {
                Ok(None) => {}
                Ok(Some(Ok(()))) => went_on.push(*new),
                Ok(Some(Err(state))) => update.refused.push((node.clone(), state)),
                Err(panic) => {
                    self.faults.panicked(node, now, &*panic);
                    update.refused.push((node.clone(), Box::new(())));
                }
            }
        }
        went_on
    }

    /// The flows of blocks that start afresh have ended.
    fn end_flows(&self, update: &Update, went_on: &[u32]) {
        for node in &update.plan.program.sharded {
            let stays = update.kept.iter().any(|(_, new)| new == node) || went_on.contains(node);
            if let Some(flows) = update.plan.program.nodes[*node as usize].flows.as_ref()
                && !stays
            {
                flows.owners.release_all(self.runtime.worker);
            }
        }
    }

    /// A new block has a clean record; one that stays keeps its own.
    fn forget_faults(&mut self, update: &Update) {
        for name in self.faults.nodes() {
            let named =
                |(_, new): &(u32, u32)| update.plan.program.nodes[*new as usize].name == name;
            let stays = update.kept.iter().any(named);
            if !stays {
                self.faults.replaced(&name);
            }
        }
    }

    /// The number of the graph that runs; 0 is the first one.
    pub fn epoch(&self) -> u64 {
        self.runtime.epoch
    }
}

impl Runtime {
    /// Delayed tasks hold the counter for a full queue, which has a new index.
    fn recount_delayed(&mut self, update: &Update) {
        if !self.delayed.is_empty() {
            self.delayed.retain(|delayed| {
                delayed.full = update.counters[delayed.full.index()];
                true
            });
        }
    }

    fn clear(&mut self, program: &Program, removed: Removed, update: &Update) {
        let mut waiting: Vec<(Priority, Task)> = Vec::new();
        self.tasks.take_all(removed.entry, |priority, task| waiting.push((priority, task)));
        self.blocked.wake_all(removed.entry, |task| waiting.push((Priority::High, task)));
        self.clear_delayed(removed, &mut waiting);
        for (priority, task) in waiting {
            match removed.to {
                Some(to) => self.pass_on(program, to, priority, task, update.dropped),
                None => self.refuse(task, update.dropped),
            }
        }
        self.counters.set(total::BLOCKED, self.blocked.len() as u64);
        self.counters.set(total::DELAYED, self.delayed.len() as u64);
    }

    /// Tasks that move to another node keep their deadline.
    fn clear_delayed(&mut self, removed: Removed, dropped: &mut Vec<(Priority, Task)>) {
        if self.delayed.is_empty() {
            return;
        }
        self.delayed.retain(|delayed| {
            if delayed.entry != removed.entry {
                return true;
            }
            match removed.to {
                Some(to) => delayed.entry = to,
                None => dropped.push((Priority::Low, delayed.task.take())),
            }
            removed.to.is_some()
        });
    }
}
