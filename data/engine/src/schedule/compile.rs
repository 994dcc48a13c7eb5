//! From a verified graph to a schedule.

use std::collections::HashMap;
use std::sync::Arc;

use weever_blocks_api::{Block, Env, Registry, Shortcut, ShortcutType};
use weever_graph::{Attr, Effects, Graph, NodeId, NodeKind, Verified};

use super::blueprint::Blueprint;
use super::builder::Builder;
use super::nodes::Preparation;
use super::program::EntryPlan;
use super::{CompileError, Entry, Homes, Idps, Schedule};
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
        let shortcuts = build_shortcuts(&plan, registry, env)?;
        Ok(Schedule { plan, blocks, shortcuts })
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

/// The shortcuts of a graph, by their numbers.
pub(super) fn build_shortcuts(
    plan: &Blueprint,
    registry: &Registry,
    env: &Env,
) -> Result<Vec<Box<dyn Shortcut>>, CompileError> {
    let build = |(node, shortcut): &(NodeId, &'static ShortcutType)| {
        Ok(registry.build_shortcut(shortcut, plan.graph.node(*node), env)?)
    };
    plan.program.shortcut_types.iter().map(build).collect()
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
        let mut builder = Builder::new(&graph, registry.shortcuts(), &nodes);
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
