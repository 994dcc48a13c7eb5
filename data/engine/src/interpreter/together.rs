//! Tasks that go together: as long as all of a batch leave each node by the same port, they need no masks.
//!
//! ```text
//!  step ── all by one port ──► one step behind it ── all by one port ──► …  their end
//!    └─ by several, or several steps behind it ─► the walk goes on with masks
//! ```
//!
//! One packet alone always goes together with itself, and so do most bursts of one flow. Each node and port is
//! counted at once; there is nothing to look for and nothing to clear when the tasks have ended.

use weever_block::{Claim, Ports, Priority};
use weever_packet::{Mask, number_of};

use super::batch::BatchState;
use super::course::Course;
#[cfg(test)]
use super::requests::record;
use super::walk::{Walk, only_sound, ports_of};
use crate::faults::Loss;
use crate::schedule::{Entry, EntryCode, NO_NODE, NextPlace, Step, StepKind, span};
use crate::slots::{Counter, total};

/// How all tasks have left a step.
enum Left {
    /// By the port with this number.
    By(u32),
    /// The block has taken them away, or they are lost.
    Gone,
    /// The block has taken them away, and they are where it wanted.
    Settled,
    /// The same, and they go on in the burst, from this entry on.
    GoesOn(Entry),
    /// In several ways, which their masks tell.
    Apart,
}

/// Tasks that go together. For one alone all is compiled apart from what is for several: that is less code, and there is
/// nothing to count.
pub(super) trait Group: Copy {
    /// The only task, if that is known.
    const ALONE: Option<usize>;
    fn tasks(self) -> Mask;
    fn number(self) -> u64;
}

/// One task, in the burst's first slot.
#[derive(Clone, Copy)]
struct Alone;

impl Group for Alone {
    const ALONE: Option<usize> = Some(0);
    #[inline(always)]
    fn tasks(self) -> Mask {
        1
    }
    #[inline(always)]
    fn number(self) -> u64 {
        1
    }
}

/// Any tasks, and how many these are.
#[derive(Clone, Copy)]
struct Several(Mask, u64);

impl Group for Several {
    const ALONE: Option<usize> = None;
    #[inline(always)]
    fn tasks(self) -> Mask {
        self.0
    }
    #[inline(always)]
    fn number(self) -> u64 {
        self.1
    }
}

