//! Compiles the steps of each entry.

use std::ops::Range;

use weever_block::{BlockType, ShortcutType};
use weever_graph::{Graph, NodeId, NodeKind, Op, PortId};

use super::ids::{Entry, Idp};
use super::program::{DropSlot, EMPTY_SLOT, End, EntryPlan, FIRST_STEP_SLOT, NodePlan, Operand};
use super::program::{Program, Step, StepKind, TASKS_SLOT, Wake};
use crate::counters::Counter;

/// A node prepared for being placed in entries.
pub(super) struct PreparedNode {
    pub(super) plan: NodePlan,
    pub(super) block_type: Option<&'static BlockType>,
    /// For each port of the graph's node, the number that the block gives it.
    pub(super) ports: Vec<u32>,
    /// Counts incoming tasks; the ports' counters follow.
    pub(super) counter: Counter,
    /// Per port, in the block's numbering: the counter of packets that end there, and why they do.
    pub(super) drops: Vec<Option<(Counter, End)>>,
    pub(super) needs_buffer: bool,
}

/// Adds entries to a program.
pub(super) struct ProgramBuilder<'a> {
    pub(super) graph: &'a Graph,
    pub(super) shortcuts: &'a [&'static ShortcutType],
    pub(super) nodes: &'a [PreparedNode],
    /// Per node, the ports that lead to it, each once.
    incoming: Vec<Vec<PortId>>,
    pub(super) program: Program,
    /// By way, the counters of the steps inside it.
    pub(super) way_counters: Vec<Box<[Counter]>>,
}

impl<'a> ProgramBuilder<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        shortcuts: &'a [&'static ShortcutType],
        nodes: &'a [PreparedNode],
    ) -> ProgramBuilder<'a> {
        let mut incoming: Vec<Vec<PortId>> = vec![Vec::new(); graph.len()];
        for (port, target) in graph.dataflow() {
            let ports = &mut incoming[target.index()];
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        ProgramBuilder {
            graph,
            shortcuts,
            nodes,
            incoming,
            program: Program::default(),
            way_counters: Vec::new(),
        }
    }

    pub(super) fn add_entry(&mut self, entry: Entry, start: NodeId, order: &[NodeId]) {
        let mut layout = EntrySlots::new(self.graph, start, order);
        let first = self.program.steps.len() as u32;
        for id in order {
            if layout.reached[id.index()] {
                let step = self.step(*id, start, &mut layout);
                self.program.steps.push(step);
            }
        }
        for id in order.iter().filter(|id| layout.reached[id.index()]) {
            let shortcut = self.shortcut(*id, order, &layout);
            let step = first + layout.step_of[id.index()];
            self.program.steps[step as usize].shortcut = shortcut;
        }
        let (steps, slots) = (first..self.program.steps.len() as u32, layout.next);
        let plan = EntryPlan { node: start.0, idp: Idp::NONE, home: None, steps, slots };
        self.program.entries[entry.index()] = plan;
    }

    fn drops(&mut self, id: NodeId, first_slot: u32) -> Range<u32> {
        let drops = (first_slot + 1..).zip(&self.nodes[id.index()].drops);
        let drops = drops
            .filter_map(|(slot, drop)| drop.map(|(reason, end)| DropSlot { slot, reason, end }));
        append(&mut self.program.drops, &drops.collect::<Vec<_>>())
    }

    fn wakes(&mut self, id: NodeId, layout: &EntrySlots) -> Range<u32> {
        let mut wakes: Vec<Wake> = Vec::new();
        for (port, targets) in self.graph.node(id).ports.iter().map(|p| &p.targets).enumerate() {
            let port = PortId { node: id, port: port as u32 };
            let Some(slot) = self.slot(port, layout) else { continue };
            for target in targets {
                let (word, bit) = layout.bit(*target);
                match wakes.iter_mut().find(|w| (w.slot, w.word) == (slot, word)) {
                    Some(wake) => wake.steps |= bit,
                    None => wakes.push(Wake { slot, word, steps: bit }),
                }
            }
        }
        append(&mut self.program.wakes, &wakes)
    }

    fn step(&mut self, id: NodeId, start: NodeId, layout: &mut EntrySlots) -> Step {
        let kind = self.kind(id);
        let operands = match kind {
            StepKind::Function | StepKind::Sharded => Vec::new(),
            _ if id == start => Vec::new(),
            _ => self.operands(id, layout),
        };
        let incoming = self.incoming[id.index()].iter();
        let mut inputs = incoming.filter_map(|p| self.slot(*p, layout)).collect::<Vec<_>>();
        if id == start {
            inputs = vec![TASKS_SLOT];
        }
        // The operands' slots are read in any case.
        inputs.retain(|slot| !operands.iter().any(|o| [o.yes, o.no].contains(slot)));
        let node = &self.nodes[id.index()];
        let ports = node.ports.len() as u32;
        let first_slot = layout.reserve(id, ports);
        Step {
            kind,
            needs_buffer: node.needs_buffer,
            node: id.0,
            input: inputs.first().copied().unwrap_or(EMPTY_SLOT),
            more_inputs: append(&mut self.program.inputs, inputs.get(1..).unwrap_or_default()),
            first_slot,
            ports,
            operands: append(&mut self.program.operands, &operands),
            counter: node.counter,
            wakes: self.wakes(id, layout),
            drops: self.drops(id, first_slot),
            shortcut: None,
        }
    }

    fn kind(&self, id: NodeId) -> StepKind {
        match self.graph.node(id).kind {
            NodeKind::Operator(Op::And) => StepKind::And { swap: false },
            NodeKind::Operator(Op::Nand) => StepKind::And { swap: true },
            NodeKind::Operator(Op::Or) => StepKind::Or { swap: false },
            NodeKind::Operator(Op::Nor) => StepKind::Or { swap: true },
            _ if self.nodes[id.index()].plan.flows.is_some() => StepKind::Sharded,
            _ => StepKind::Function,
        }
    }

    /// The slot with the tasks that left by `port`; `None` when this entry does not reach the node.
    pub(super) fn slot(&self, port: PortId, layout: &EntrySlots) -> Option<u32> {
        let first_slot = layout.first_slot_of[port.node.index()]?;
        Some(first_slot + 1 + self.nodes[port.node.index()].ports[port.port as usize])
    }

    /// The nodes that are operands of an operator.
    pub(super) fn sources(&self, id: NodeId) -> Vec<NodeId> {
        let mut sources: Vec<NodeId> = self.incoming[id.index()].iter().map(|p| p.node).collect();
        sources.sort();
        sources.dedup();
        sources
    }

    /// One operand per source node, including those that this entry does not reach: they stay
    /// undecided, and an undecided operand matters.
    fn operands(&self, id: NodeId, layout: &EntrySlots) -> Vec<Operand> {
        let slot = |source: NodeId, name: &str| {
            let mut edges = self.incoming[id.index()].iter().filter(|p| p.node == source);
            let named = |p: &&PortId| self.graph.node(source).ports[p.port as usize].name == name;
            edges.find(named).and_then(|p| self.slot(*p, layout)).unwrap_or(EMPTY_SLOT)
        };
        let operand = |s: NodeId| Operand { yes: slot(s, "true"), no: slot(s, "false") };
        self.sources(id).into_iter().map(operand).collect()
    }
}

