//! From a verified graph to a schedule.

use weever_blocks_api::{Env, Registry};
use weever_graph::{Attr, Effects, Graph, NodeId, NodeKind, Op, PortId, Verified};

use super::nodes::{Preparation, Prepared};
use super::program::TASKS_SLOT;
use super::program::{EMPTY_SLOT, EntryPlan, FIRST_PORT_SLOT, Operand, Program, Step, StepKind};
use super::{CompileError, Entry, Schedule};
use crate::counters::Layout;

impl Schedule {
    /// Makes the blocks of a graph and the steps of its entries. Off the packet path: allocates.
    ///
    /// # Errors
    /// A node whose type is not in `registry` or does not fit it, with the node's name.
    pub fn compile(
        graph: &Verified,
        registry: &Registry,
        env: &Env,
    ) -> Result<Schedule, CompileError> {
        let starts = starts(graph, registry);
        let mut entry_of = vec![None; graph.len()];
        for (number, start) in starts.iter().enumerate() {
            entry_of[start.index()] = Some(Entry(number as u32));
        }
        let mut layout = Layout::new();
        let mut nodes = Vec::with_capacity(graph.len());
        for (id, _) in graph.iter() {
            let layout = &mut layout;
            let entry_of = &entry_of;
            nodes.push(Preparation { graph, registry, env, entry_of, layout }.node(id)?);
        }
        let mut builder = Builder::new(graph, &nodes);
        starts.iter().for_each(|start| builder.add_entry(*start, graph.order()));
        let mut program = builder.program;
        program.init = init(graph, &entry_of);
        let (plans, blocks) = nodes.into_iter().map(|n| (n.plan, n.block)).unzip();
        program.nodes = plans;
        Ok(Schedule { program, blocks, layout })
    }
}

/// Where tasks may start; the same set that verification has checked, and the nodes that block.
fn starts(graph: &Graph, registry: &Registry) -> Vec<NodeId> {
    let mut is_start = vec![true; graph.len()];
    for (_, target) in graph.dataflow() {
        is_start[target.index()] = false;
    }
    for (id, node) in graph.iter() {
        let effects = node.effects.or_else(|| registry.type_of(node).ok().map(|t| t.effects));
        let blocks = effects.is_some_and(|e| e.contains(Effects::BLOCKS));
        if blocks || node.has(&Attr::Source) || node.has(&Attr::Init) {
            is_start[id.index()] = true;
        }
        for edge in node.spawns.iter().chain(&node.notifies) {
            is_start[edge.target.index()] = true;
        }
    }
    graph.iter().map(|(id, _)| id).filter(|id| is_start[id.index()]).collect()
}

fn init(graph: &Graph, entry_of: &[Option<Entry>]) -> Vec<Entry> {
    let tagged = graph.iter().filter(|(_, node)| node.has(&Attr::Init));
    tagged.filter_map(|(id, _)| entry_of[id.index()]).collect()
}

struct Builder<'a> {
    graph: &'a Graph,
    nodes: &'a [Prepared],
    /// Per node, the ports that lead to it, each once.
    incoming: Vec<Vec<PortId>>,
    program: Program,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a Graph, nodes: &'a [Prepared]) -> Builder<'a> {
        let mut incoming: Vec<Vec<PortId>> = vec![Vec::new(); graph.len()];
        for (port, target) in graph.dataflow() {
            let ports = &mut incoming[target.index()];
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        Builder { graph, nodes, incoming, program: Program::default() }
    }

    fn add_entry(&mut self, start: NodeId, order: &[NodeId]) {
        let mut places = Places::new(self.graph, start);
        let first = self.program.steps.len() as u32;
        for id in order {
            if !places.reached[id.index()] {
                continue;
            }
            let step = self.step(*id, start, &mut places);
            self.program.steps.push(step);
        }
        let steps = first..self.program.steps.len() as u32;
        self.program.entries.push(EntryPlan { node: start.0, steps, slots: places.next });
    }

    fn step(&mut self, id: NodeId, start: NodeId, places: &mut Places) -> Step {
        let first_input = self.program.inputs.len() as u32;
        let first_operand = self.program.operands.len() as u32;
        let kind = self.kind(id);
        if id == start {
            self.program.inputs.push(TASKS_SLOT);
        } else {
            let incoming = self.incoming[id.index()].iter();
            let slots: Vec<u32> = incoming.filter_map(|p| self.slot(*p, places)).collect();
            self.program.inputs.extend(slots);
            if kind != StepKind::Function {
                let operands = self.operands(id, places);
                self.program.operands.extend(operands);
            }
        }
        let node = &self.nodes[id.index()];
        Step {
            kind,
            node: id.0,
            needs_buffer: node.needs_buffer,
            inputs: first_input..self.program.inputs.len() as u32,
            operands: first_operand..self.program.operands.len() as u32,
            outputs: places.reserve(id, node.ports.len() as u32),
            counter: node.counter,
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
    fn slot(&self, port: PortId, places: &Places) -> Option<u32> {
        let first = places.first_slot[port.node.index()]?;
        Some(first + self.nodes[port.node.index()].ports[port.port as usize])
    }

    /// One operand per source node, also for those that this entry does not reach: they stay
    /// undecided, so they count.
    fn operands(&self, id: NodeId, places: &Places) -> Vec<Operand> {
        let mut sources: Vec<NodeId> = self.incoming[id.index()].iter().map(|p| p.node).collect();
        sources.sort();
        sources.dedup();
        let slot = |source: NodeId, name: &str| {
            let mut edges = self.incoming[id.index()].iter().filter(|p| p.node == source);
            let named = |p: &&PortId| self.graph.node(source).ports[p.port as usize].name == name;
            edges.find(named).and_then(|p| self.slot(*p, places)).unwrap_or(EMPTY_SLOT)
        };
        let operand = |s: NodeId| Operand { yes: slot(s, "true"), no: slot(s, "false") };
        sources.into_iter().map(operand).collect()
    }
}

/// Which nodes one entry reaches, and where their ports' masks lie.
struct Places {
    reached: Vec<bool>,
    first_slot: Vec<Option<u32>>,
    next: u32,
}

impl Places {
    fn new(graph: &Graph, start: NodeId) -> Places {
        let mut reached = vec![false; graph.len()];
        let mut stack = vec![start];
        while let Some(id) = stack.pop() {
            if !std::mem::replace(&mut reached[id.index()], true) {
                stack.extend(graph.node(id).ports.iter().flat_map(|p| &p.targets));
            }
        }
        Places { reached, first_slot: vec![None; graph.len()], next: FIRST_PORT_SLOT }
    }

    fn reserve(&mut self, id: NodeId, ports: u32) -> std::ops::Range<u32> {
        let first = self.next;
        self.first_slot[id.index()] = Some(first);
        self.next += ports;
        first..self.next
    }
}
