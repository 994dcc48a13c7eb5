//! A topological order, or the cycle that prevents it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::index::{Index, id_at};
use crate::{Graph, NodeId};

/// Every node after all that lead to it; where that leaves a choice, in the order of adding.
/// Otherwise one cycle, in the direction of its edges.
pub(crate) fn topological(graph: &Graph, index: &Index) -> Result<Vec<NodeId>, Vec<NodeId>> {
    let mut waiting: Vec<usize> = graph.iter().map(|_| 0).collect();
    for (_, target) in graph.dataflow() {
        waiting[target.index()] += 1;
    }
    let mut ready: BinaryHeap<Reverse<NodeId>> = graph
        .iter()
        .filter(|(id, _)| waiting[id.index()] == 0)
        .map(|(id, _)| Reverse(id))
        .collect();
    let mut order = Vec::with_capacity(graph.len());
    while let Some(Reverse(id)) = ready.pop() {
        order.push(id);
        for target in graph.node(id).ports.iter().flat_map(|p| &p.targets) {
            waiting[target.index()] -= 1;
            if waiting[target.index()] == 0 {
                ready.push(Reverse(*target));
            }
        }
    }
    match waiting.iter().position(|w| *w > 0) {
        None => Ok(order),
        Some(stuck) => Err(cycle_behind(index, &waiting, id_at(stuck))),
    }
}

/// Walks backwards among the nodes that never became ready: each has such a predecessor, so the
/// walk must meet itself.
fn cycle_behind(index: &Index, waiting: &[usize], from: NodeId) -> Vec<NodeId> {
    let mut seen_at = vec![None; waiting.len()];
    let mut walk: Vec<NodeId> = Vec::new();
    let mut at = from;
    while seen_at[at.index()].is_none() {
        seen_at[at.index()] = Some(walk.len());
        walk.push(at);
        let stuck = index.incoming[at.index()].iter().map(|p| p.node);
        match stuck.into_iter().find(|n| waiting[n.index()] > 0) {
            Some(previous) => at = previous,
            None => break,
        }
    }
    let mut cycle = walk.split_off(seen_at[at.index()].unwrap_or(0));
    cycle.reverse();
    cycle
}
