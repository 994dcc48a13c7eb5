//! How workers identify nodes: entries by number, blocks by dispatch point; and the worker that
//! runs a single-homed node.

use std::collections::{HashMap, VecDeque};

use std::sync::Arc;

use weever_block::{FlowOwners, Registry, StateKind, WORKER};
use weever_graph::{Attr, Effects, Graph, Node, NodeId};

/// A node at which tasks may start, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry(pub(crate) u32);

impl Entry {
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node as named in a message between workers, whose receiver may run an older or a newer graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRef {
    pub(crate) entry: Entry,
    pub(crate) idp: Idp,
    /// The number of the graph that the sender ran.
    pub(crate) epoch: u64,
}

/// A dispatch point: identifies a block for the lifetime of the stack, across replacement (design/0000
/// §1). Messages between workers carry it, so that they never reach another block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Idp(pub u32);

impl Idp {
    /// The value that no block has.
    pub const NONE: Idp = Idp(u32::MAX);
}

/// The number of unused names that keep their dispatch point, in case they return.
const REMEMBERED: usize = 4096;

/// The parameter that sets how many flows a node with sharded state has room for, if its type declares
/// it.
const FLOWS: &str = "flows";
const DEFAULT_FLOWS: usize = 262_144;

/// Assigns dispatch points to names. A number is never assigned twice.
#[derive(Clone, Debug, Default)]
pub struct Idps {
    of: HashMap<String, Idp>,
    next: u32,
    /// Names no longer in use, the latest last.
    gone: VecDeque<String>,
    /// The owners of flows at nodes whose state is sharded, while the nodes exist.
    owners: HashMap<String, Arc<FlowOwners>>,
}

impl Idps {
    /// No names yet.
    pub fn new() -> Idps {
        Idps::default()
    }

    /// The dispatch point of `name`, assigned if it has none.
    pub fn of(&mut self, name: &str) -> Idp {
        if let Some(idp) = self.of.get(name) {
            return *idp;
        }
        // Four billion names take years to use up; then the last number is shared.
        let idp = Idp(self.next.min(u32::MAX - 1));
        self.next = self.next.saturating_add(1);
        self.of.insert(name.into(), idp);
        idp
    }

    /// The number of `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<Idp> {
        self.of.get(name).copied()
    }

    /// The owners of the flows of `node`, the same from graph to graph.
    pub(crate) fn flow_owners(&mut self, node: &Node) -> Arc<FlowOwners> {
        let flows = node.param(FLOWS).and_then(|n| n.parse().ok()).unwrap_or(DEFAULT_FLOWS);
        let new = || Arc::new(FlowOwners::new(flows));
        self.owners.entry(node.name.clone()).or_insert_with(new).clone()
    }

    /// The owners of the flows of the node called `name`, if its state is sharded.
    pub(crate) fn owners(&self, name: &str) -> Option<&Arc<FlowOwners>> {
        self.owners.get(name)
    }

    /// Every node whose state is sharded.
    pub(crate) fn sharded(&self) -> impl Iterator<Item = (&str, &Arc<FlowOwners>)> {
        self.owners.iter().map(|(name, owners)| (name.as_str(), owners))
    }

    /// Forgets the names that have been unused the longest, when there are too many.
    pub(crate) fn retire(&mut self, old: &Graph, new: &Graph) {
        self.owners.retain(|name, _| new.find(name).is_some());
        let gone = old.iter().filter(|(_, node)| new.find(&node.name).is_none());
        self.gone.extend(gone.map(|(_, node)| node.name.clone()));
        while self.gone.len() > REMEMBERED {
            let Some(name) = self.gone.pop_front() else { return };
            if new.find(&name).is_none() && !self.gone.contains(&name) {
                self.of.remove(&name);
            }
        }
    }
}

/// The entry numbers of nodes: a node has the same number on every worker, for any part of the
/// graph that each runs, so that messages need no search.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryNumbers {
    of: HashMap<String, Entry>,
    count: usize,
}

impl EntryNumbers {
    /// The entries of `graphs` and the nodes called `more`. Existing numbers stay, so that queued
    /// tasks need not move.
    pub(crate) fn next(
        previous: &EntryNumbers,
        graphs: &[&Graph],
        registry: &Registry,
        more: &[&str],
    ) -> EntryNumbers {
        let is_there = |name: &str| graphs.iter().any(|graph| graph.find(name).is_some());
        let stay = previous.of.iter().filter(|(name, _)| is_there(name));
        let mut of: HashMap<String, Entry> = stay.map(|(name, n)| (name.clone(), *n)).collect();
        // The number of a node that is removed now stays reserved until the next change: tasks may
        // still be queued under it.
        let mut is_taken = vec![false; previous.count];
        previous.of.values().for_each(|entry| is_taken[entry.index()] = true);
        let mut free = (0..previous.count).filter(|n| !is_taken[*n]).chain(previous.count..);
        for graph in graphs {
            let more = more.iter().filter_map(|name| graph.find(name));
            for start in starts(graph, registry).into_iter().chain(more) {
                let name = &graph.node(start).name;
                if !of.contains_key(name)
                    && let Some(number) = free.next()
                {
                    of.insert(name.clone(), Entry(number as u32));
                }
            }
        }
        let used = of.values().map(|entry| entry.index() + 1).max().unwrap_or(0);
        EntryNumbers { of, count: previous.count.max(used) }
    }

