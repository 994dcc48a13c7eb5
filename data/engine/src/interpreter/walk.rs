//! One batch walks the graph (design/0000 §4.2).

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weever_block::{Block, Ports, Shortcut};
use weever_packet::{Burst, Mask, Nanos, number_of};

use super::batch::{BatchState, Dispositions, owners};
use super::course::Course;
use super::runtime::Runtime;
use super::task_queues::Batch;
use crate::faults::{Faults, Loss};
use crate::schedule::{
    BlockMaker, CompiledGraph, EntryCode, NO_NODE, Operand, Program, Step, StepKind, TASKS_SLOT,
    TaskMasks, Wake, WayPlan, span,
};

/// A batch on its way through the graph.
pub(crate) struct Walk<'a> {
    pub(crate) plan: &'a CompiledGraph,
    pub(crate) program: &'a Program,
    pub(crate) blocks: &'a mut [Option<Box<dyn Block>>],
    pub(crate) shortcuts: &'a mut [Option<Box<dyn Shortcut>>],
    pub(crate) maker: &'a BlockMaker,
    pub(crate) faults: &'a mut Faults,
    pub(crate) state: &'a mut BatchState,
    pub(crate) runtime: &'a mut Runtime,
    pub(crate) burst: &'a mut Burst,
    pub(crate) batch: Batch,
    pub(crate) now: Nanos,
    #[cfg(test)]
    pub(crate) trace: Option<&'a mut super::trace::Trace>,
}

