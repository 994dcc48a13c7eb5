//! From a verified graph to a schedule.

use std::sync::Arc;

use weever_block::{Env, Registry, StateKind};
use weever_graph::{Attr, Graph, Verified};

use super::Schedule;
use super::builder::ProgramBuilder;
use super::ids::{DEFAULT, Entry, EntryNumbers, Homes, Idps};
use super::maker::{BlockMaker, CompileError};
use super::nodes::{NodePreparer, PreparedNode};
use super::program::{CompiledGraph, EntryPlan, Program};
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