    /// The number of the node called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<Entry> {
        self.of.get(name).copied()
    }

    /// Every node name with its entry number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Entry)> {
        self.of.iter().map(|(name, entry)| (name.as_str(), *entry))
    }

    /// One more than the largest number, unused ones included.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

/// The places of nodes: numbers by which blocks and plans are found. A node has the same place on every
/// worker, and keeps it for as long as any worker's graph has the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    of: HashMap<Arc<str>, u32>,
    free: Vec<u32>,
    /// Places of nodes that went with the last change: workers may still look there.
    leaving: Vec<u32>,
    count: u32,
}

impl Places {
    /// The places of the nodes of `graphs`.
    pub(crate) fn next(previous: &Places, graphs: &[&Graph]) -> Places {
        let mut next = previous.clone();
        next.free.append(&mut next.leaving);
        for (_, node) in graphs.iter().flat_map(|graph| graph.iter()) {
            if !next.of.contains_key(&*node.name) {
                let place = next.free.pop().unwrap_or_else(|| {
                    next.count += 1;
                    next.count - 1
                });
                next.of.insert(node.name.as_str().into(), place);
            }
        }
        let Places { of, leaving, .. } = &mut next;
        of.retain(|name, place| {
            let stays = graphs.iter().any(|graph| graph.find(name).is_some());
            leaving.extend((!stays).then_some(*place));
            stays
        });
        next
    }

    /// The place of a node, which is of one of the graphs.
    pub(crate) fn of(&self, node: &str) -> u32 {
        self.of[node]
    }

    /// One more than the largest place.
    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }
}

/// The nodes at which tasks may start: those that verification has checked, and nodes that may
/// block.
fn starts(graph: &Graph, registry: &Registry) -> Vec<NodeId> {
    let mut is_start = vec![true; graph.len()];
    for (_, target) in graph.dataflow() {
        is_start[target.index()] = false;
    }
    for (id, node) in graph.iter() {
        let effects = node.effects.or_else(|| registry.find(node).map(|t| t.effects));
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

/// The worker that runs nodes which need a single home and name none.
pub(crate) const DEFAULT: u16 = 0;

/// Which worker runs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Homes {
    /// The number of workers.
    pub(crate) workers: u16,
}

impl Homes {
    /// A single worker, which runs everything.
    pub(crate) const ONE: Homes = Homes { workers: 1 };

    /// The only worker that runs `node`: that of the attribute `worker=N`, or the default worker
    /// for types with single-homed state. `None`: every worker runs it.
    pub(crate) fn of(self, node: &Node, registry: &Registry) -> Option<u16> {
        if self.workers < 2 {
            return None;
        }
        match node.param(WORKER).map(str::parse) {
            Some(Ok(worker)) => Some(worker),
            // The graph's check reports this error.
            Some(Err(_)) => None,
            None => {
                let state = registry.find(node).map(|t| t.state).unwrap_or_default();
                (state == StateKind::SingleHomed).then_some(DEFAULT)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weever_graph::{Node, NodeKind};

    fn graph(name: &str) -> Graph {
        let mut graph = Graph::new("g");
        graph.add(Node::new(name, NodeKind::Function));
        graph
    }

    #[test]
    fn a_name_that_comes_back_has_its_number_and_old_ones_are_forgotten() {
        let mut idps = Idps::new();
        let kept = idps.of("kept");
        for round in 0..2 * REMEMBERED {
            let (old, new) = (graph(&format!("n{round}")), graph("kept"));
            idps.of(&format!("n{round}"));
            idps.retire(&old, &new);
        }
        assert_eq!(idps.of("kept"), kept);
        assert_eq!(idps.get("n0"), None);
        let recent = format!("n{}", 2 * REMEMBERED - 1);
        assert_eq!(idps.get(&recent), Some(idps.clone().of(&recent)));
        assert_eq!(idps.of.len(), REMEMBERED + 1);
        assert!(idps.of("n0") > idps.of(&recent), "never the same number again");
    }
}
