//! From one compiled graph to the next: everything that a worker needs to switch.

use std::collections::HashSet;
use std::sync::Arc;

use weever_block::{Block, Env, Registry, Shortcut, State};
use weever_graph::change::{Change, ChangeSet, Handover, Waiting, same_implementation};
use weever_graph::{Attr, Node, NodeId};

use super::blueprint::Blueprint;
use super::board::Board;
use super::compile::{build, build_shortcuts};
use super::{CompileError, Entry, Idp};
use crate::counters::{Cells, Counter, Others};
use crate::team::FROM_QUEUE;

/// An entry whose node goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed {
    pub(crate) entry: Entry,
    /// Where its tasks go; `None`: they are dropped.
    pub(crate) to: Option<Entry>,
}

/// A change of one worker's graph, compiled: the new blocks and arrays, and tables that say where
/// everything goes on. Made off the packet path, so that the switch only moves pointers, adds
/// counters up, and looks at tasks that are delayed or wait at nodes that go. Afterwards it holds what
/// is no longer needed, for another thread to drop.
pub struct Update {
    pub(crate) epoch: u64,
    pub(crate) plan: Arc<Blueprint>,
    /// Those of new and replaced nodes; the worker fills in the others.
    pub(crate) blocks: Vec<Option<Box<dyn Block>>>,
    pub(crate) shortcuts: Vec<Box<dyn Shortcut>>,
    /// Nodes whose block stays: where it was, where it goes.
    pub(crate) kept: Box<[(u32, u32)]>,
    /// Nodes whose new block is offered the old one's state.
    pub(crate) replaced: Box<[(u32, u32)]>,
    pub(crate) board: Board,
    pub(crate) cells: Arc<Cells>,
    /// By counter of the graph before.
    pub(crate) counters: Box<[Counter]>,
    pub(crate) removed: Box<[Removed]>,
    /// Counts what waited at removed nodes.
    pub(crate) dropped: Counter,
    /// New nodes with the attribute `init`.
    pub(crate) init: Box<[Entry]>,
    /// What the new blocks did not want: node, state.
    pub(crate) refused: Vec<(Arc<str>, State)>,
}

/// What a change compiles to for all workers that run the same before it and after.
pub(crate) struct Transition {
    pub(crate) epoch: u64,
    pub(crate) plan: Arc<Blueprint>,
    kept: Vec<(u32, u32)>,
    /// New node, old one if it hands its state over.
    built: Vec<(NodeId, Option<u32>)>,
    counters: Box<[Counter]>,
    removed: Vec<Removed>,
    dropped: Counter,
    init: Vec<Entry>,
}

impl Transition {
    /// Compares two graphs. `new` gets the counters that go on from `old`, also those that only `others`
    /// still have.
    pub(crate) fn new(
        epoch: u64,
        old: &Blueprint,
        mut new: Blueprint,
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

    /// The update of one worker, with new blocks for it. State goes on where `is_here` says that a node
    /// is at home; elsewhere there is none.
    pub(crate) fn update(
        &self,
        registry: &Registry,
        env: &Env,
        is_here: impl Fn(&Node) -> bool,
    ) -> Result<Update, CompileError> {
        let plan = &self.plan;
        let mut blocks: Vec<_> = plan.graph.iter().map(|_| None).collect();
        for (id, _) in &self.built {
            blocks[id.index()] = build(&plan.graph, *id, registry, env)?;
        }
        let handed_over = |(id, before): &(NodeId, Option<u32>)| {
            before.filter(|_| is_here(plan.graph.node(*id))).map(|before| (before, id.0))
        };
        let replaced: Box<[_]> = self.built.iter().filter_map(handed_over).collect();
        Ok(Update {
            epoch: self.epoch,
            blocks,
            shortcuts: build_shortcuts(plan, registry, env)?,
            kept: self.kept.clone().into(),
            refused: Vec::with_capacity(replaced.len()),
            replaced,
            board: Board::new(&plan.program),
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
    /// The number of the graph that it leads to.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The nodes whose new block did not want the old one's state.
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

/// Nodes whose new block does not get the old one's state: told so, or removed and added again.
fn starting_afresh(changes: &ChangeSet) -> HashSet<&str> {
    let names = changes.changes.iter().map(|change| match change {
        Change::Remove { node, .. } => Some(node.as_str()),
        Change::Replace { node, state: Handover::Drop } => Some(node.name.as_str()),
        _ => None,
    });
    names.flatten().collect()
}

/// The nodes that are here no more. What waits at one that others still have goes there.
fn removed(old: &Blueprint, new: &Blueprint, changes: &ChangeSet) -> Vec<Removed> {
    let gone = old.entries().filter(|(name, _)| new.graph.find(name).is_none());
    let to = |name| new.start_of(name).or_else(|| successor(new, changes, name));
    gone.map(|(name, entry)| Removed { entry, to: to(name) }).collect()
}

/// How many nodes that are gone have their late tasks sent on.
const MOST_FORWARDS: usize = 64;

/// What other workers may still send to the nodes that are gone.
fn forwards(old: &Blueprint, new: &Blueprint, removed: &[Removed]) -> Vec<(Idp, Entry)> {
    let idp = |entry: Entry| old.program.entries[entry.index()].idp;
    let went = removed.iter().filter(|r| r.to != Some(r.entry));
    let latest = went.filter_map(|r| Some((idp(r.entry), r.to?)));
    // A name may have come back and gone again, to somewhere else.
    let known = |wanted: &Idp| old.program.entries.iter().any(|e| e.idp == *wanted);
    let earlier = old.program.forwards.iter().filter(|(gone, _)| !known(gone));
    let earlier = earlier.filter_map(|(gone, entry)| {
        let now = new.program.entries.iter().position(|e| e.idp == idp(*entry))?;
        Some((*gone, Entry(now as u32)))
    });
    latest.chain(earlier).take(MOST_FORWARDS).collect()
}

fn successor(new: &Blueprint, changes: &ChangeSet, name: &str) -> Option<Entry> {
    // A queue in front of a node goes when its node goes, or when nobody else leads to that any more.
    let name = name.strip_prefix(FROM_QUEUE).unwrap_or(name);
    if let Some(entry) = new.start_of(name) {
        return Some(entry);
    }
    changes.changes.iter().rev().find_map(|change| match change {
        Change::Remove { node, waiting: Waiting::To(to) } if node == name => new.start_of(to),
        _ => None,
    })
}

/// Nodes that were tagged before have had their first task.
fn init(old: &Blueprint, new: &Blueprint) -> Vec<Entry> {
    let tagged = |plan: &Blueprint, name: &str| {
        plan.graph.find(name).is_some_and(|id| plan.graph.node(id).has(&Attr::Init))
    };
    let nodes = new.graph.iter().filter(|(_, node)| node.has(&Attr::Init));
    let nodes = nodes.filter(|(_, node)| !tagged(old, &node.name));
    nodes.filter_map(|(id, _)| new.program.nodes[id.index()].entry).collect()
}
