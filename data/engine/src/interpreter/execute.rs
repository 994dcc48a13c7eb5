//! One batch walks the graph (DESIGN §4.2).

use weever_blocks_api::{Block, Claim, Cx, Ports};
use weever_packet::{Burst, Mask, Nanos};

use super::frame::{Claimed, Destination, Dropped, Frame};
use super::runtime::Runtime;
use super::settle::Settlement;
use super::tasks::Batch;
use crate::Counters;
use crate::counters::{Counter, total};
use crate::schedule::{Operand, Program, Step, StepKind, TASKS_SLOT, span};

/// Everything that running a batch touches.
pub(crate) struct Walk<'a> {
    pub(crate) program: &'a Program,
    pub(crate) blocks: &'a mut [Option<Box<dyn Block>>],
    pub(crate) frame: &'a mut Frame,
    pub(crate) runtime: &'a mut Runtime,
    pub(crate) burst: &'a mut Burst,
    pub(crate) batch: Batch,
    pub(crate) now: Nanos,
    /// The last mask counted, and its size: most nodes of a graph see the same tasks.
    pub(crate) counted: (Mask, u64),
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
        let tasks = self.count(self.batch.tasks);
        self.runtime.counters.add(total::TASKS, tasks);
        self.runtime.counters.add(total::BATCHES, 1);
        for step in &program.steps[span(&entry.steps)] {
            let inputs = &program.inputs[span(&step.inputs)];
            let input = inputs.iter().fold(0, |mask, slot| mask | self.frame.slots[*slot as usize]);
            if input != 0 {
                self.step(step, input);
            }
        }
        #[cfg(test)]
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.end(&self.frame.claims);
        }
        let Walk { program, blocks, frame, runtime, burst, batch, now, .. } = self;
        Settlement { program, blocks, frame, runtime, burst, batch, now }.run();
    }

    #[inline]
    fn count(&mut self, mask: Mask) -> u64 {
        if mask != self.counted.0 {
            self.counted = (mask, u64::from(mask.count_ones()));
        }
        self.counted.1
    }

    #[inline]
    fn add(&mut self, counter: Counter, tasks: Mask) {
        let n = self.count(tasks);
        self.runtime.counters.add(counter, n);
    }

    #[inline]
    fn step(&mut self, step: &Step, reached: Mask) {
        let input = match step.kind {
            StepKind::Function => self.function(step, reached),
            StepKind::And { swap } => self.operator(step, reached, swap, and),
            StepKind::Or { swap } => self.operator(step, reached, swap, or),
        };
        for (port, slot) in span(&step.outputs).enumerate() {
            let tasks = self.frame.slots[slot];
            if tasks != 0 {
                self.add(step.counter.plus(1 + port), tasks & input);
            }
        }
        #[cfg(test)]
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.step(step.node, reached, &self.frame.slots[span(&step.outputs)]);
        }
    }

    fn operator(
        &mut self,
        step: &Step,
        input: Mask,
        swap: bool,
        evaluate: fn(&[Operand], &[Mask]) -> (Mask, Mask),
    ) -> Mask {
        self.add(step.counter, input);
        let operands = &self.program.operands[span(&step.operands)];
        // A task that starts at an operator has no operands to decide by.
        if !operands.is_empty() {
            let (yes, no) = evaluate(operands, &self.frame.slots);
            let outputs = &mut self.frame.slots[span(&step.outputs)];
            outputs.copy_from_slice(&if swap { [yes, no] } else { [no, yes] });
        }
        input
    }

    #[inline]
    fn function(&mut self, step: &Step, mut input: Mask) -> Mask {
        let node = step.node as usize;
        if step.needs_buffer && input & !self.batch.occupied != 0 {
            input = self.mask_out(step, input);
            if input == 0 {
                return 0;
            }
        }
        self.add(step.counter, input);
        let outputs = &mut self.frame.slots[span(&step.outputs)];
        let mut cx = Cx::new(self.now, &mut self.runtime.pool, &mut self.frame.requests);
        if let Some(block) = &mut self.blocks[node] {
            block.run(&mut cx, self.burst, input, &mut Ports::new(outputs));
        }
        let claimed = match self.frame.requests.is_empty() {
            true => 0,
            false => self.drain(step, input),
        };
        let enabled = self.check_outputs(step, input);
        debug_assert!(
            enabled & claimed == 0 && enabled | claimed == input,
            "block of node {}: input {input:#x} must be enabled {enabled:#x} or claimed \
             {claimed:#x}, not both",
            self.program.nodes[node].name,
        );
        input
    }

    #[cold]
    fn mask_out(&mut self, step: &Step, input: Mask) -> Mask {
        let without = input & !self.batch.occupied;
        self.add(self.program.nodes[step.node as usize].no_buffer, without);
        input & self.batch.occupied
    }

    /// Records drops, and keeps what a faulty block enabled for tasks that are not its own from
    /// spreading. Returns who left by some port.
    #[inline]
    fn check_outputs(&mut self, step: &Step, input: Mask) -> Mask {
        let drops = &self.program.nodes[step.node as usize].drops;
        let mut enabled = 0;
        for (slot, drop) in span(&step.outputs).zip(drops) {
            let tasks = &mut self.frame.slots[slot];
            debug_assert!(
                *tasks & !input == 0 && *tasks & enabled == 0,
                "block of node {} enabled {tasks:#x} of input {input:#x} by a port, after \
                 {enabled:#x}",
                self.program.nodes[step.node as usize].name,
            );
            *tasks &= input & !enabled;
            enabled |= *tasks;
            if let Some(reason) = *drop
                && *tasks != 0
            {
                self.frame.drops.push(Dropped { reason, tasks: *tasks });
            }
        }
        enabled
    }

    /// Carries out what a block has asked for. Returns the tasks that it claimed.
    fn drain(&mut self, step: &Step, input: Mask) -> Mask {
        let plan = &self.program.nodes[step.node as usize];
        let Frame { requests, claims, notifies, settled, .. } = &mut *self.frame;
        let mut claimed = 0;
        for (claim, tasks) in requests.claims.drain(..) {
            claimed |= tasks;
            let tasks = tasks & input;
            if tasks & *settled != 0 {
                conflict(&self.runtime.counters, tasks & *settled);
            }
            let tasks = tasks & !*settled;
            *settled |= tasks;
            if tasks != 0 {
                claims.push(record(self.program, step.node, claim, tasks));
            }
        }
        for request in requests.spawns.drain(..) {
            self.runtime.spawn(&plan.spawns[request.edge as usize], request, self.now);
        }
        let targets = requests.notifies.drain(..);
        notifies.extend(targets.map(|(edge, key)| (plan.notifies[edge as usize], key)));
        for (counter, n) in requests.counts.drain(..) {
            self.runtime.counters.add(plan.own.plus(counter as usize), n);
        }
        claimed
    }
}

#[cold]
fn conflict(counters: &Counters, tasks: Mask) {
    counters.add(total::CONFLICTS, u64::from(tasks.count_ones()));
}

fn record(program: &Program, node: u32, claim: Claim, tasks: Mask) -> Claimed {
    let plan = &program.nodes[node as usize];
    match claim {
        Claim::Spawn { edge, priority } => {
            let edge = &plan.spawns[edge as usize];
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
