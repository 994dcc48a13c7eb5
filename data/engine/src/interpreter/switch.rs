//! Replacing a worker's graph between two bursts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weever_block::{Block, Priority, State};
use weever_packet::Nanos;

use super::Engine;
use super::runtime::Runtime;
use super::task_queues::Task;
use crate::schedule::{Program, Removed, Update};
use crate::slots::total;

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
        self.exchange_blocks(update, now);
        std::mem::swap(&mut self.plan, &mut update.plan);
        std::mem::swap(&mut self.shortcuts, &mut update.shortcuts);
        std::mem::swap(&mut self.state.masks, &mut update.masks);
        self.counters.change(update.cells.clone(), &update.recount);
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

    fn exchange_blocks(&mut self, update: &mut Update, now: Nanos) {
        if let Some(room) = &mut update.more_room {
            room.append(&mut self.blocks);
            std::mem::swap(room, &mut self.blocks);
        }
        if self.blocks.len() < update.plan.program.nodes.len() {
            self.blocks.resize_with(update.plan.program.nodes.len(), || None);
        }
        for built in &mut update.built {
            let old = &mut self.blocks[built.place as usize];
            let is_first = old.is_none();
            let mut went_on = false;
            if built.follows {
                let name = || &update.plan.program.nodes[built.place as usize].name;
                match hand_over(old, &mut built.block) {
                    Ok(None) => {}
                    Ok(Some(Ok(()))) => went_on = true,
                    Ok(Some(Err(state))) => update.refused.push((name().clone(), state)),
                    Err(panic) => {
                        self.faults.panicked(name(), now, &*panic);
                        update.refused.push((name().clone(), Box::new(())));
                    }
                }
            } else {
                // A block that takes another's place is polled when that would have been.
                self.runtime.deadlines.clear(built.place);
            }
            std::mem::swap(old, &mut built.block);
            if !went_on && !is_first {
                // The flows of a block that starts afresh have ended.
                let plan = &update.plan.program.nodes[built.place as usize];
                let flows = plan.flows.iter();
                flows.for_each(|flows| flows.owners.release_all(self.runtime.worker));
            }
        }
        for place in &update.gone {
            self.runtime.deadlines.clear(*place);
            update.old_blocks.push(self.blocks[*place as usize].take());
        }
    }

    /// A new block has a clean record; one that stays keeps its own.
    fn forget_faults(&mut self, update: &Update) {
        for name in self.faults.nodes() {
            let new = update.built.iter().map(|built| (&update.plan, built.place));
            let mut changed = new.chain(update.gone.iter().map(|place| (&self.plan, *place)));
            if changed.any(|(plan, place)| plan.program.nodes[place as usize].name == name) {
                self.faults.replaced(&name);
            }
        }
    }

    /// The number of the graph that runs; 0 is the first one.
    pub fn epoch(&self) -> u64 {
        self.runtime.epoch
    }
}

/// Offers the state of a block to the one that takes its place: `None` if there is no state.
fn hand_over(
    old: &mut Option<Box<dyn Block>>,
    new: &mut Option<Box<dyn Block>>,
) -> std::thread::Result<Option<Result<(), State>>> {
    let (Some(old), Some(new)) = (old, new) else { return Ok(None) };
    let mut hand_over = || old.export_state().map(|state| new.import_state(state));
    catch_unwind(AssertUnwindSafe(&mut hand_over))
}

impl Runtime {
    /// Delayed tasks hold the counter for a full queue, which may lie elsewhere now.
    fn recount_delayed(&mut self, update: &Update) {
        let moves = &update.recount.moves;
        if self.delayed.is_empty() || moves.is_empty() {
            return;
        }
        self.delayed.retain(|delayed| {
            if let Ok(found) = moves.binary_search_by_key(&delayed.full, |(from, _)| *from) {
                delayed.full = moves[found].1;
            }
            true
        });
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
