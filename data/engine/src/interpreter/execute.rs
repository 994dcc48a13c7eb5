//! One batch walks the graph (DESIGN §4.2).

use weever_blocks_api::{Block, Claim, Cx, Ports};
use weever_packet::{Burst, Mask, Nanos};

use super::frame::{Claimed, Destination, Frame};
use super::runtime::Runtime;
use super::settle::Settlement;
use super::tasks::Batch;
use crate::counters::{Cells, total};
use crate::schedule::{
    EntryPlan, FIRST_STEP_SLOT, Operand, Program, Step, StepKind, TASKS_SLOT, span,
};

/// Everything that running a batch touches.
pub(crate) struct Walk<'a> {
    pub(crate) program: &'a Program,
    pub(crate) blocks: &'a mut [Option<Box<dyn Block>>],
    pub(crate) frame: &'a mut Frame,
    pub(crate) runtime: &'a mut Runtime,
    pub(crate) burst: &'a mut Burst,
    pub(crate) batch: Batch,
    pub(crate) now: Nanos,
    #[cfg(test)]
    pub(crate) trace: Option<&'a mut super::trace::Trace>,
}

impl Walk<'_> {
    /// Runs every step, then applies the dispositions. The burst's slots are empty afterwards.
    pub(crate) fn run(mut self) {
        let program = self.program;
        let entry = &program.entries[self.batch.entry.index()];
        self.frame.slots[..entry.slots as usize].fill(0);
        self.frame.slots[TASKS_SLOT as usize] = self.batch.tasks;
        self.frame.settled = 0;
        #[cfg(test)]
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.begin(&self.batch, self.burst, program);
        }
        for step in &program.steps[span(&entry.steps)] {
            let more = &program.inputs[span(&step.more_inputs)];
            let first = self.frame.slots[step.input as usize];
            let input =
                more.iter().fold(first, |mask, slot| mask | self.frame.slots[*slot as usize]);
            if input != 0 {
                self.step(step, input);
            }
        }
        self.count(entry);
        #[cfg(test)]
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.end(&self.frame.claims);
        }
        let Walk { program, blocks, frame, runtime, burst, batch, now, .. } = self;
        Settlement { program, blocks, frame, runtime, burst, batch, now }.run();
    }

    /// Every mask is still there, in the order of the counters: one pass counts them all. Most
    /// nodes see the same tasks, so most masks are like the one before.
    fn count(&self, entry: &EntryPlan) {
        let counters = &*self.runtime.counters;
        let mut last = (self.batch.tasks, u64::from(self.batch.tasks.count_ones()));
        counters.add(total::TASKS, last.1);
        counters.add(total::BATCHES, 1);
        let slots = &self.frame.slots[FIRST_STEP_SLOT as usize..];
        for (mask, counter) in slots.iter().zip(&self.program.counters[span(&entry.counters)]) {
            if *mask != 0 {
                if *mask != last.0 {
                    last = (*mask, u64::from(mask.count_ones()));
                }
                counters.add(*counter, last.1);
            }
        }
    }

    #[inline]
    fn step(&mut self, step: &Step, input: Mask) {
        match step.kind {
            StepKind::Function => self.function(step, input),
            StepKind::And { swap } => self.operator(step, input, swap, and),
            StepKind::Or { swap } => self.operator(step, input, swap, or),
        }
        #[cfg(test)]
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.step(step.node, input, &self.frame.slots[step.slots()][1..]);
        }
    }

    fn operator(
        &mut self,
        step: &Step,
        input: Mask,
        swap: bool,
        evaluate: fn(&[Operand], &[Mask]) -> (Mask, Mask),
    ) {
        self.frame.slots[step.place as usize] = input;
        let operands = &self.program.operands[span(&step.operands)];
        // A task that starts at an operator has no operands to decide by.
        if !operands.is_empty() {
            let (yes, no) = evaluate(operands, &self.frame.slots);
            let outputs = if swap { [yes, no] } else { [no, yes] };
            self.frame.slots[step.slots()][1..].copy_from_slice(&outputs);
        }
    }

    #[inline]
    fn function(&mut self, step: &Step, mut input: Mask) {
        if step.needs_buffer && input & !self.batch.occupied != 0 {
            input = self.mask_out(step, input);
            if input == 0 {
                return;
            }
        }
        let Frame { slots, requests, .. } = &mut *self.frame;
        let Some((place, outputs)) = slots[step.slots()].split_first_mut() else { return };
        *place = input;
        let Some(block) = &mut self.blocks[step.node as usize] else { return };
        let mut cx = Cx::new(self.now, &mut self.runtime.pool, requests);
        block.run(&mut cx, self.burst, input, &mut Ports::new(outputs));
        // What a faulty block enabled for tasks that are not its own, or twice, must not spread.
        let mut enabled = 0;
        for tasks in outputs {
            debug_assert!(
                *tasks & !(input & !enabled) == 0,
                "block of node {}: a port has {tasks:#x}, the input is {input:#x}, and \
                 {enabled:#x} left before",
                self.program.nodes[step.node as usize].name,
            );
            *tasks &= input & !enabled;
            enabled |= *tasks;
        }
        let claimed = if requests.is_empty() { 0 } else { self.drain(step, input) };
        debug_assert!(
            enabled & claimed == 0 && enabled | claimed == input,
            "block of node {}: of input {input:#x}, {enabled:#x} left and {claimed:#x} were \
             taken away; each task must do one of the two",
            self.program.nodes[step.node as usize].name,
        );
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

/// True when every operand is true, false when one is false.
fn and(operands: &[Operand], slots: &[Mask]) -> (Mask, Mask) {
    operands.iter().fold((Mask::MAX, 0), |(yes, no), operand| {
        (yes & slots[operand.yes as usize], no | slots[operand.no as usize])
    })
}

/// The dual: true when one operand is true, false when every one is false.
fn or(operands: &[Operand], slots: &[Mask]) -> (Mask, Mask) {
    operands.iter().fold((0, Mask::MAX), |(yes, no), operand| {
        (yes | slots[operand.yes as usize], no & slots[operand.no as usize])
    })
}
