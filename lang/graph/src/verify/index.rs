//! Look-ups that the checks share: the incoming edges of each node, and the start nodes of tasks.

use std::collections::HashSet;

use crate::{Attr, Effects, Graph, Node, NodeId, PortId};

/// A set of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSet(Vec<u64>);

impl NodeSet {
    pub(crate) fn new(nodes: usize) -> NodeSet {
        NodeSet(vec![0; nodes.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, id: NodeId) {
        self.0[id.index() / 64] |= 1 << (id.index() % 64);
    }

    pub(crate) fn contains(&self, id: NodeId) -> bool {
        self.0[id.index() / 64] >> (id.index() % 64) & 1 == 1
    }
}

/// Incoming edges and start nodes of a graph in which all edges have targets.
pub(crate) struct Index {
    /// Per node, the ports that lead to it, each once.
    pub(crate) incoming: Vec<Vec<PortId>>,
    /// The starts of tasks that the graph declares: `init`, `source`, spawn and notify targets.
    pub(crate) declared_starts: Vec<NodeId>,
}

impl Index {
    pub(crate) fn new(graph: &Graph) -> Index {
        let mut incoming = vec![Vec::new(); graph.len()];
        for (port, target) in graph.dataflow() {
            let ports: &mut Vec<PortId> = &mut incoming[target.index()];
            if ports.last() != Some(&port) {
                ports.push(port);
            }
        }
        Index { incoming, declared_starts: declared_starts(graph) }
    }

    /// Nodes that nothing leads to.
    pub(crate) fn roots(&self) -> impl Iterator<Item = NodeId> + '_ {
        let rootless = |(i, ports): (usize, &Vec<PortId>)| ports.is_empty().then_some(id_at(i));
        self.incoming.iter().enumerate().filter_map(rootless)
    }

    /// Every node where a task may start: the declared ones, all roots, since a caller may start
    /// a task at any of them, and those where a blocked task goes on.
    pub(crate) fn starts(&self, graph: &Graph) -> Vec<NodeId> {
        let blocks = |n: &Node| n.effects.is_some_and(|e| e.contains(Effects::BLOCKS));
        let blocking = graph.iter().filter(|(_, n)| blocks(n)).map(|(id, _)| id);
        let mut all: Vec<NodeId> =
            self.declared_starts.iter().copied().chain(self.roots()).chain(blocking).collect();
        all.sort();
        all.dedup();
        all
    }
}

pub(crate) fn id_at(index: usize) -> NodeId {
    NodeId(index as u32)
}

fn declared_starts(graph: &Graph) -> Vec<NodeId> {
    let mut starts = Vec::new();
    for (id, node) in graph.iter() {
        if node.has(&Attr::Init) || node.has(&Attr::Source) {
            starts.push(id);
        }
        starts.extend(node.spawns.iter().chain(&node.notifies).map(|e| e.target));
    }
    starts.sort();
    starts.dedup();
    starts
}

/// The nodes that dataflow leads to from `from`, without `from` itself.
pub(crate) fn descendants(graph: &Graph, from: NodeId) -> NodeSet {
    let mut seen = NodeSet::new(graph.len());
    for id in reached_from(graph, from).into_iter().skip(1) {
        seen.insert(id);
    }
    seen
}

/// `from`, then the nodes that dataflow leads to from there, in no particular order.
pub(crate) fn reached_from(graph: &Graph, from: NodeId) -> Vec<NodeId> {
    let mut seen = HashSet::from([from]);
    let (mut reached, mut next) = (vec![from], 0);
    while let Some(id) = reached.get(next).copied() {
        next += 1;
        for target in graph.node(id).ports.iter().flat_map(|p| &p.targets) {
            if seen.insert(*target) {
                reached.push(*target);
            }
        }
    }
    reached
}
