//! From a verified graph to a schedule: numbers the ports and edges of its nodes as their blocks do,
//! assigns counters, and has the steps of each entry laid out.

use std::sync::Arc;

use weever_block::{BlockType, Env, FlowOwners, Registry, StateKind, TABLE};
use weever_graph::{Attr, Edge, Graph, Node, NodeId, NodeKind, Verified};

use super::Schedule;
use super::blocks::{BlockMaker, CompileError};
use super::builder::{PreparedNode, ProgramBuilder};
use super::ids::{DEFAULT, Entry, EntryNumbers, Homes, Idps};
use super::program::{CompiledGraph, End, EntryPlan, FlowPlan, NodePlan, Program, SpawnEdge};
use crate::counters::{Counter, CounterKind, Layout, leads_nowhere, total};

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
        let numbers = EntryNumbers::next(&EntryNumbers::default(), &[graph], registry, &[]);
        let options =
            CompileOptions { numbers: &numbers, homes: Homes::ONE, whole: None, follows: false };
        let plan = CompiledGraph::compile(graph.clone(), registry, &mut Idps::new(), options)?;
        let maker = BlockMaker { registry: registry.clone(), env: env.clone() };
        Schedule::of(Arc::new(plan), Arc::new(maker))
    }

    /// Makes the blocks of a compiled graph.
    pub(crate) fn of(
        plan: Arc<CompiledGraph>,
        maker: Arc<BlockMaker>,
    ) -> Result<Schedule, CompileError> {
        let blocks = maker.blocks(&plan.graph)?;
        let shortcuts = maker.shortcuts(&plan)?;
        Ok(Schedule { plan, blocks, shortcuts, maker })
    }
}

/// The further inputs of a compilation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompileOptions<'a> {
    /// The numbers of entries, on all workers.
    pub(crate) numbers: &'a EntryNumbers,
    /// The workers, which decide where single-homed nodes run.
    pub(crate) homes: Homes,
    /// The whole graph, when compiling a worker's part of it.
    pub(crate) whole: Option<&'a Graph>,
    /// Whether the graph replaces another, so that tasks for removed nodes may arrive.
    pub(crate) follows: bool,
}

impl CompiledGraph {
    /// Compiles a graph.
    pub(crate) fn compile(
        graph: Verified,
        registry: &Registry,
        idps: &mut Idps,
        options: CompileOptions<'_>,
    ) -> Result<CompiledGraph, CompileError> {
        let CompileOptions { numbers, homes, whole, follows } = options;
        let entry_of: Vec<Option<Entry>> =
            graph.iter().map(|(_, node)| numbers.get(&node.name)).collect();
        let mut layout = Layout::new();
        let mut nodes = Vec::with_capacity(graph.len());
        for (id, node) in graph.iter() {
            let (graph, layout, entry_of) = (&graph, &mut layout, &entry_of);
            let mut preparer = NodePreparer { graph, registry, homes, entry_of, layout };
            let mut prepared = preparer.node(id)?;
            let state = prepared.block_type.map(|found| found.state);
            if state == Some(StateKind::Sharded) && homes != Homes::ONE {
                preparer.add_flows(&mut prepared, idps.flow_owners(node));
            }
            nodes.push(prepared);
        }
        let mut builder = ProgramBuilder::new(&graph, registry.shortcuts(), &nodes);
        builder.program.entries = vec![EntryPlan::unused(); numbers.len()];
        for (id, node) in graph.iter() {
            if let Some(entry) = entry_of[id.index()] {
                builder.add_entry(entry, id, graph.order());
                let plan = &mut builder.program.entries[entry.index()];
                plan.idp = idps.of(&node.name);
                plan.home = homes.of(node, registry);
            }
        }
        layout.ways = builder.way_counters;
        let mut program = builder.program;
        program.init = init(&graph, &entry_of);
        if let Some(whole) = whole {
            program.is_part = true;
            add_remote_entries(&mut program, whole, registry, idps, options);
        }
        if follows || homes != Homes::ONE {
            program.dropped = layout.removed();
        }
        let is_sharded =
            |(node, prepared): (u32, &PreparedNode)| prepared.plan.flows.is_some().then_some(node);
        program.sharded = (0..).zip(&nodes).filter_map(is_sharded).collect();
        program.nodes = nodes.into_iter().map(|n| n.plan).collect();
        Ok(CompiledGraph { graph, program, layout, numbers: numbers.clone() })
    }
}

/// Makes entries of nodes that only the whole graph has lead to the worker that runs them.
fn add_remote_entries(
    program: &mut Program,
    whole: &Graph,
    registry: &Registry,
    idps: &mut Idps,
    options: CompileOptions<'_>,
) {
    for (name, entry) in options.numbers.iter() {
        let plan = &mut program.entries[entry.index()];
        if let Some(id) = whole.find(name).filter(|_| plan.is_unused()) {
            let home = options.homes.of(whole.node(id), registry).unwrap_or(DEFAULT);
            *plan = EntryPlan { idp: idps.of(name), home: Some(home), ..EntryPlan::unused() };
        }
    }
}

fn init(graph: &Graph, entry_of: &[Option<Entry>]) -> Vec<Entry> {
    let tagged = graph.iter().filter(|(_, node)| node.has(&Attr::Init));
    tagged.filter_map(|(id, _)| entry_of[id.index()]).collect()
}

/// The label of counters of tasks that are handed over to the owner of their flow.
const TO_OWNER: &str = "to the owner";

struct NodePreparer<'a> {
    graph: &'a Graph,
    registry: &'a Registry,
    homes: Homes,
    /// By node.
    entry_of: &'a [Option<Entry>],
    layout: &'a mut Layout,
}