impl Walk<'_> {
    /// Runs every step that a task reaches, then applies the dispositions. The burst's slots and
    /// the masks are empty afterwards. A panic of a block is [contained](super::contain).
    pub(crate) fn run(mut self) {
        self.run_batches();
    }

    /// The same, and then runs the tasks that this batch alone has started, and so on, as long as fewer than `budget`
    /// have run; `done` have already. Returns how many have. With no task in the queues these are next in any case:
    /// they stay in the burst.
    pub(crate) fn run_on(mut self, done: usize, budget: usize) -> usize {
        (self.state.ran, self.state.budget) = (done, budget);
        self.run_batches();
        self.state.budget = 0;
        self.state.ran
    }

    fn run_batches(&mut self) {
        // Once per burst and not per block: a call that catches panics cannot be inlined.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run_all())) {
            let Some(next) = self.contain(panic) else { return };
            self.batch = next;
        }
    }

    /// Runs the batch, and those that go on in the burst.
    fn run_all(&mut self) {
        loop {
            match self.run_batch() {
                Course::GoesOn(entry) => self.batch.entry = entry,
                Course::Settled => return,
                Course::Together | Course::Apart => match self.dispositions().run() {
                    Some(next) => self.batch = next,
                    None => return,
                },
            }
        }
    }

    /// Runs one batch to the end of its tasks, and counts it.
    #[inline]
    fn run_batch(&mut self) -> Course {
        let program = self.program;
        let code = &*program.entries[self.batch.entry.index()].code;
        self.state.masks.slots[TASKS_SLOT as usize] = self.batch.tasks;
        self.state.disposed = 0;
        #[cfg(test)]
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.begin(&self.batch, self.burst, self.plan);
        }
        let course = self.together(code);
        if matches!(course, Course::Apart) {
            self.walk_apart(code);
        }
        #[cfg(test)]
        self.record_trace(code);
        if matches!(course, Course::Apart) {
            self.count(code);
        }
        course
    }

    pub(super) fn dispositions(&mut self) -> Dispositions<'_> {
        let Walk { program, blocks, state, runtime, burst, batch, now, .. } = self;
        Dispositions { program, blocks, state, runtime, burst, batch: *batch, now: *now }
    }

    #[cfg(test)]
    fn record_trace(&mut self, code: &EntryCode) {
        let Some(trace) = self.trace.take() else { return };
        for step in &code.steps {
            let mut masks = self.state.masks.slots[step.slots()].to_vec();
            let ways = code.way_counters.iter().flat_map(|(way, counters)| {
                let taken = self.state.taken.iter().filter(move |(taken, _)| *taken == way);
                taken.flat_map(move |(_, tasks)| counters.iter().map(move |c| (c.index(), *tasks)))
            });
            for (slot, tasks) in &self.state.together {
                if step.slots().contains(slot) {
                    masks[slot - step.first_slot as usize] |= tasks;
                }
            }
            let (first, n) = (step.counter.index(), masks.len());
            for (counter, tasks) in ways.filter(|(c, _)| (first..first + n).contains(c)) {
                masks[counter - first] |= tasks;
            }
            // Tasks without the packet that a node needs have reached it too.
            let node = self.plan.id_at(step.node).expect("it is in the graph");
            trace.step(node.0, self.input(code, step) | masks[0], &masks[1..]);
        }
        self.state.taken.clear();
        self.state.together.clear();
        trace.end(&self.state.claims, &self.state.settled, self.plan);
        self.state.settled.clear();
        self.trace = Some(trace);
    }

    /// Runs the steps that are due in order: each marks as due the targets of the ports by which tasks
    /// left, all of which come later.
    #[inline(never)]
    fn walk_apart(&mut self, code: &EntryCode) {
        for (word, steps) in code.steps.chunks(64).enumerate() {
            loop {
                let TaskMasks { due, passed, .. } = &mut self.state.masks;
                let next = due[word] & due[word].wrapping_neg();
                if next == 0 {
                    break;
                }
                due[word] ^= next;
                passed[word] |= next;
                let step = &steps[next.trailing_zeros() as usize % 64];
                if self.step(code, step) {
                    self.wake_behind(code, (64 * word) as u32 + next.trailing_zeros());
                }
            }
        }
        self.state.running = NO_NODE;
    }

    /// Marks as due the targets of the ports by which tasks have left a step, and notes where they may end.
    #[inline]
    pub(super) fn wake_behind(&mut self, code: &EntryCode, at: u32) {
        let (step, masks) = (&code.steps[at as usize], &mut self.state.masks);
        wake(&code.wakes[span(&step.wakes)], masks);
        let mut ends = code.drops[span(&step.drops)].iter();
        if ends.any(|end| masks.slots[end.slot as usize] != 0) {
            masks.ending[at as usize / 64] |= 1 << (at % 64);
        }
    }

    /// The tasks that have reached a step.
    #[inline]
    fn input(&self, code: &EntryCode, step: &Step) -> Mask {
        let more = &code.inputs[span(&step.more_inputs)];
        let slots = &self.state.masks.slots;
        let first = slots[step.input as usize];
        more.iter().fold(first, |mask, slot| mask | slots[*slot as usize])
    }

    /// Runs a step; returns whether it had tasks that had not passed it before.
    #[inline]
    fn step(&mut self, code: &EntryCode, step: &Step) -> bool {
        let mut input = self.input(code, step);
        if let Some(shortcut) = step.shortcut {
            // Those that another shortcut has taken past this node are counted already.
            let passed = self.state.masks.slots[step.first_slot as usize];
            let tried = input & !passed & self.batch.occupied;
            if tried != 0 && self.try_shortcut(code, shortcut, tried) {
                input &= !self.take_ways(code, shortcut, tried);
            }
        }
        match step.kind {
            StepKind::Function => self.function(step, input),
            StepKind::Sharded => self.sharded(step, input),
            StepKind::And { swap } => self.operator(code, step, input, swap, Truth::and),
            StepKind::Or { swap } => self.operator(code, step, input, swap, Truth::or),
        }
    }

    #[inline]
    fn operator(
        &mut self,
        code: &EntryCode,
        step: &Step,
        input: Mask,
        swap: bool,
        evaluate: impl FnOnce(&Truth) -> (Mask, Mask),
    ) -> bool {
        let slots = &mut self.state.masks.slots;
        let operands = &code.operands[span(&step.operands)];
        let truth = Truth::of(operands, slots);
        let input = input | truth.some_yes | truth.some_no;
        // The slots that a shortcut has written for other tasks stay.
        let place = &mut slots[step.first_slot as usize];
        let is_new = input & !*place != 0;
        *place |= input;
        // A task that starts at an operator has no operands that could decide it.
        if !operands.is_empty() {
            let (yes, no) = evaluate(&truth);
            let outputs = if swap { [yes, no] } else { [no, yes] };
            for (slot, decided) in slots[step.slots()][1..].iter_mut().zip(outputs) {
                *slot |= decided;
            }
        }
        is_new
    }

    #[inline]
    pub(super) fn function(&mut self, step: &Step, mut input: Mask) -> bool {
        if step.needs_buffer && input & !self.batch.occupied != 0 {
            input = self.mask_out(step, input);
            if input == 0 {
                return false;
            }
        }
        let BatchState { masks: TaskMasks { slots, .. }, requests, running, .. } = &mut *self.state;
        let Some((place, outputs)) = slots[step.slots()].split_first_mut() else {
            return false;
        };
        // Tasks that a shortcut has taken past this node.
        let passed = *place;
        input &= !passed;
        if input == 0 {
            return false;
        }
        *place |= input;
        let Some(block) = &mut self.blocks[step.node as usize] else {
            self.state.lost.push((step.node, Loss::Quarantine, input));
            return true;
        };
        *running = step.node;
        let flows = match step.kind {
            StepKind::Sharded => owners(self.program, step.node),
            _ => None,
        };
        self.runtime.call(self.now, requests, flows, |cx| {
            block.run(cx, self.burst, input, &mut Ports::new(outputs));
        });
        // A broken contract is a defect that tests must see. In a release build, requests of the
        // block beyond its edges and counters are its own panic.
        #[cfg(debug_assertions)]
        (*running = NO_NODE);
        // If a faulty block enables ports for tasks that are not in its input, or two ports for one
        // task, the error must not spread.
        let name = &self.program.nodes[step.node as usize].name;
        let enabled = only_sound(outputs, input | passed, name) & !passed;
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
}

