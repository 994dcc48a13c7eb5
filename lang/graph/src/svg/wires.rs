//! Edges as they are drawn.

use std::collections::HashMap;

use super::rank::without_cycles;
use super::tree::{Item, Tree};
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
