//! From a verified graph to a schedule: numbers the ports and edges of its nodes as their blocks do,
//! assigns counters, and has the steps of each entry laid out. What a change has not touched is taken
//! over from the graph before: the plans of nodes, and the code of entries that reach none but such.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use weever_block::{BlockType, Env, Registry, StateKind, TABLE};
use weever_graph::{Attr, Edge, Graph, Node, NodeId, NodeKind, Port, Verified};

use super::Schedule;
use super::blocks::{BlockMaker, CompileError};
use super::builder::{EntryBuilder, Runs, incoming};
use super::ids::{DEFAULT, Entry, EntryNumbers, Homes, Idps, Places};
use super::kept::Kept;
use super::program::{CompiledGraph, End, EntryCode, EntryPlan, FlowPlan, NodePlan};
use super::program::{Program, SpawnEdge};
use crate::slots::{Counter, CounterKind, Layout, NodeCounters, Slots, leads_nowhere, total};

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
        let places = Arc::new(Places::next(&Places::default(), &[graph]));
        let (homes, whole, previous) = (Homes::ONE, None, None);
        let options = CompileOptions { numbers: &numbers, places: &places, homes, whole, previous };
        let (mut idps, mut slots) = (Idps::new(), Slots::new());
        let plan = CompiledGraph::compile(graph.clone(), registry, &mut idps, &mut slots, options)?;
        let maker = BlockMaker { registry: registry.clone(), env: env.clone() };
        Schedule::of(Arc::new(plan), Arc::new(maker))
    }

    /// Makes the blocks of a compiled graph.
    pub(crate) fn of(
        plan: Arc<CompiledGraph>,
        maker: Arc<BlockMaker>,
    ) -> Result<Schedule, CompileError> {
        let blocks = maker.blocks(&plan)?;
        let shortcuts = maker.shortcuts(&plan)?;
        Ok(Schedule { plan, blocks, shortcuts, maker })
    }
}

/// The further inputs of a compilation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompileOptions<'a> {
    /// The numbers of entries, on all workers.
    pub(crate) numbers: &'a EntryNumbers,
    /// The places of nodes, on all workers.
    pub(crate) places: &'a Arc<Places>,
    /// The workers, which decide where single-homed nodes run.
    pub(crate) homes: Homes,
    /// The whole graph, when compiling a worker's part of it.
    pub(crate) whole: Option<&'a Graph>,
    /// The graph that this one replaces.
    pub(crate) previous: Option<&'a CompiledGraph>,
}

impl CompiledGraph {
    /// Compiles a graph.
    pub(crate) fn compile(
        graph: Verified,
        registry: &Registry,
        idps: &mut Idps,
        slots: &mut Slots,
        options: CompileOptions<'_>,
    ) -> Result<CompiledGraph, CompileError> {
        let CompileOptions { numbers, places, homes, whole, previous } = options;
        let entry_of: Vec<Option<Entry>> =
            graph.iter().map(|(_, node)| numbers.get(&node.name)).collect();
        let mut nodes = Vec::with_capacity(graph.len());
        for (id, _) in graph.iter() {
            let (graph, entry_of) = (&graph, &entry_of);
            let preparer = NodePreparer { graph, registry, entry_of, options };
            nodes.push(preparer.node(id, idps, slots)?);
        }
        let mut program = Program {
            entries: vec![EntryPlan::unused(&Arc::new(EntryCode::none())); numbers.len()],
            init: init(&graph, &entry_of),
            nodes: by_place(&nodes, places.len()),
            shortcuts: previous.map_or(Vec::new(), |p| p.program.shortcuts.clone()),
            runs: previous.map_or(HashMap::new(), |p| p.program.runs.clone()),
            ..Program::default()
        };
        let mut runs = Runs::new();
        let kept = Kept::new(previous, &graph, &nodes, incoming(&graph));
        for (id, node) in graph.iter() {
            let Some(entry) = entry_of[id.index()] else { continue };
            let code = kept.code(entry, id).unwrap_or_else(|| {
                let builder = EntryBuilder {
                    graph: &graph,
                    order: graph.order(),
                    nodes: &nodes,
                    incoming: &kept.incoming,
                    kept: &kept,
                    known_runs: &mut program.runs,
                    compiler: registry.compiler(),
                    shortcut_sources: &mut program.shortcuts,
                    runs: &mut runs,
                    covered: BTreeSet::new(),
                    resumed: BTreeSet::new(),
                    code: EntryCode::none(),
                    way_counters: Vec::new(),
                };
                Arc::new(builder.build(id, slots))
            });
            let (node, place) = (node, nodes[id.index()].place);
            let (idp, home) = (idps.of(&node.name), homes.of(node, registry));
            program.entries[entry.index()] = EntryPlan { node: place, idp, home, code };
        }
        program.forget_unused_runs();
        if let Some(whole) = whole {
            add_remote_entries(&mut program, whole, registry, idps, options);
        }
        let mut layout = Layout::new();
        layout.nodes = nodes.iter().map(|node| node.counters.clone()).collect();
        let ways = program.entries.iter().map(|entry| &entry.code.way_counters);
        layout.ways = ways.filter(|ways| !ways.of.is_empty()).cloned().collect();
        if previous.is_some() || homes != Homes::ONE {
            program.dropped = layout.removed(previous.map(|before| &*before.layout), slots);
        }
        program.sharded =
            nodes.iter().filter(|node| node.flows.is_some()).map(|node| node.place).collect();
        let (layout, numbers, places) = (Arc::new(layout), numbers.clone(), places.clone());
        Ok(CompiledGraph { graph, program, layout, numbers, places, nodes })
    }
}