impl Walk<'_> {
    /// Tries shortcut number `shortcut` of the entry on tasks that have a packet; returns whether some have
    /// taken a way.
    #[inline]
    pub(super) fn try_shortcut(&mut self, code: &EntryCode, shortcut: u32, tasks: Mask) -> bool {
        let number = code.shortcuts[shortcut as usize].number;
        let Some(Some(matcher)) = self.shortcuts.get_mut(number as usize) else { return false };
        self.state.shortcut = Some(number);
        let BatchState { requests, ways, .. } = &mut *self.state;
        self.runtime.call(self.now, requests, None, |cx| {
            matcher.run(cx, self.burst, tasks, ways);
        });
        self.state.shortcut = None;
        !self.state.ways.is_empty()
    }

    /// Sends the tasks of `input` along the ways that the shortcut has found; returns those that took one.
    #[inline]
    pub(super) fn take_ways(&mut self, code: &EntryCode, shortcut: u32, input: Mask) -> Mask {
        let plans = &code.ways[span(&code.shortcuts[shortcut as usize].ways)];
        let mut left = input;
        while let Some((way, tasks)) = self.state.ways.take_first() {
            let tasks = tasks & left;
            // The packets of a way that the graph does not have go from node to node.
            if let Some(Some(plan)) = plans.get(way)
                && tasks != 0
                && self.observe(code, plan, tasks)
            {
                left &= !tasks;
                pass(code, plan, tasks, &mut self.state.masks);
                let packets = u64::from(number_of(tasks));
                self.runtime.counters.add(plan.counter, packets);
                #[cfg(test)]
                self.state.taken.push((plan.counter, tasks));
            }
        }
        let taken = input & !left;
        if self.state.ways.is_counting() {
            self.count_own(code, shortcut, taken);
        }
        taken
    }

    /// Adds those of the tasks that a shortcut has counted, and that are on their way, to counters of blocks.
    #[inline(never)]
    pub(super) fn count_own(&mut self, code: &EntryCode, shortcut: u32, taken: Mask) {
        let own = &code.shortcut_counters[span(&code.shortcuts[shortcut as usize].counters)];
        while let Some((counter, tasks)) = self.state.ways.take_counted() {
            if let Some(counter) = own.get(counter) {
                self.runtime.counters.add(*counter, u64::from(number_of(tasks & taken)));
            }
        }
    }
}