impl NodePreparer<'_> {
    fn node(&mut self, id: NodeId) -> Result<PreparedNode, CompileError> {
        let node = self.graph.node(id);
        match node.kind {
            NodeKind::Config(_) => Err(CompileError::NotConfigured { node: node.name.clone() }),
            NodeKind::Operator(_) => Ok(self.prepare(id, None)),
            NodeKind::Function | NodeKind::Table(_) => {
                let block_type = self.registry.check(node)?;
                Ok(self.prepare(id, Some(block_type)))
            }
        }
    }

    fn prepare(&mut self, id: NodeId, block_type: Option<&'static BlockType>) -> PreparedNode {
        let node = self.graph.node(id);
        let name: Arc<str> = node.name.as_str().into();
        let ports = port_numbers(node, block_type);
        let counter = self.layout.add(&name, CounterKind::Packets, "");
        for place in graph_ports(&ports) {
            self.layout.add(&name, CounterKind::Port, &node.ports[place].name);
        }
        self.layout.add(&name, CounterKind::Timer, "timers");
        let drops = self.drops(node, &name, &ports);
        let plan = self.plan(id, &name, block_type);
        let effects = node.effects.or(block_type.map(|t| t.effects)).unwrap_or_default();
        let needs_buffer = effects.contains(weever_graph::Effects::NEEDS_BUFFER);
        PreparedNode { plan, block_type, ports, counter, drops, needs_buffer }
    }

    fn plan(
        &mut self,
        id: NodeId,
        name: &Arc<str>,
        block_type: Option<&'static BlockType>,
    ) -> NodePlan {
        let node = self.graph.node(id);
        let spawn = |label: &&str| self.spawn_edge(node, name, label);
        let spawns = block_type.map_or(&[][..], |t| t.spawns).iter().filter_map(spawn).collect();
        let mut add = |kind| self.layout.add(name, kind, "");
        let no_buffer = add(CounterKind::NoBuffer);
        let outbox_full = add(CounterKind::OutboxFull);
        let block_full = add(CounterKind::BlockFull);
        let own = block_full.plus(1);
        for label in block_type.map_or(&[][..], |t| t.counters) {
            self.layout.add(name, CounterKind::Own, label);
        }
        NodePlan {
            name: name.clone(),
            entry: self.entry_of[id.index()],
            spawns,
            notifies: self.notify_targets(node, block_type),
            own,
            no_buffer,
            outbox_full,
            block_full,
            flows: None,
        }
    }

    /// Adds owners of flows to a node.
    fn add_flows(&mut self, prepared: &mut PreparedNode, owners: Arc<FlowOwners>) {
        let name = prepared.plan.name.clone();
        let handed_over = self.layout.add(&name, CounterKind::Spawned, TO_OWNER);
        let ring_full = self.layout.add(&name, CounterKind::RingFull, TO_OWNER);
        prepared.plan.flows = Some(Box::new(FlowPlan { owners, handed_over, ring_full }));
    }

    fn spawn_edge(&mut self, node: &Node, name: &Arc<str>, label: &str) -> Option<SpawnEdge> {
        let edge = node.spawns.iter().find(|e| e.label == label)?;
        let entry = self.entry_of[edge.target.index()]?;
        let spawned = self.layout.add(name, CounterKind::Spawned, label);
        let full = self.layout.add(name, CounterKind::SpawnFull, label);
        let home = self.homes.of(self.graph.node(edge.target), self.registry);
        let ring_full = match home {
            Some(_) => self.layout.add(name, CounterKind::RingFull, label),
            None => full,
        };
        Some(SpawnEdge { entry, spawned, full, ring_full })
    }

    /// A notify edge's target is always an entry.
    fn notify_targets(&self, node: &Node, block_type: Option<&'static BlockType>) -> Box<[Entry]> {
        let target = |label: &&str| node.notifies.iter().find(|e| e.label == *label);
        let labels = block_type.map_or(&[][..], |t| t.notifies).iter();
        let entry = |edge: &Edge| self.entry_of[edge.target.index()];
        labels.filter_map(target).filter_map(entry).collect()
    }

    /// A port without a stated reason that leads nowhere gets a reason that says so.
    fn drops(
        &mut self,
        node: &Node,
        name: &Arc<str>,
        ports: &[u32],
    ) -> Vec<Option<(Counter, End)>> {
        let mut add = |reason: &str| self.layout.add(name, CounterKind::Drop, reason);
        let drop = |place: usize| {
            let port = &node.ports[place];
            match node.drop_reason(&port.name) {
                Some(reason) => Some((add(reason), End::Stated)),
                None if node.ends_at(&port.name) => Some((total::USED, End::Used)),
                None if port.targets.is_empty() => {
                    Some((add(&leads_nowhere(&port.name)), End::Nowhere))
                }
                None => None,
            }
        };
        graph_ports(ports).map(drop).collect()
    }
}

/// A table without a type of its own numbers its ports as the graph does; every other block by
/// its type's names. `Registry::build` has checked that they correspond.
fn port_numbers(node: &Node, block_type: Option<&'static BlockType>) -> Vec<u32> {
    let in_graph = 0..node.ports.len() as u32;
    match block_type.filter(|t| t.name != TABLE) {
        None => in_graph.collect(),
        Some(t) => {
            let number = |name: &str| t.ports.iter().position(|p| p.name == name);
            let by_name = |i: u32| number(&node.ports[i as usize].name).map_or(i, |n| n as u32);
            in_graph.map(by_name).collect()
        }
    }
}

/// The graph's ports in the order of the block's numbers.
fn graph_ports(ports: &[u32]) -> impl Iterator<Item = usize> + '_ {
    let place = |n: u32| ports.iter().position(|p| *p == n);
    (0..ports.len() as u32).filter_map(place)
}
