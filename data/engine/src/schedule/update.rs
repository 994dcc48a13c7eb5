//! A change from one compiled graph to the next, prepared for a worker.

use std::collections::HashSet;
use std::sync::Arc;

use weever_block::{BY_PREDICATE, Block, Shortcut, State};
use weever_graph::change::{Change, ChangeSet, Handover, Waiting, same_implementation};
use weever_graph::{Attr, Node, NodeId};

use super::blocks::{BlockMaker, CompileError, FROM_QUEUE, room};
use super::ids::{Entry, Idp};
use super::program::{CompiledGraph, NodePlan, TaskMasks};
use crate::counters::Cells;
use crate::slots::{Counter, Others, Recount, Slots};

/// The entry of a removed node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed {
    pub(crate) entry: Entry,
    /// The entry that takes over its tasks; `None`: they are dropped.
    pub(crate) to: Option<Entry>,
}

/// A new block.
pub(crate) struct Built {
    pub(crate) place: u32,
    /// `None` for an operator. After the switch it is the block that was at this place before.
    pub(crate) block: Option<Box<dyn Block>>,
    /// Whether it is offered its predecessor's state.
    pub(crate) follows: bool,
}

/// A compiled change of one worker's graph: new blocks and plans, and lists of the parts that change place.
/// Prepared off the packet path, so that the switch moves pointers and visits changed nodes and
/// tasks that wait at removed ones. Afterwards it holds the objects no longer needed, so that another
/// thread can drop them.
pub struct Update {
    pub(crate) epoch: u64,
    pub(crate) plan: Arc<CompiledGraph>,
    pub(crate) built: Vec<Built>,
    /// The places of nodes that this worker has no longer.
    pub(crate) gone: Box<[u32]>,
    /// Their blocks, after the switch.
    pub(crate) old_blocks: Vec<Option<Box<dyn Block>>>,
    /// Room for more blocks than there was room for.
    pub(crate) more_room: Option<Vec<Option<Box<dyn Block>>>>,
    pub(crate) shortcuts: Vec<Option<Box<dyn Shortcut>>>,
    pub(crate) masks: TaskMasks,
    pub(crate) cells: Arc<Cells>,
    pub(crate) recount: Arc<Recount>,
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
    /// New nodes, each with whether an old one hands its state over.
    built: Vec<(NodeId, bool)>,
    gone: Box<[u32]>,
    /// How many places there were.
    places: usize,
    recount: Arc<Recount>,
    removed: Vec<Removed>,
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
        slots: &mut Slots,
        others: &Others<'_>,
    ) -> Transition {
        let mut layout = (*new.layout).clone();
        let of_node = |name: &str| new.node(name).map(|plan| &*plan.counters);
        let recount = Arc::new(layout.go_on_from(&old.layout, slots, others, of_node));
        new.layout = Arc::new(layout);
        let removed = removed(old, &new, changes);
        new.program.forwards = forwards(old, &new, &removed);
        let gone = old.graph.iter().zip(&old.nodes);
        let gone = gone.filter(|((_, node), _)| new.graph.find(&node.name).is_none());
        Transition {
            epoch,
            built: built(old, &new, changes),
            gone: gone.map(|(_, plan)| plan.place).collect(),
            places: old.places.len(),
            recount,
            removed,
            init: init(old, &new),
            plan: Arc::new(new),
        }
    }

    /// Makes the update of one worker, with new blocks; its counters lie in the cells of `slots`. State
    /// is handed over only at nodes for which `is_here` says that they run on this worker.
    pub(crate) fn update(
        &self,
        maker: &BlockMaker,
        (cells, slots): (&Cells, &Slots),
        is_here: impl Fn(&Node) -> bool,
    ) -> Result<Update, CompileError> {
        let plan = &self.plan;
        let build = |(id, follows): &(NodeId, bool)| -> Result<Built, CompileError> {
            let (place, node) = (plan.nodes[id.index()].place, plan.graph.node(*id));
            let block = maker.block(&plan.graph, *id)?;
            Ok(Built { place, block, follows: *follows && is_here(node) })
        };
        let built = self.built.iter().map(build).collect::<Result<Vec<_>, _>>()?;
        let rooms = [self.places, plan.places.len()].map(room);
        Ok(Update {
            epoch: self.epoch,
            refused: Vec::with_capacity(built.len()),
            built,
            old_blocks: Vec::with_capacity(self.gone.len()),
            gone: self.gone.clone(),
            more_room: (rooms[1] > rooms[0]).then(|| touched(rooms[1])),
            shortcuts: maker.shortcuts(plan)?,
            masks: TaskMasks::new(&plan.program),
            cells: Arc::new(cells.continued(plan.layout.clone(), slots.len())),
            recount: self.recount.clone(),
            removed: self.removed.clone().into(),
            dropped: plan.program.dropped,
            init: self.init.clone().into(),
            plan: plan.clone(),
        })
    }
}

/// Room for so many blocks, in pages that the kernel has provided: a page fault of the worker's would
/// cost it more than the move of the blocks in that page.
fn touched(blocks: usize) -> Vec<Option<Box<dyn Block>>> {
    let mut room = Vec::with_capacity(blocks);
    room.resize_with(blocks, || None);
    room.clear();
    room
}

/// Whether a block that follows the predicates at its ports finds the same ones.
fn same_text(old: &Node, new: &Node, plan: &NodePlan) -> bool {
    let predicates =
        |node: &Node| node.ports.iter().map(|p| p.predicate.clone()).collect::<Vec<_>>();
    let follows = plan.block_type.is_some_and(|found| found.name == BY_PREDICATE);
    !follows || predicates(old) == predicates(new)
}

/// The nodes that need a new block, each with whether an old one hands its state over.
fn built(old: &CompiledGraph, new: &CompiledGraph, changes: &ChangeSet) -> Vec<(NodeId, bool)> {
    let fresh = starting_afresh(changes);
    let mut built = Vec::new();
    for ((id, node), plan) in new.graph.iter().zip(&new.nodes) {
        let before = old.graph.find(&node.name).filter(|_| !fresh.contains(&*node.name));
        let stays = before.is_some_and(|before| {
            Arc::ptr_eq(&old.nodes[before.index()], plan)
                || (same_implementation(old.graph.node(before), node)
                    && same_text(old.graph.node(before), node, plan))
        });
        if !stays {
            built.push((id, before.is_some()));
        }
    }
    built
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
        let (new, gone) = (self.built.len(), self.gone.len());
        write!(f, "Update(to {}: {new} blocks are new, {gone} go)", self.epoch)
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

/// The entries removed from this worker. Tasks at a node that other workers still have move there, and so do those at a
/// node with state of flows in whose place a part has a stub.
fn removed(old: &CompiledGraph, new: &CompiledGraph, changes: &ChangeSet) -> Vec<Removed> {
    let has_flows = |graph: &CompiledGraph, name: &str| {
        graph.node(name).is_some_and(|plan| plan.flows.is_some())
    };
    let gone = old.entries().filter(|(name, _)| {
        new.graph.find(name).is_none() || has_flows(old, name) && !has_flows(new, name)
    });
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
    nodes.filter_map(|(id, _)| new.nodes[id.index()].entry).collect()
}