impl Walk<'_> {
    /// Has the observers on a way look at its tasks. If one is quarantined, none looks: returns false, and the tasks
    /// go from node to node, and are lost at the quarantined one.
    #[inline]
    pub(super) fn observe(&mut self, code: &EntryCode, way: &WayPlan, tasks: Mask) -> bool {
        way.observers.is_empty() || self.look(code, &code.observers[span(&way.observers)], tasks)
    }

    #[inline(never)]
    fn look(&mut self, code: &EntryCode, observers: &[u32], tasks: Mask) -> bool {
        let steps = || observers.iter().map(|step| &code.steps[*step as usize]);
        if steps().any(|step| self.blocks[step.node as usize].is_none()) {
            return false;
        }
        for step in steps() {
            // Where two ways lead past it, it has masks, and has seen the packets of the first one.
            let tasks = tasks & !self.state.masks.slots[step.first_slot as usize];
            let Some(block) = &mut self.blocks[step.node as usize] else { continue };
            if tasks == 0 {
                continue;
            }
            self.state.running = step.node;
            let mut out = [0];
            self.runtime.call(self.now, &mut self.state.requests, None, |cx| {
                block.run(cx, self.burst, tasks, &mut Ports::new(&mut out));
            });
            #[cfg(debug_assertions)]
            (self.state.running = NO_NODE);
            let claimed = if self.state.requests.is_empty() { 0 } else { self.drain(step, tasks) };
            debug_assert!(
                out == [tasks] && claimed == 0,
                "block of node {}: its type says that it only looks at packets",
                self.program.nodes[step.node as usize].name,
            );
        }
        true
    }
}

/// Marks the nodes at the border of the way as passed, so that they do not run for these tasks; only
/// the nodes after them are due.
#[inline]
fn pass(code: &EntryCode, way: &WayPlan, tasks: Mask, masks: &mut TaskMasks) {
    for slot in &code.way_slots[span(&way.slots)] {
        masks.slots[*slot as usize] |= tasks;
    }
    for set in &code.way_steps[span(&way.passed)] {
        masks.passed[set.word as usize] |= set.steps;
    }
    for set in &code.way_steps[span(&way.ending)] {
        masks.ending[set.word as usize] |= set.steps;
    }
    for set in &code.way_steps[span(&way.ends)] {
        masks.due[set.word as usize] |= set.steps;
    }
}

/// Removes from the masks of a block's ports what cannot be: tasks that it was not called with, and a second
/// port for a task. Returns the tasks that have left.
#[inline]
pub(super) fn only_sound(outputs: &mut [Mask], input: Mask, name: &str) -> Mask {
    let mut enabled = 0;
    for tasks in outputs {
        debug_assert!(
            *tasks & !(input & !enabled) == 0,
            "block of node {name}: a port has {tasks:#x}, the input is {input:#x}, and \
             {enabled:#x} left before",
        );
        *tasks &= input & !enabled;
        enabled |= *tasks;
    }
    enabled
}

/// The slots of a step's ports.
#[inline]
pub(super) fn ports_of(step: &Step) -> Range<usize> {
    step.slots().start + 1..step.slots().end
}

/// Marks as due the targets of the ports by which tasks have left.
#[inline]
fn wake(wakes: &[Wake], masks: &mut TaskMasks) {
    for wake in wakes {
        if masks.slots[wake.slot as usize] != 0 {
            masks.due[wake.word as usize] |= wake.steps;
        }
    }
}

/// The operands of an operator as masks of tasks. An undecided operand is in neither of its two
/// masks.
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

    /// True when one operand is true, false when every one is false.
    #[inline]
    fn or(&self) -> (Mask, Mask) {
        (self.some_yes, self.every_no)
    }
}