/// The nodes that one entry reaches, and where the masks of their ports are.
pub(super) struct EntrySlots {
    pub(super) reached: Vec<bool>,
    pub(super) first_slot_of: Vec<Option<u32>>,
    /// By node: the number of its step, valid only for nodes that are reached.
    pub(super) step_of: Vec<u32>,
    next: u32,
}

impl EntrySlots {
    fn new(graph: &Graph, start: NodeId, order: &[NodeId]) -> EntrySlots {
        let mut reached = vec![false; graph.len()];
        let mut stack = vec![start];
        while let Some(id) = stack.pop() {
            if !std::mem::replace(&mut reached[id.index()], true) {
                stack.extend(graph.node(id).ports.iter().flat_map(|p| &p.targets));
            }
        }
        let mut step_of = vec![0; graph.len()];
        for (step, id) in (0..).zip(order.iter().filter(|id| reached[id.index()])) {
            step_of[id.index()] = step;
        }
        EntrySlots {
            reached,
            first_slot_of: vec![None; graph.len()],
            step_of,
            next: FIRST_STEP_SLOT,
        }
    }

    /// The word and bit of a node's step in [`TaskMasks::due`](super::TaskMasks).
    pub(super) fn bit(&self, id: NodeId) -> (u32, u64) {
        let step = self.step_of[id.index()];
        (step / 64, 1 << (step % 64))
    }

    /// Slots for a node's input and its ports.
    fn reserve(&mut self, id: NodeId, ports: u32) -> u32 {
        let first_slot = self.next;
        self.first_slot_of[id.index()] = Some(first_slot);
        self.next += 1 + ports;
        first_slot
    }
}

/// Appends items to one of the program's arrays; returns their range.
pub(super) fn append<T: Copy>(array: &mut Vec<T>, items: &[T]) -> Range<u32> {
    let first = array.len() as u32;
    array.extend_from_slice(items);
    first..array.len() as u32
}
