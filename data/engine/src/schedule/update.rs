//! A change from one compiled graph to the next, prepared for a worker.

use std::collections::HashSet;
use std::sync::Arc;

use weever_block::{Block, Shortcut, State};
use weever_graph::change::{Change, ChangeSet, Handover, Waiting, same_implementation};
use weever_graph::{Attr, Node, NodeId};

use super::blocks::{BlockMaker, CompileError, FROM_QUEUE};
use super::ids::{Entry, Idp};
use super::program::{CompiledGraph, TaskMasks};
use crate::counters::{Cells, Counter, Others};

/// The entry of a removed node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed {
    pub(crate) entry: Entry,
    /// The entry that takes over its tasks; `None`: they are dropped.
    pub(crate) to: Option<Entry>,
}

/// A compiled change of one worker's graph: the new blocks and arrays, and tables that map old to
/// new. Prepared off the packet path, so that the switch only moves pointers, adds up counters, and
/// visits tasks that are delayed or wait at removed nodes. Afterwards it holds the objects no
/// longer needed, so that another thread can drop them.
pub struct Update {
    pub(crate) epoch: u64,
    pub(crate) plan: Arc<CompiledGraph>,
    /// The blocks of new and replaced nodes; the worker moves the others over.
    pub(crate) blocks: Vec<Option<Box<dyn Block>>>,
    pub(crate) shortcuts: Vec<Box<dyn Shortcut>>,
    /// Nodes whose block stays: old and new number.
    pub(crate) kept: Box<[(u32, u32)]>,
    /// Nodes whose new block is offered its predecessor's state.
    pub(crate) replaced: Box<[(u32, u32)]>,
    pub(crate) masks: TaskMasks,
    pub(crate) cells: Arc<Cells>,
    /// Maps the counters of the previous graph.
    pub(crate) counters: Box<[Counter]>,
    pub(crate) removed: Box<[Removed]>,
    /// Counts tasks that were dropped with their nodes.
    pub(crate) dropped: Counter,
    /// New nodes with the attribute `init`.
    pub(crate) init: Box<[Entry]>,
    /// State that the new blocks rejected, with their nodes.
    pub(crate) refused: Vec<(Arc<str>, State)>,
}

/// A compiled change, shared by all workers that run the same graph before and after it.
pub(crate) struct Transition {
    pub(crate) epoch: u64,
    pub(crate) plan: Arc<CompiledGraph>,
    kept: Vec<(u32, u32)>,
    /// New nodes, each with the old node that hands its state over, if any.
    built: Vec<(NodeId, Option<u32>)>,
    counters: Box<[Counter]>,
    removed: Vec<Removed>,
    dropped: Counter,
    init: Vec<Entry>,
}

impl Transition {
    /// Compares two graphs. `new` keeps the counters of `old`, including those that only `others`
    /// still have.
    pub(crate) fn new(
        epoch: u64,
        old: &CompiledGraph,
        mut new: CompiledGraph,
        changes: &ChangeSet,
        others: &Others<'_>,
    ) -> Transition {
        let fresh = starting_afresh(changes);
        let (mut kept, mut built) = (Vec::new(), Vec::new());
        for (id, node) in new.graph.iter() {
            let before = old.graph.find(&node.name).filter(|_| !fresh.contains(&*node.name));
            match before {
                Some(before) if same_implementation(old.graph.node(before), node) => {
                    kept.push((before.0, id.0));
                }
                before => built.push((id, before.map(|id| id.0))),
            }
        }
        let counters = new.layout.continuing(&old.layout, others);
        let dropped = new.program.dropped;
        let removed = removed(old, &new, changes);
        new.program.forwards = forwards(old, &new, &removed);
        let init = init(old, &new);
        Transition { epoch, plan: Arc::new(new), kept, built, counters, removed, dropped, init }
    }

