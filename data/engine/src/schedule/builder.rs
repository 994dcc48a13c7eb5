//! Compiles the steps of an entry.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use weever_block::RunCompiler;
use weever_graph::{Graph, NodeId, NodeKind, Op, PortId};

use super::kept::Kept;
use super::program::{DropSlot, EMPTY_SLOT, EntryCode, FIRST_STEP_SLOT, NodePlan, Operand, Step};
use super::program::{KnownRun, Next, NextPlace, Run, ShortcutSource, StepKind, TASKS_SLOT, Wake};
use crate::slots::{Counter, Slots, WayCounters};

/// The runs of a graph by their first nodes; `None` where there is nothing to gain.
pub(super) type Runs = HashMap<NodeId, Option<Run<NodeId>>>;

/// Builds the code of one entry.
pub(super) struct EntryBuilder<'a> {
    pub(super) graph: &'a Graph,
    /// The nodes in the order in which they run.
    pub(super) order: &'a [NodeId],
    pub(super) nodes: &'a [Arc<NodePlan>],
    /// Per node, the ports that lead to it, each once.
    pub(super) incoming: &'a [Vec<PortId>],
    pub(super) kept: &'a Kept<'a>,
    /// The runs of the previous graph and of this one.
    pub(super) known_runs: &'a mut HashMap<u32, KnownRun>,
    pub(super) compiler: Option<&'static dyn RunCompiler>,
    /// The shortcuts of the whole program, by number.
    pub(super) shortcut_sources: &'a mut Vec<Option<ShortcutSource>>,
    /// The compiled runs of the whole program, by their first nodes.
    pub(super) runs: &'a mut Runs,
    /// The nodes that packets pass on a way.
    pub(super) covered: BTreeSet<NodeId>,
    /// The nodes at which ways with observers end. A run may begin there, even if other ways pass the
    /// node.
    pub(super) resumed: BTreeSet<NodeId>,
    pub(super) code: EntryCode,
    /// By way, the counters of the steps inside it.
    pub(super) way_counters: Vec<Box<[Counter]>>,
}

/// Per node, the ports that lead to it, each once.
pub(super) fn incoming(graph: &Graph) -> Vec<Vec<PortId>> {
    let mut incoming: Vec<Vec<PortId>> = vec![Vec::new(); graph.len()];
    for (port, target) in graph.dataflow() {
        let ports = &mut incoming[target.index()];
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    incoming
}

impl EntryBuilder<'_> {
    /// The code of the entry at `start`; its ways get counters from `slots`.
    pub(super) fn build(mut self, start: NodeId, slots: &mut Slots) -> EntryCode {
        let order = self.order;
        let mut layout = EntrySlots::new(self.graph, start, order);
        let reached: Vec<NodeId> = order.iter().copied().filter(|id| layout.has(*id)).collect();
        for id in &reached {
            let step = self.step(*id, start, &mut layout);
            self.code.steps.push(step);
        }
        for (step, id) in reached.iter().enumerate() {
            self.code.steps[step].shortcut = self.shortcut(*id, &reached, &layout);
        }
        self.code.slots = layout.next;
        self.code.next = self.next(&reached, &layout);
        if !self.way_counters.is_empty() {
            let first = slots.take(self.way_counters.len());
            for way in self.code.ways.iter_mut().flatten() {
                way.counter = first.plus(way.counter.index());
                if let Some((_, whole)) = &mut way.whole {
                    *whole = first.plus(whole.index());
                }
            }
            self.code.way_counters = Arc::new(WayCounters { first, of: self.way_counters.into() });
        }
        self.code
    }

    fn drops(&mut self, id: NodeId, first_slot: u32) -> Range<u32> {
        let drops = (first_slot + 1..).zip(&self.nodes[id.index()].drops);
        let drops = drops
            .filter_map(|(slot, drop)| drop.map(|(reason, end)| DropSlot { slot, reason, end }));
        append(&mut self.code.drops, &drops.collect::<Vec<_>>())
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
        append(&mut self.code.wakes, &wakes)
    }

    /// By slot, where tasks are that have all left by that port.
    fn next(&mut self, reached: &[NodeId], layout: &EntrySlots) -> Vec<Next> {
        let mut next = vec![Next::default(); self.code.slots as usize];
        for id in reached {
            for port in 0..self.graph.node(*id).ports.len() as u32 {
                let port = PortId { node: *id, port };
                let Some(slot) = self.slot(port, layout) else { continue };
                let mut through = Vec::new();
                let place = self.next_place(port, layout, &mut through);
                let through = append(&mut self.code.through, &through);
                next[slot as usize] = Next { place, through };
            }
        }
        next
    }

    fn next_place(
        &self,
        at: PortId,
        layout: &EntrySlots,
        through: &mut Vec<(u32, u32)>,
    ) -> NextPlace {
        let port = &self.graph.node(at.node).ports[at.port as usize];
        let node = &self.nodes[at.node.index()];
        let may_end = node.drops[node.ports[at.port as usize] as usize].is_some();
        let target = match *port.targets {
            [] => return NextPlace::End,
            [target] if !may_end => target,
            _ => return NextPlace::Masks,
        };
        let step = layout.step_of[target.index()];
        let NodeKind::Operator(op) = self.graph.node(target).kind else {
            let sharded = self.kind(target) == StepKind::Sharded;
            return if sharded { NextPlace::Masks } else { NextPlace::Step(step) };
        };
        // No other operand will ever be known of these tasks.
        let says = match (op, port.name.as_str()) {
            (Op::Or, "true") | (Op::Nand, "false") => "true",
            (Op::Nor, "true") | (Op::And, "false") => "false",
            _ => return NextPlace::Masks,
        };
        let ports = &self.graph.node(target).ports;
        let Some(number) = ports.iter().position(|port| port.name == says) else {
            return NextPlace::Masks;
        };
        let port = PortId { node: target, port: number as u32 };
        through.push((step, 1 + self.nodes[target.index()].ports[number]));
        self.next_place(port, layout, through)
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
            node: node.place,
            input: inputs.first().copied().unwrap_or(EMPTY_SLOT),
            more_inputs: append(&mut self.code.inputs, inputs.get(1..).unwrap_or_default()),
            first_slot,
            ports,
            operands: append(&mut self.code.operands, &operands),
            counter: node.counters.first,
            wakes: self.wakes(id, layout),
            drops: self.drops(id, first_slot),
            shortcut: None,
        }
    }

    pub(super) fn kind(&self, id: NodeId) -> StepKind {
        match self.graph.node(id).kind {
            NodeKind::Operator(Op::And) => StepKind::And { swap: false },
            NodeKind::Operator(Op::Nand) => StepKind::And { swap: true },
            NodeKind::Operator(Op::Or) => StepKind::Or { swap: false },
            NodeKind::Operator(Op::Nor) => StepKind::Or { swap: true },
            _ if self.nodes[id.index()].flows.is_some() => StepKind::Sharded,
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
    reached: Vec<bool>,
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

    /// Whether the entry reaches a node.
    pub(super) fn has(&self, id: NodeId) -> bool {
        self.reached[id.index()]
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

/// Appends items to one of the code's arrays; returns their range.
pub(super) fn append<T: Copy>(array: &mut Vec<T>, items: &[T]) -> Range<u32> {
    let first = array.len() as u32;
    array.extend_from_slice(items);
    first..array.len() as u32
}
