//! One batch walks the graph (DESIGN §4.2).

use weever_block::{Block, Claim, Cx, Ports, Shortcut};
use weever_packet::{Burst, Mask, Nanos, bits};

use super::frame::{Claimed, Destination, Frame};
use super::runtime::Runtime;
use super::settle::Settlement;
use super::tasks::Batch;
use crate::counters::{Cells, total};
use crate::schedule::{Board, DropSlot, Operand, Program, Step, StepKind, TASKS_SLOT, Wake, span};

/// Everything that running a batch touches.
pub(crate) struct Walk<'a> {
    pub(crate) program: &'a Program,
    pub(crate) blocks: &'a mut [Option<Box<dyn Block>>],
    pub(crate) shortcuts: &'a mut [Box<dyn Shortcut>],
    pub(crate) frame: &'a mut Frame,
    pub(crate) runtime: &'a mut Runtime,
    pub(crate) burst: &'a mut Burst,
    pub(crate) batch: Batch,
    pub(crate) now: Nanos,
    #[cfg(test)]
    pub(crate) trace: Option<&'a mut super::trace::Trace>,
}

impl Walk<'_> {
    /// Runs every step that a task reaches, then applies the dispositions. The burst's slots and the
    /// board are empty afterwards.
    pub(crate) fn run(mut self) {
        let program = self.program;
        let entry = &program.entries[self.batch.entry.index()];
        let steps = &program.steps[span(&entry.steps)];
        self.frame.board.slots[TASKS_SLOT as usize] = self.batch.tasks;
        self.frame.settled = 0;
        #[cfg(test)]
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.begin(&self.batch, self.burst, program);
        }
        self.walk(steps);
        #[cfg(test)]
        self.record(steps);
        self.count(steps);
        let Walk { program, blocks, frame, runtime, burst, batch, now, .. } = self;
        Settlement { program, blocks, frame, runtime, burst, batch, now }.run();
    }

    #[cfg(test)]
    fn record(&mut self, steps: &[Step]) {
        let Some(trace) = self.trace.take() else { return };
        for (i, step) in steps.iter().enumerate() {
            let board = &self.frame.board;
            if board.passed[i / 64] >> (i % 64) & 1 == 1 {
                let slots = &board.slots[step.slots()];
                // Tasks that a node could not run for, having no packet, have reached it all the same.
                trace.step(step.node, self.input(step) | slots[0], &slots[1..]);
            }
        }
        trace.end(&self.frame.claims);
    }

    /// Step after step in their order, but only those that a task has reached: a step wakes the targets
    /// of the ports by which tasks leave, all of which come later.
    #[inline]
    fn walk(&mut self, steps: &[Step]) {
        let Some(first) = self.frame.board.due.first_mut().filter(|_| !steps.is_empty()) else {
            return;
        };
        *first = 1;
        for (word, steps) in steps.chunks(64).enumerate() {
            loop {
                let Board { due, passed, .. } = &mut self.frame.board;
                let next = due[word] & due[word].wrapping_neg();
                if next == 0 {
                    break;
                }
                due[word] ^= next;
                passed[word] |= next;
                let step = &steps[next.trailing_zeros() as usize % 64];
                if self.step(step) {
                    let wakes = &self.program.wakes[span(&step.wakes)];
                    wake(wakes, &mut self.frame.board);
                }
            }
        }
    }

    /// What the steps wrote down is still there: one pass over them counts it all, says why those are
    /// dropped whom nobody has taken, and clears it. Most nodes see the same tasks, so most masks are
    /// like the one before.
    fn count(&mut self, steps: &[Step]) {
        let counters = &*self.runtime.counters;
        let Board { slots, passed, .. } = &mut self.frame.board;
        let mut unexplained = self.batch.occupied & !self.frame.settled;
        let mut last = (self.batch.tasks, u64::from(self.batch.tasks.count_ones()));
        counters.add(total::TASKS, last.1);
        counters.add(total::BATCHES, 1);
        for (word, steps) in passed.iter_mut().zip(steps.chunks(64)) {
            for step in bits(std::mem::take(word)).map(|i| &steps[i]) {
                if unexplained != 0 && !step.drops.is_empty() {
                    let drops = &self.program.drops[span(&step.drops)];
                    unexplained = explain(drops, slots, unexplained, counters);
                }
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
        if unexplained != 0 {
            counters.add(total::UNCLAIMED, u64::from(unexplained.count_ones()));
        }
    }

    /// The tasks that have reached a step.
    #[inline]
    fn input(&self, step: &Step) -> Mask {
        let more = &self.program.inputs[span(&step.more_inputs)];
        let slots = &self.frame.board.slots;
        let first = slots[step.input as usize];
        more.iter().fold(first, |mask, slot| mask | slots[*slot as usize])
    }

    /// Returns whether there were tasks that had not passed it yet.
    #[inline]
    fn step(&mut self, step: &Step) -> bool {
        let input = self.input(step);
        if let Some(shortcut) = step.shortcut {
            self.shortcut(shortcut, input);
        }
        match step.kind {
            StepKind::Function => self.function(step, input),
            StepKind::And { swap } => self.operator(step, input, swap, Truth::and),
            StepKind::Or { swap } => self.operator(step, input, swap, Truth::or),
        }
    }

    #[inline]
    fn operator(
        &mut self,
        step: &Step,
        input: Mask,
        swap: bool,
        evaluate: impl FnOnce(&Truth) -> (Mask, Mask),
    ) -> bool {
        let slots = &mut self.frame.board.slots;
        let operands = &self.program.operands[span(&step.operands)];
        let truth = Truth::of(operands, slots);
        let input = input | truth.some_yes | truth.some_no;
        let is_new = slots[step.place as usize] != input;
        slots[step.place as usize] = input;
        // A task that starts at an operator has no operands to decide by.
        if !operands.is_empty() {
            let (yes, no) = evaluate(&truth);
            let outputs = if swap { [yes, no] } else { [no, yes] };
            slots[step.slots()][1..].copy_from_slice(&outputs);
        }
        is_new
    }

    #[inline]
    fn function(&mut self, step: &Step, mut input: Mask) -> bool {
        if step.needs_buffer && input & !self.batch.occupied != 0 {
            input = self.mask_out(step, input);
            if input == 0 {
                return false;
            }
        }
        let Frame { board: Board { slots, .. }, requests, .. } = &mut *self.frame;
        let Some((place, outputs)) = slots[step.slots()].split_first_mut() else {
            return false;
        };
        // Those that a shortcut has brought past this node.
        let passed = *place;
        input &= !passed;
        if input == 0 {
            return false;
        }
        *place |= input;
        let Some(block) = &mut self.blocks[step.node as usize] else { return false };
        let mut cx = Cx::new(self.now, &mut self.runtime.pool, requests);
        block.run(&mut cx, self.burst, input, &mut Ports::new(outputs));
        // What a faulty block enabled for tasks that are not its own, or twice, must not spread.
        let mut enabled = 0;
        for tasks in outputs {
            debug_assert!(
                *tasks & !((input | passed) & !enabled) == 0,
                "block of node {}: a port has {tasks:#x}, the input is {input:#x}, and \
                 {enabled:#x} left before",
                self.program.nodes[step.node as usize].name,
            );
            *tasks &= (input | passed) & !enabled;
            enabled |= *tasks;
        }
        enabled &= !passed;
        let claimed = if requests.is_empty() { 0 } else { self.drain(step, input) };
        debug_assert!(
            enabled & claimed == 0 && enabled | claimed == input,
            "block of node {}: of input {input:#x}, {enabled:#x} left and {claimed:#x} were \
             taken away; each task must do one of the two",
            self.program.nodes[step.node as usize].name,
        );
        true
    }

    #[cold]
    fn mask_out(&mut self, step: &Step, input: Mask) -> Mask {
        let without = u64::from((input & !self.batch.occupied).count_ones());
        let no_buffer = self.program.nodes[step.node as usize].no_buffer;
        self.runtime.counters.add(no_buffer, without);
        input & self.batch.occupied
    }

    /// Carries out what a block has asked for. Returns the tasks that it claimed.
    fn drain(&mut self, step: &Step, input: Mask) -> Mask {
        let plan = &self.program.nodes[step.node as usize];
        let Frame { requests, claims, notifies, settled, .. } = &mut *self.frame;
        let mut claimed = 0;
        for (claim, tasks) in &requests.claims {
            claimed |= tasks;
            let tasks = tasks & input;
            if tasks & *settled != 0 {
                conflict(&self.runtime.counters, tasks & *settled);
            }
            let tasks = tasks & !*settled;
            *settled |= tasks;
            if tasks != 0 {
                claims.push(record(self.program, self.runtime, step.node, *claim, tasks));
            }
        }
        requests.claims.clear();
        for (counter, n) in &requests.counts {
            self.runtime.counters.add(plan.own.plus(*counter as usize), *n);
        }
        requests.counts.clear();
        if !requests.spawns.is_empty() {
            for request in requests.spawns.drain(..) {
                self.runtime.spawn(
                    self.program,
                    &plan.spawns[request.edge as usize],
                    request,
                    self.now,
                );
            }
        }
        for (edge, key) in &requests.notifies {
            notifies.push((plan.notifies[*edge as usize], *key));
        }
        requests.notifies.clear();
        claimed
    }
}

#[cold]
fn conflict(counters: &Cells, tasks: Mask) {
    counters.add(total::CONFLICTS, u64::from(tasks.count_ones()));
}

fn record(program: &Program, runtime: &Runtime, node: u32, claim: Claim, tasks: Mask) -> Claimed {
    let plan = &program.nodes[node as usize];
    match claim {
        Claim::Spawn { edge, priority } => {
            let edge = &plan.spawns[edge as usize];
            if !runtime.is_home(program.home(edge.entry)) {
                let to = Destination::Elsewhere { entry: edge.entry, priority };
                return Claimed { to, tasks, taken: Some(edge.spawned), full: edge.ring_full };
            }
            let to = Destination::Spawn { entry: edge.entry, priority };
            Claimed { to, tasks, taken: Some(edge.spawned), full: edge.full }
        }
        Claim::Transmit { link } => {
            let to = Destination::Transmit { link };
            Claimed { to, tasks, taken: None, full: plan.outbox_full }
        }
        Claim::Collect => {
            let to = Destination::Collect { node };
            Claimed { to, tasks, taken: None, full: plan.outbox_full }
        }
        Claim::Block { key } => {
            let to = Destination::Block { node, key };
            Claimed { to, tasks, taken: None, full: plan.block_full }
        }
    }
}

/// Has the steps looked at that the ports lead to by which tasks have left.
#[inline]
fn wake(wakes: &[Wake], board: &mut Board) {
    for wake in wakes {
        if board.slots[wake.slot as usize] != 0 {
            board.due[wake.word as usize] |= wake.steps;
        }
    }
}

/// The first stated reason, in the order of the schedule, is the reason. Returns those who have not
/// heard one.
#[cold]
fn explain(drops: &[DropSlot], slots: &[Mask], unexplained: Mask, counters: &Cells) -> Mask {
    drops.iter().fold(unexplained, |unexplained, drop| {
        let tasks = slots[drop.slot as usize] & unexplained;
        if tasks != 0 {
            counters.add(drop.reason, u64::from(tasks.count_ones()));
        }
        unexplained & !tasks
    })
}

/// Which tasks the operands of an operator say yes and no to. An operand that is undecided says
/// neither.
struct Truth {
    every_yes: Mask,
    every_no: Mask,
    some_yes: Mask,
    some_no: Mask,
}

impl Truth {
    #[inline]
    fn of(operands: &[Operand], slots: &[Mask]) -> Truth {
        let none = Truth { every_yes: Mask::MAX, every_no: Mask::MAX, some_yes: 0, some_no: 0 };
        operands.iter().fold(none, |truth, operand| {
            let (yes, no) = (slots[operand.yes as usize], slots[operand.no as usize]);
            Truth {
                every_yes: truth.every_yes & yes,
                every_no: truth.every_no & no,
                some_yes: truth.some_yes | yes,
                some_no: truth.some_no | no,
            }
        })
    }

    /// True when every operand is true, false when one is false.
    #[inline]
    fn and(&self) -> (Mask, Mask) {
        (self.every_yes, self.some_no)
    }

    /// The dual: true when one operand is true, false when every one is false.
    #[inline]
    fn or(&self) -> (Mask, Mask) {
        (self.some_yes, self.every_no)
    }
}
