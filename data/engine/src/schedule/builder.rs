//! The steps of an entry.

use std::ops::Range;

use weever_block::ShortcutType;
use weever_graph::{Graph, NodeId, NodeKind, Op, PortId};

use super::nodes::Prepared;
use super::program::{DropSlot, EMPTY_SLOT, EntryPlan, FIRST_STEP_SLOT, Operand, Program, Step};
use super::program::{StepKind, TASKS_SLOT, Wake};
use super::{Entry, Idp};

/// Adds entry after entry to a program.
pub(super) struct Builder<'a> {
    pub(super) graph: &'a Graph,
    pub(super) shortcuts: &'a [&'static ShortcutType],
    pub(super) nodes: &'a [Prepared],
    /// Per node, the ports that lead to it, each once.
    incoming: Vec<Vec<PortId>>,
    pub(super) program: Program,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        shortcuts: &'a [&'static ShortcutType],
        nodes: &'a [Prepared],
    ) -> Builder<'a> {
        let mut incoming: Vec<Vec<PortId>> = vec![Vec::new(); graph.len()];
        for (port, target) in graph.dataflow() {
            let ports = &mut incoming[target.index()];
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        Builder { graph, shortcuts, nodes, incoming, program: Program::default() }
    }

    pub(super) fn add_entry(&mut self, entry: Entry, start: NodeId, order: &[NodeId]) {
        let mut places = Places::new(self.graph, start, order);
        let first = self.program.steps.len() as u32;
        for id in order {
            if places.reached[id.index()] {
                let step = self.step(*id, start, &mut places);
                self.program.steps.push(step);
            }
        }
        for id in order.iter().filter(|id| places.reached[id.index()]) {
            let shortcut = self.shortcut(*id, order, &places);
            let step = first + places.step_of[id.index()];
            self.program.steps[step as usize].shortcut = shortcut;
        }
        let (steps, slots) = (first..self.program.steps.len() as u32, places.next);
        let plan = EntryPlan { node: start.0, idp: Idp::NONE, home: None, steps, slots };
        self.program.entries[entry.index()] = plan;
    }

    fn drops(&mut self, id: NodeId, place: u32) -> Range<u32> {
        let drops = (place + 1..).zip(&self.nodes[id.index()].drops);
        let drops = drops.filter_map(|(slot, drop)| drop.map(|reason| DropSlot { slot, reason }));
        append(&mut self.program.drops, &drops.collect::<Vec<_>>())
    }

    fn wakes(&mut self, id: NodeId, places: &Places) -> Range<u32> {
        let mut wakes: Vec<Wake> = Vec::new();
        for (port, targets) in self.graph.node(id).ports.iter().map(|p| &p.targets).enumerate() {
            let port = PortId { node: id, port: port as u32 };
            let Some(slot) = self.slot(port, places) else { continue };
            for target in targets {
                let (word, bit) = places.bit(*target);
                match wakes.iter_mut().find(|w| (w.slot, w.word) == (slot, word)) {
                    Some(wake) => wake.steps |= bit,
                    None => wakes.push(Wake { slot, word, steps: bit }),
                }
            }
        }
        append(&mut self.program.wakes, &wakes)
    }

    fn step(&mut self, id: NodeId, start: NodeId, places: &mut Places) -> Step {
        let kind = self.kind(id);
        let operands = match kind {
            StepKind::Function => Vec::new(),
            _ if id == start => Vec::new(),
            _ => self.operands(id, places),
        };
        let incoming = self.incoming[id.index()].iter();
        let mut inputs = incoming.filter_map(|p| self.slot(*p, places)).collect::<Vec<_>>();
        if id == start {
            inputs = vec![TASKS_SLOT];
        }
        // Operands are looked at anyway.
        inputs.retain(|slot| !operands.iter().any(|o| [o.yes, o.no].contains(slot)));
        let node = &self.nodes[id.index()];
        let ports = node.ports.len() as u32;
        let place = places.reserve(id, ports);
        Step {
            kind,
            needs_buffer: node.needs_buffer,
            node: id.0,
            input: inputs.first().copied().unwrap_or(EMPTY_SLOT),
            more_inputs: append(&mut self.program.inputs, inputs.get(1..).unwrap_or_default()),
            place,
            ports,
            operands: append(&mut self.program.operands, &operands),
            counter: node.counter,
            wakes: self.wakes(id, places),
            drops: self.drops(id, place),
            shortcut: None,
        }
    }

    fn kind(&self, id: NodeId) -> StepKind {
        match self.graph.node(id).kind {
            NodeKind::Operator(Op::And) => StepKind::And { swap: false },
            NodeKind::Operator(Op::Nand) => StepKind::And { swap: true },
            NodeKind::Operator(Op::Or) => StepKind::Or { swap: false },
            NodeKind::Operator(Op::Nor) => StepKind::Or { swap: true },
            _ => StepKind::Function,
        }
    }

    /// Where this entry keeps who left by `port`; `None` when it does not reach the node.
    pub(super) fn slot(&self, port: PortId, places: &Places) -> Option<u32> {
        let place = places.place_of[port.node.index()]?;
        Some(place + 1 + self.nodes[port.node.index()].ports[port.port as usize])
    }

    /// The nodes that are operands of an operator.
    pub(super) fn sources(&self, id: NodeId) -> Vec<NodeId> {
        let mut sources: Vec<NodeId> = self.incoming[id.index()].iter().map(|p| p.node).collect();
        sources.sort();
        sources.dedup();
        sources
    }

    /// One operand per source node, also for those that this entry does not reach: they stay
    /// undecided, so they count.
    fn operands(&self, id: NodeId, places: &Places) -> Vec<Operand> {
        let slot = |source: NodeId, name: &str| {
            let mut edges = self.incoming[id.index()].iter().filter(|p| p.node == source);
            let named = |p: &&PortId| self.graph.node(source).ports[p.port as usize].name == name;
            edges.find(named).and_then(|p| self.slot(*p, places)).unwrap_or(EMPTY_SLOT)
        };
        let operand = |s: NodeId| Operand { yes: slot(s, "true"), no: slot(s, "false") };
        self.sources(id).into_iter().map(operand).collect()
    }
}

/// Which nodes one entry reaches, and where their ports' masks lie.
pub(super) struct Places {
    pub(super) reached: Vec<bool>,
    pub(super) place_of: Vec<Option<u32>>,
    /// By node, the number of its step; only of those that are reached.
    pub(super) step_of: Vec<u32>,
    next: u32,
}

impl Places {
    fn new(graph: &Graph, start: NodeId, order: &[NodeId]) -> Places {
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
        Places { reached, place_of: vec![None; graph.len()], step_of, next: FIRST_STEP_SLOT }
    }

    /// Which word of the board's sets of steps a node is in, and its bit there.
    pub(super) fn bit(&self, id: NodeId) -> (u32, u64) {
        let step = self.step_of[id.index()];
        (step / 64, 1 << (step % 64))
    }

    /// Slots for a node's input and its ports.
    fn reserve(&mut self, id: NodeId, ports: u32) -> u32 {
        let place = self.next;
        self.place_of[id.index()] = Some(place);
        self.next += 1 + ports;
        place
    }
}

/// Adds items to one of the program's arrays; says where they are.
pub(super) fn append<T: Copy>(array: &mut Vec<T>, items: &[T]) -> Range<u32> {
    let first = array.len() as u32;
    array.extend_from_slice(items);
    first..array.len() as u32
}
