//! Clusters, each with its items.

use std::collections::HashMap;

use crate::{Graph, NodeId};

/// The whole picture: the cluster around all others.
pub(super) const ROOT: usize = 0;

/// A cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) name: String,
    /// The cluster around it; [`ROOT`] is its own.
    pub(super) parent: usize,
    pub(super) depth: usize,
    /// The items that lie directly in it, in the order in which the graph names them first.
    pub(super) items: Vec<Item>,
}

/// An item of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Item {
    Node(NodeId),
    Cluster(usize),
}

/// The clusters of a graph; an inner one stands behind those around it.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) clusters: Vec<Cluster>,
    /// The innermost cluster around each node.
    pub(super) home: Vec<usize>,
}

impl Tree {
    pub(super) fn new(graph: &Graph) -> Tree {
        let mut tree = Tree { clusters: vec![Cluster::default()], home: Vec::new() };
        let mut known: HashMap<(usize, &str), usize> = HashMap::new();
        for (id, node) in graph.iter() {
            let mut at = ROOT;
            for name in &node.clusters {
                let next = tree.clusters.len();
                let inner = *known.entry((at, name)).or_insert(next);
                if inner == next {
                    tree.add(at, name);
                }
                at = inner;
            }
            tree.clusters[at].items.push(Item::Node(id));
            tree.home.push(at);
        }
        tree
    }

    fn add(&mut self, parent: usize, name: &str) {
        let (id, depth) = (self.clusters.len(), self.clusters[parent].depth + 1);
        self.clusters.push(Cluster { name: name.into(), parent, depth, items: Vec::new() });
        self.clusters[parent].items.push(Item::Cluster(id));
    }

    /// The innermost cluster around both.
    pub(super) fn common(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            if self.clusters[a].depth >= self.clusters[b].depth {
                a = self.clusters[a].parent;
            } else {
                b = self.clusters[b].parent;
            }
        }
        a
    }

    /// The clusters around `node`, innermost first, as far as `outer` and without it; each with its
    /// item that contains the node.
    pub(super) fn up(&self, node: NodeId, outer: usize) -> impl Iterator<Item = (usize, Item)> {
        let mut at = (self.home[node.index()], Item::Node(node));
        std::iter::from_fn(move || {
            let here = at;
            at = (self.clusters[here.0].parent, Item::Cluster(here.0));
            (here.0 != outer).then_some(here)
        })
    }

    /// The direct item of `outer` that contains the node, or is it; an item of another cluster, if the
    /// node is not in `outer`.
    pub(super) fn item_in(&self, node: NodeId, outer: usize) -> Item {
        let depth = self.clusters[outer].depth;
        let last = self.up(node, outer).take_while(|(at, _)| self.clusters[*at].depth > depth);
        last.last().map_or(Item::Node(node), |(cluster, _)| Item::Cluster(cluster))
    }
}