/// Places of nodes that are not in this graph get the plan of another node.
fn by_place(nodes: &[Arc<NodePlan>], places: usize) -> Vec<Arc<NodePlan>> {
    let Some(other) = nodes.first() else { return Vec::new() };
    let mut by_place = vec![other.clone(); places];
    for node in nodes {
        by_place[node.place as usize] = node.clone();
    }
    by_place
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
            plan.home = Some(options.homes.of(whole.node(id), registry).unwrap_or(DEFAULT));
            plan.idp = idps.of(name);
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
    /// By node.
    entry_of: &'a [Option<Entry>],
    options: CompileOptions<'a>,
}

/// The counters of a node, in its own numbering until they have slots.
#[derive(Default)]
struct Labels(Vec<(CounterKind, Arc<str>)>);

impl Labels {
    fn add(&mut self, kind: CounterKind, label: &str) -> Counter {
        self.0.push((kind, label.into()));
        Counter::at(self.0.len() - 1)
    }
}

impl NodePreparer<'_> {
    /// The plan of a node: the one that it had in the previous graph, if nothing about it has changed.
    fn node(
        &self,
        id: NodeId,
        idps: &mut Idps,
        slots: &mut Slots,
    ) -> Result<Arc<NodePlan>, CompileError> {
        let node = self.graph.node(id);
        let before = self.options.previous.and_then(|previous| {
            let old = previous.graph.find(&node.name)?;
            Some((previous, previous.graph.node(old), &previous.nodes[old.index()]))
        });
        if let Some((previous, old, plan)) = before
            && plan.entry == self.entry_of[id.index()]
            && is_same((&previous.graph, old), (self.graph, node))
        {
            return Ok(plan.clone());
        }
        let block_type = match node.kind {
            NodeKind::Config(_) => {
                return Err(CompileError::NotConfigured { node: node.name.clone() });
            }
            NodeKind::Operator(_) => None,
            NodeKind::Function | NodeKind::Table(_) => Some(self.registry.check(node)?),
        };
        let mut labels = Labels::default();
        let mut plan = self.plan(id, block_type, &mut labels);
        if block_type.is_some_and(|found| found.state == StateKind::Sharded)
            && self.options.homes != Homes::ONE
        {
            let owners = idps.flow_owners(node);
            let handed_over = labels.add(CounterKind::Spawned, TO_OWNER);
            let ring_full = labels.add(CounterKind::RingFull, TO_OWNER);
            plan.flows = Some(Box::new(FlowPlan { owners, handed_over, ring_full }));
        }
        let known = before.map(|(_, _, old)| &old.counters).filter(|old| *old.labels == *labels.0);
        let counters = known.cloned().unwrap_or_else(|| {
            let first = slots.take(labels.0.len());
            Arc::new(NodeCounters { node: plan.name.clone(), labels: labels.0.into(), first })
        });
        plan.count_with(counters);
        Ok(Arc::new(plan))
    }

    /// The plan with counters in the node's own numbering.
    fn plan(
        &self,
        id: NodeId,
        block_type: Option<&'static BlockType>,
        labels: &mut Labels,
    ) -> NodePlan {
        let node = self.graph.node(id);
        let ports = port_numbers(node, block_type);
        labels.add(CounterKind::Packets, "");
        for place in graph_ports(&ports) {
            labels.add(CounterKind::Port, &node.ports[place].name);
        }
        labels.add(CounterKind::Timer, "timers");
        let drops = drops(node, &ports, labels);
        let spawns = block_type.map_or(&[][..], |t| t.spawns).iter();
        let spawns = spawns.filter_map(|label| self.spawn_edge(node, label, labels)).collect();
        let mut add = |kind| labels.add(kind, "");
        let no_buffer = add(CounterKind::NoBuffer);
        let outbox_full = add(CounterKind::OutboxFull);
        let block_full = add(CounterKind::BlockFull);
        for label in block_type.map_or(&[][..], |t| t.counters) {
            labels.add(CounterKind::Own, label);
        }
        let effects = node.effects.or(block_type.map(|t| t.effects)).unwrap_or_default();
        NodePlan {
            name: node.name.as_str().into(),
            place: self.options.places.of(&node.name),
            block_type,
            entry: self.entry_of[id.index()],
            ports: ports.into(),
            drops: drops.into(),
            needs_buffer: effects.contains(weever_graph::Effects::NEEDS_BUFFER),
            spawns,
            notifies: self.notify_targets(node, block_type),
            counters: Arc::default(),
            own: block_full.plus(1),
            no_buffer,
            outbox_full,
            block_full,
            flows: None,
        }
    }

    fn spawn_edge(&self, node: &Node, label: &str, labels: &mut Labels) -> Option<SpawnEdge> {
        let edge = node.spawns.iter().find(|e| e.label == label)?;
        let entry = self.entry_of[edge.target.index()]?;
        let spawned = labels.add(CounterKind::Spawned, label);
        let full = labels.add(CounterKind::SpawnFull, label);
        let home = self.options.homes.of(self.graph.node(edge.target), self.registry);
        let ring_full = match home {
            Some(_) => labels.add(CounterKind::RingFull, label),
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
}

/// A port without a stated reason that leads nowhere gets a reason that says so.
fn drops(node: &Node, ports: &[u32], labels: &mut Labels) -> Vec<Option<(Counter, End)>> {
    let mut add = |reason: &str| labels.add(CounterKind::Drop, reason);
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

/// Whether two nodes of two graphs have the same plan. Their edges lead to nodes of the same names.
fn is_same((old_graph, old): (&Graph, &Node), (graph, node): (&Graph, &Node)) -> bool {
    let target = |a: NodeId, b: NodeId| old_graph.node(a).name == graph.node(b).name;
    let port = |a: &Port, b: &Port| {
        let mut targets = a.targets.iter().zip(&b.targets);
        a.name == b.name
            && a.predicate == b.predicate
            && a.targets.len() == b.targets.len()
            && targets.all(|(a, b)| target(*a, *b))
    };
    let edge = |a: &Edge, b: &Edge| a.label == b.label && target(a.target, b.target);
    let edges =
        |a: &[Edge], b: &[Edge]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| edge(a, b));
    old.kind == node.kind
        && old.implementation == node.implementation
        && old.attrs == node.attrs
        && old.effects == node.effects
        && old.ports.len() == node.ports.len()
        && old.ports.iter().zip(&node.ports).all(|(a, b)| port(a, b))
        && edges(&old.spawns, &node.spawns)
        && edges(&old.notifies, &node.notifies)
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