impl Walk<'_> {
    /// Walks from the first step while the tasks stay together.
    #[inline]
    pub(super) fn together(&mut self, code: &EntryCode) -> Course {
        let tasks = self.batch.tasks;
        match code.steps.first() {
            None => Course::Apart,
            Some(first) if tasks != self.batch.occupied || first.kind != StepKind::Function => {
                self.state.masks.due[0] = 1;
                Course::Apart
            }
            _ if tasks == Alone.tasks() => self.stay_together(Alone, code),
            _ => self.stay_together(Several(tasks, number_of(tasks).into()), code),
        }
    }

    /// What is done at a step are functions of their own: as one, the loop would fetch in advance what a packet alone
    /// hardly needs.
    #[inline(never)]
    fn stay_together<G: Group>(&mut self, group: G, code: &EntryCode) -> Course {
        let mut at = 0;
        loop {
            let step = &code.steps[at as usize];
            if let Some(shortcut) = step.shortcut {
                if let Some(next) = self.pass_together(group, code, shortcut) {
                    at = next;
                    continue;
                }
                if !self.state.ways.is_empty() && self.take_several(code, shortcut, at) {
                    return Course::Apart;
                }
            }
            let port = match self.run_together(group, step) {
                Left::By(port) => port,
                Left::Gone => return self.end(group, None),
                Left::Settled => return Course::Settled,
                Left::GoesOn(entry) => return Course::GoesOn(entry),
                Left::Apart => return self.part(code, at),
            };
            match self.leave_together(group, code, step, port) {
                NextPlace::Step(next) => at = next,
                NextPlace::End => return self.end(group, reason(code, step, port)),
                NextPlace::Masks => return self.part(code, at),
            }
        }
    }

    /// Has a run take the tasks past its nodes; returns the step behind the one way that all have taken, if it is known:
    /// then they are counted. Ways taken otherwise are left in the state.
    #[inline(never)]
    fn pass_together<G: Group>(
        &mut self,
        group: G,
        code: &EntryCode,
        shortcut: u32,
    ) -> Option<u32> {
        let run = &code.shortcuts[shortcut as usize];
        let Some(Some(matcher)) = self.shortcuts.get_mut(run.number as usize) else { return None };
        self.state.shortcut = Some(run.number);
        let BatchState { requests, ways, .. } = &mut *self.state;
        let way = self.runtime.call(self.now, requests, None, |cx| match G::ALONE {
            Some(task) => matcher.run_alone(cx, self.burst, task, ways),
            None => {
                matcher.run(cx, self.burst, group.tasks(), ways);
                ways.only(group.tasks())
            }
        });
        self.state.shortcut = None;
        let way = way?;
        let known = code.ways[span(&run.ways)].get(way).and_then(Option::as_ref);
        if let Some(plan) = known
            && let Some((next, counter)) = plan.whole
            && self.observe(code, plan, group.tasks())
        {
            if G::ALONE.is_none() {
                let _ = self.state.ways.take_first();
            }
            if self.state.ways.is_counting() {
                self.count_own(code, shortcut, group.tasks());
            }
            self.runtime.counters.add(counter, group.number());
            #[cfg(test)]
            self.state.taken.push((counter, group.tasks()));
            return Some(next);
        }
        if let Some(task) = G::ALONE {
            self.state.ways.take(way, task);
        }
        None
    }

    /// Sends tasks along the ways that a run has found, and has the walk go on behind these and behind the step itself;
    /// whether any have taken one.
    #[inline(never)]
    fn take_several(&mut self, code: &EntryCode, shortcut: u32, at: u32) -> bool {
        let tasks = self.batch.tasks;
        let taken = self.take_ways(code, shortcut, tasks);
        let rest = tasks & !taken;
        if taken != 0 && rest != 0 && self.function(&code.steps[at as usize], rest) {
            self.part(code, at);
        }
        taken != 0
    }

    /// Runs the step's block.
    #[inline(never)]
    fn run_together<G: Group>(&mut self, group: G, step: &Step) -> Left {
        self.count_together(group, step, 0);
        let BatchState { masks, requests, running, .. } = &mut *self.state;
        let Some(block) = &mut self.blocks[step.node as usize] else {
            return self.lose_together(step);
        };
        *running = step.node;
        let mut ports = Ports::new(&mut masks.slots[ports_of(step)]);
        self.runtime.call(self.now, requests, None, |cx| {
            block.run(cx, self.burst, group.tasks(), &mut ports);
        });
        #[cfg(debug_assertions)]
        (*running = NO_NODE);
        let port = ports.only(group.tasks()).map(|port| port as u32);
        if ports.is_unused() {
            return self.settle(group, step).unwrap_or_else(|| self.end_taken(step));
        }
        let requests = &self.state.requests;
        match port {
            Some(port) if requests.claims.is_empty() && !requests.has_rare() => {
                self.count_requested(step);
                Left::By(port)
            }
            port => self.leave_with_requests(step, port),
        }
    }

    #[cold]
    fn lose_together(&mut self, step: &Step) -> Left {
        self.state.lost.push((step.node, Loss::Quarantine, self.batch.tasks));
        Left::Gone
    }

    /// After a block that has sent no task out by a port.
    #[inline(never)]
    fn end_taken(&mut self, step: &Step) -> Left {
        let tasks = self.batch.tasks;
        match self.drain(step, tasks) {
            claimed if claimed == tasks => Left::Gone,
            claimed => self.check_apart(step, tasks, claimed),
        }
    }

    /// After a block that has sent tasks out, all of them by `port` if there is one, and has asked for something.
    #[inline(never)]
    fn leave_with_requests(&mut self, step: &Step, port: Option<u32>) -> Left {
        let tasks = self.batch.tasks;
        match (port, self.drain(step, tasks)) {
            (Some(port), 0) => Left::By(port),
            (_, claimed) => self.check_apart(step, tasks, claimed),
        }
    }

    /// Ends the batch if its block sends all tasks, one alone, to a link, or starts them where they are the next to run,
    /// and nothing else is asked for but counts. The tasks are counted as if they had been queued.
    #[inline(always)]
    fn settle<G: Group>(&mut self, group: G, step: &Step) -> Option<Left> {
        let requests = &self.state.requests;
        let [(claim, tasks)] = requests.claims[..] else { return None };
        let is_last = self.state.notifies.is_empty() && self.state.fresh.is_none();
        if tasks != group.tasks() || requests.has_rare() || !is_last {
            return None;
        }
        let node = &self.program.nodes[step.node as usize];
        let left = match (claim, G::ALONE) {
            (Claim::Transmit { link }, Some(task)) => {
                let (outbox, _) = self.runtime.outboxes.room_of(link)?;
                if let Some(packet) = self.burst.take(task) {
                    outbox.push_back(packet);
                }
                self.runtime.outboxes.note(link, 1);
                Left::Settled
            }
            (Claim::Spawn { edge, priority: Priority::High }, _) => {
                let edge = &node.spawns[edge as usize];
                let is_home = self.runtime.is_home(self.program.home(edge.entry));
                if !is_home || !self.state.is_next(self.runtime, group.number() as usize) {
                    return None;
                }
                self.runtime.counters.add(edge.spawned, group.number());
                self.state.ran += group.number() as usize;
                Left::GoesOn(edge.entry)
            }
            _ => return None,
        };
        #[cfg(test)]
        self.state.settled.push(record(self.program, self.runtime, step.node, claim, tasks));
        let BatchState { requests, running, .. } = &mut *self.state;
        requests.claims.clear();
        *running = NO_NODE;
        self.count_requested(step);
        self.count_batch(group);
        Some(left)
    }

    /// Counts the tasks at the port by which all have left, and at the operators between it and their next place.
    #[inline(never)]
    fn leave_together<G: Group>(
        &mut self,
        group: G,
        code: &EntryCode,
        step: &Step,
        port: u32,
    ) -> NextPlace {
        let slot = (step.first_slot + 1 + port) as usize;
        let next = &code.next[slot];
        if next.place != NextPlace::Masks {
            self.state.masks.slots[slot] = 0;
            self.count_together(group, step, 1 + port);
            for (operator, port) in &code.through[span(&next.through)] {
                let operator = &code.steps[*operator as usize];
                self.count_together(group, operator, 0);
                self.count_together(group, operator, *port);
            }
        }
        next.place
    }

    /// Has the masks say nothing that cannot be, if the block is faulty.
    #[cold]
    fn check_apart(&mut self, step: &Step, tasks: Mask, claimed: Mask) -> Left {
        let name = &self.program.nodes[step.node as usize].name;
        let enabled = only_sound(&mut self.state.masks.slots[ports_of(step)], tasks, name);
        debug_assert!(
            enabled & claimed == 0 && enabled | claimed == tasks,
            "block of node {name}: of input {tasks:#x}, {enabled:#x} left and {claimed:#x} were \
             taken away; each task must do one of the two",
        );
        Left::Apart
    }

    /// Counts the tasks at a step's input, offset 0, or at one of its ports.
    #[inline]
    fn count_together<G: Group>(&mut self, group: G, step: &Step, offset: u32) {
        self.runtime.counters.add(step.counter.plus(offset as usize), group.number());
        #[cfg(test)]
        self.state.together.push(((step.first_slot + offset) as usize, group.tasks()));
    }

    /// Has the walk go on behind a step whose ports have masks. The tasks have not ended.
    #[inline(never)]
    fn part(&mut self, code: &EntryCode, at: u32) -> Course {
        self.state.masks.passed[at as usize / 64] |= 1 << (at % 64);
        self.wake_behind(code, at);
        Course::Apart
    }

    /// Counts the batch, whose tasks have ended.
    #[inline]
    fn end<G: Group>(&mut self, group: G, reason: Option<Counter>) -> Course {
        let mut unclaimed = group.tasks() & !self.state.disposed;
        if !self.state.lost.is_empty() {
            unclaimed = self.count_lost(unclaimed);
        }
        if unclaimed != 0 {
            let reason = reason.unwrap_or(total::UNCLAIMED);
            self.runtime.counters.add(reason, number_of(unclaimed).into());
        }
        self.count_batch(group);
        self.state.running = NO_NODE;
        Course::Together
    }

    #[inline]
    fn count_batch<G: Group>(&self, group: G) {
        self.runtime.counters.add(total::TASKS, group.number());
        self.runtime.counters.add(total::BATCHES, 1);
    }
}

/// The counter of packets that end at a port: at that of the last operator between the two, if there is one.
fn reason(code: &EntryCode, step: &Step, port: u32) -> Option<Counter> {
    let next = &code.next[(step.first_slot + 1 + port) as usize];
    let (step, offset) = match code.through[span(&next.through)].last() {
        Some((operator, port)) => (&code.steps[*operator as usize], *port),
        None => (step, 1 + port),
    };
    let slot = step.first_slot + offset;
    code.drops[span(&step.drops)].iter().find(|drop| drop.slot == slot).map(|drop| drop.reason)
}
