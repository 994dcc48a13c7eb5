//! What a graph takes over from the one before: what no change has touched.

use std::sync::Arc;

use weever_graph::{Node, NodeId, PortId, Verified};

use super::ids::Entry;
use super::program::{CompiledGraph, EntryCode, NO_NODE, NodePlan};

/// The entries whose code the previous graph has already: those that reach no node which has changed.
pub(super) struct Kept<'a> {
    pub(super) previous: Option<&'a CompiledGraph>,
    pub(super) incoming: Vec<Vec<PortId>>,
    nodes: &'a [Arc<NodePlan>],
    /// By node: whether it, or a node behind it, has changed.
    is_touched: Vec<bool>,
    /// By place: when the node runs; [`NO_NODE`] if the graph does not have it.
    turns: Vec<u32>,
}

impl<'a> Kept<'a> {
    pub(super) fn new(
        previous: Option<&'a CompiledGraph>,
        graph: &Verified,
        nodes: &'a [Arc<NodePlan>],
        incoming: Vec<Vec<PortId>>,
    ) -> Kept<'a> {
        let is_touched = vec![false; graph.len()];
        let mut kept = Kept { previous, incoming, nodes, is_touched, turns: Vec::new() };
        let Some(previous) = previous else { return kept };
        kept.turns = vec![NO_NODE; nodes.iter().map(|n| n.place as usize + 1).max().unwrap_or(0)];
        for (turn, id) in (0..).zip(graph.order()) {
            kept.turns[nodes[id.index()].place as usize] = turn;
        }
        let mut touched = Vec::new();
        for (id, node) in graph.iter() {
            let same = |old: &&Arc<NodePlan>| Arc::ptr_eq(old, &nodes[id.index()]);
            if previous.node(&node.name).filter(same).is_none() {
                touched.push(id);
                touched.extend(targets(node));
            }
        }
        for (id, node) in previous.graph.iter() {
            let now = graph.find(&node.name).map(|now| &nodes[now.index()]);
            if !now.is_some_and(|now| Arc::ptr_eq(now, &previous.nodes[id.index()])) {
                let names = targets(node).map(|target| &previous.graph.node(target).name);
                touched.extend(names.filter_map(|name| graph.find(name)));
            }
        }
        while let Some(id) = touched.pop() {
            if !std::mem::replace(&mut kept.is_touched[id.index()], true) {
                touched.extend(kept.incoming[id.index()].iter().map(|port| port.node));
            }
        }
        kept
    }

    /// Whether a node, or one behind it, is not as it was in the previous graph.
    pub(super) fn is_touched(&self, id: NodeId) -> bool {
        self.previous.is_none() || self.is_touched[id.index()]
    }

    /// When the node at a place runs, if the graph has it.
    pub(super) fn turn(&self, place: u32) -> Option<usize> {
        let turn = self.turns.get(place as usize).filter(|turn| **turn != NO_NODE)?;
        Some(*turn as usize)
    }

    /// The previous code of an entry, if it is still right: its nodes run in the same order.
    pub(super) fn code(&self, entry: Entry, id: NodeId) -> Option<Arc<EntryCode>> {
        let old = self.previous?.program.entries.get(entry.index())?;
        let in_order = || {
            let turns = old.code.steps.iter().map(|step| self.turn(step.node));
            turns.clone().all(|turn| turn.is_some()) && turns.is_sorted_by(|a, b| a < b)
        };
        let same = old.node == self.nodes[id.index()].place && !self.is_touched[id.index()];
        (same && in_order()).then(|| old.code.clone())
    }
}

fn targets(node: &Node) -> impl Iterator<Item = NodeId> + '_ {
    node.ports.iter().flat_map(|port| port.targets.iter().copied())
}
