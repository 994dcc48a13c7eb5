//! From a verified graph to a schedule.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use weever_blocks_api::{Block, Env, Registry};
use weever_graph::{Attr, Effects, Graph, NodeId, NodeKind, Op, PortId, Verified};

use super::blueprint::Blueprint;
use super::nodes::{Preparation, Prepared};
use super::program::{DropSlot, EMPTY_SLOT, EntryPlan, FIRST_STEP_SLOT, Operand, Program, Step};
use super::program::{StepKind, TASKS_SLOT, Wake};
use super::{CompileError, Entry, Homes, Idp, Idps, Schedule};
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
        let plan =
            Blueprint::compile(graph.clone(), registry, &mut Idps::new(), Recipe::default())?;
        Schedule::of(Arc::new(plan), registry, env)
    }

    /// Makes the blocks of a compiled graph.
    pub(crate) fn of(
        plan: Arc<Blueprint>,
        registry: &Registry,
        env: &Env,
    ) -> Result<Schedule, CompileError> {
        let blocks = build_all(&plan.graph, registry, env)?;
        Ok(Schedule { plan, blocks })
    }
}

/// The blocks of a graph, by node.
pub(super) fn build_all(
    graph: &Graph,
    registry: &Registry,
    env: &Env,
) -> Result<Vec<Option<Box<dyn Block>>>, CompileError> {
    graph.iter().map(|(id, _)| build(graph, id, registry, env)).collect()
}

/// A node's block; none for an operator.
pub(super) fn build(
    graph: &Graph,
    id: NodeId,
    registry: &Registry,
    env: &Env,
) -> Result<Option<Box<dyn Block>>, CompileError> {
    match graph.node(id).kind {
        NodeKind::Function | NodeKind::Table(_) => Ok(Some(registry.build(graph.node(id), env)?)),
        NodeKind::Operator(_) | NodeKind::Config(_) => Ok(None),
    }
}

/// What else a compilation depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe<'a> {
    /// What runs now. Nodes that are entries of it stay entries, under their numbers.
    pub(crate) previous: Option<&'a Blueprint>,
    /// Nodes that become entries.
    pub(crate) more_starts: &'a [&'a str],
    /// The workers.
    pub(crate) homes: Homes,
}

impl Default for Recipe<'_> {
    fn default() -> Self {
        Recipe { previous: None, more_starts: &[], homes: Homes::ONE }
    }
}

impl Blueprint {
    /// The arrays of a graph.
    pub(crate) fn compile(
        graph: Verified,
        registry: &Registry,
        idps: &mut Idps,
        recipe: Recipe<'_>,
    ) -> Result<Blueprint, CompileError> {
        let Recipe { previous, more_starts, homes } = recipe;
        let (entry_of, count) = number(&graph, registry, previous, more_starts);
        let mut layout = Layout::new();
        let mut nodes = Vec::with_capacity(graph.len());
        for (id, _) in graph.iter() {
            let (graph, layout, entry_of) = (&graph, &mut layout, &entry_of);
            nodes.push(Preparation { graph, registry, homes, entry_of, layout }.node(id)?);
        }
        let mut builder = Builder::new(&graph, &nodes);
        builder.program.entries = vec![EntryPlan::hole(); count];
        for (id, node) in graph.iter() {
            if let Some(entry) = entry_of[id.index()] {
                builder.add_entry(entry, id, graph.order());
                let plan = &mut builder.program.entries[entry.index()];
                plan.idp = idps.of(&node.name);
                plan.home = homes.of(node, registry);
            }
        }
        let mut program = builder.program;
        program.init = init(&graph, &entry_of);
        if previous.is_some() || homes != Homes::ONE {
            program.dropped = layout.removed();
        }
        program.nodes = nodes.into_iter().map(|n| n.plan).collect();
        Ok(Blueprint { graph, program, layout })
    }
}

/// By node, the number of its entry; and how many numbers there are. Numbers stay, so that tasks
/// which wait under them stay where they are, whatever else of the graph changes.
fn number(
    graph: &Graph,
    registry: &Registry,
    previous: Option<&Blueprint>,
    more_starts: &[&str],
) -> (Vec<Option<Entry>>, usize) {
    let old: HashMap<&str, Entry> = previous.into_iter().flat_map(Blueprint::entries).collect();
    let mut starts = starts(graph, registry);
    starts.extend(more_starts.iter().filter_map(|name| graph.find(name)));
    let mut entry_of: Vec<Option<Entry>> =
        graph.iter().map(|(_, node)| old.get(node.name.as_str()).copied()).collect();
    let count = previous.map_or(0, |plan| plan.program.entries.len());
    // A number whose node goes now is not given to another before the next change: tasks may still
    // wait under it.
    let mut is_taken = vec![false; count];
    old.values().for_each(|entry| is_taken[entry.index()] = true);
    let mut free = (0..count).filter(|n| !is_taken[*n]).chain(count..);
    for start in starts {
        if entry_of[start.index()].is_none() {
            entry_of[start.index()] = free.next().map(|n| Entry(n as u32));
        }
    }
    let used = entry_of.iter().flatten().map(|entry| entry.index() + 1).max();
    (entry_of, count.max(used.unwrap_or(0)))
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

    fn add_entry(&mut self, entry: Entry, start: NodeId, order: &[NodeId]) {
        let mut places = Places::new(self.graph, start, order);
        let first = self.program.steps.len() as u32;
        for id in order {
            if places.reached[id.index()] {
                let step = self.step(*id, start, &mut places);
                self.program.steps.push(step);
            }
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
                let step = places.step_of[target.index()];
                let (word, bit) = (step / 64, 1 << (step % 64));
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
        let place = places.place_of[port.node.index()]?;
        Some(place + 1 + self.nodes[port.node.index()].ports[port.port as usize])
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
    place_of: Vec<Option<u32>>,
    /// By node, the number of its step; only of those that are reached.
    step_of: Vec<u32>,
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

    /// Slots for a node's input and its ports.
    fn reserve(&mut self, id: NodeId, ports: u32) -> u32 {
        let place = self.next;
        self.place_of[id.index()] = Some(place);
        self.next += 1 + ports;
        place
    }
}

fn append<T: Copy>(array: &mut Vec<T>, items: &[T]) -> Range<u32> {
    let first = array.len() as u32;
    array.extend_from_slice(items);
    first..array.len() as u32
}