    /// Makes the update of one worker, with new blocks. State is handed over only at nodes for
    /// which `is_here` says that they run on this worker.
    pub(crate) fn update(
        &self,
        maker: &BlockMaker,
        is_here: impl Fn(&Node) -> bool,
    ) -> Result<Update, CompileError> {
        let plan = &self.plan;
        let mut blocks: Vec<_> = plan.graph.iter().map(|_| None).collect();
        for (id, _) in &self.built {
            blocks[id.index()] = maker.block(&plan.graph, *id)?;
        }
        let handed_over = |(id, before): &(NodeId, Option<u32>)| {
            before.filter(|_| is_here(plan.graph.node(*id))).map(|before| (before, id.0))
        };
        let replaced: Box<[_]> = self.built.iter().filter_map(handed_over).collect();
        Ok(Update {
            epoch: self.epoch,
            blocks,
            shortcuts: maker.shortcuts(plan)?,
            kept: self.kept.clone().into(),
            refused: Vec::with_capacity(replaced.len()),
            replaced,
            masks: TaskMasks::new(&plan.program),
            cells: Arc::new(Cells::new(&plan.layout)),
            counters: self.counters.clone(),
            removed: self.removed.clone().into(),
            dropped: self.dropped,
            init: self.init.clone().into(),
            plan: plan.clone(),
        })
    }
}

impl Update {
    /// The number of the new graph.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The nodes whose new block rejected the old one's state.
    pub(crate) fn afresh(&self) -> impl Iterator<Item = String> + '_ {
        self.refused.iter().map(|(node, _)| node.to_string())
    }
}

impl std::fmt::Debug for Update {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kept, new) = (self.kept.len(), self.blocks.iter().flatten().count());
        write!(f, "Update(to {}: {kept} blocks stay, {new} are new)", self.epoch)
    }
}

/// Nodes whose new block does not get the old one's state, because the change says so or because
/// they were removed and added again.
fn starting_afresh(changes: &ChangeSet) -> HashSet<&str> {
    let names = changes.changes.iter().map(|change| match change {
        Change::Remove { node, .. } => Some(node.as_str()),
        Change::Replace { node, state: Handover::Drop } => Some(node.name.as_str()),
        _ => None,
    });
    names.flatten().collect()
}

/// The entries removed from this worker. Tasks at a node that other workers still have move there.
fn removed(old: &CompiledGraph, new: &CompiledGraph, changes: &ChangeSet) -> Vec<Removed> {
    let gone = old.entries().filter(|(name, _)| new.graph.find(name).is_none());
    let to = |name| new.start_of(name).or_else(|| successor(new, changes, name));
    gone.map(|(name, entry)| Removed { entry, to: to(name) }).collect()
}

/// The most removed nodes whose late tasks are redirected.
const MAX_FORWARDS: usize = 64;

/// Targets for tasks that other workers may still send to removed nodes.
fn forwards(old: &CompiledGraph, new: &CompiledGraph, removed: &[Removed]) -> Vec<(Idp, Entry)> {
    let idp = |entry: Entry| old.program.entries[entry.index()].idp;
    let went = removed.iter().filter(|r| r.to != Some(r.entry));
    let latest = went.filter_map(|r| Some((idp(r.entry), r.to?)));
    // A name may have returned and been removed again, with another target.
    let known = |wanted: &Idp| old.program.entries.iter().any(|e| e.idp == *wanted);
    let earlier = old.program.forwards.iter().filter(|(gone, _)| !known(gone));
    let earlier = earlier.filter_map(|(gone, entry)| {
        let now = new.program.entries.iter().position(|e| e.idp == idp(*entry))?;
        Some((*gone, Entry(now as u32)))
    });
    latest.chain(earlier).take(MAX_FORWARDS).collect()
}

fn successor(new: &CompiledGraph, changes: &ChangeSet, name: &str) -> Option<Entry> {
    // A queue in front of a node is removed with the node, or when no other worker leads to it any
    // more.
    let name = name.strip_prefix(FROM_QUEUE).unwrap_or(name);
    if let Some(entry) = new.start_of(name) {
        return Some(entry);
    }
    changes.changes.iter().rev().find_map(|change| match change {
        Change::Remove { node, waiting: Waiting::To(to) } if node == name => new.start_of(to),
        _ => None,
    })
}

/// The `init` entries that are new; the others have had their task.
fn init(old: &CompiledGraph, new: &CompiledGraph) -> Vec<Entry> {
    let tagged = |plan: &CompiledGraph, name: &str| {
        plan.graph.find(name).is_some_and(|id| plan.graph.node(id).has(&Attr::Init))
    };
    let nodes = new.graph.iter().filter(|(_, node)| node.has(&Attr::Init));
    let nodes = nodes.filter(|(_, node)| !tagged(old, &node.name));
    nodes.filter_map(|(id, _)| new.program.nodes[id.index()].entry).collect()
}
