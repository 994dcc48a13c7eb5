//! Edges as they are drawn, and clusters with their items.

use std::collections::HashMap;

use super::rank::without_cycles;
use crate::{Graph, NodeId};

/// The meaning of an edge of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// Packets go along it.
    Flow,
    /// It starts a task.
    Spawn,
    /// It wakes tasks.
    Notify,
}

/// Where an edge starts: a port, or a spawn or notify edge, by its position in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    /// A port.
    Port(usize),
    /// A spawn edge.
    Spawn(usize),
    /// A notify edge.
    Notify(usize),
}

/// An edge, before it has a way.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub(super) from: NodeId,
    pub(super) cell: Cell,
    pub(super) to: NodeId,
    /// The innermost cluster around both ends.
    pub(super) common: usize,
    /// Drawn as one curve behind the nodes, without a say in where they stand: spawn and notify edges,
    /// and edges that would lead upwards between two clusters.
    pub(super) free: bool,
}

impl Wire {
    pub(super) fn kind(&self) -> WireKind {
        match self.cell {
            Cell::Port(_) => WireKind::Flow,
            Cell::Spawn(_) => WireKind::Spawn,
            Cell::Notify(_) => WireKind::Notify,
        }
    }
}

/// Every edge of the graph, in its order.
pub(super) fn wires(graph: &Graph, tree: &Tree) -> Vec<Wire> {
    let mut all = Vec::new();
    for (from, node) in graph.iter() {
        let ports = node.ports.iter().enumerate();
        let flows = ports.flat_map(|(i, p)| p.targets.iter().map(move |t| (Cell::Port(i), *t)));
        let spawns = node.spawns.iter().enumerate().map(|(i, e)| (Cell::Spawn(i), e.target));
        let notifies = node.notifies.iter().enumerate();
        let notifies = notifies.map(|(i, e)| (Cell::Notify(i), e.target));
        for (cell, to) in flows.chain(spawns).chain(notifies) {
            let common = tree.common(tree.home[from.index()], tree.home[to.index()]);
            let free = !matches!(cell, Cell::Port(_)) || from == to;
            all.push(Wire { from, cell, to, common, free });
        }
    }
    free_upward(tree, &mut all);
    all
}

/// Frees the edges that keep the items of a cluster from having an order.
fn free_upward(tree: &Tree, wires: &mut [Wire]) {
    let mut by_cluster: Vec<Vec<usize>> = vec![Vec::new(); tree.clusters.len()];
    for (i, wire) in wires.iter().enumerate().filter(|(_, wire)| !wire.free) {
        by_cluster[wire.common].push(i);
    }
    for (cluster, here) in by_cluster.iter().enumerate().filter(|(_, here)| !here.is_empty()) {
        let items = &tree.clusters[cluster].items;
        let places: HashMap<Item, usize> = items.iter().copied().zip(0..).collect();
        let place = |node| places[&tree.item_in(node, cluster)];
        let ends: Vec<(usize, usize)> =
            here.iter().map(|i| (place(wires[*i].from), place(wires[*i].to))).collect();
        let order = without_cycles(items.len(), &ends);
        for (i, (from, to)) in here.iter().zip(ends) {
            wires[*i].free = order[from] >= order[to];
        }
    }
}

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
