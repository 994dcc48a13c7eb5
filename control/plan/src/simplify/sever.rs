//! Edges that are never enabled go, and nodes that nothing reaches.

use weever_graph::{Attr, Graph, NodeId, NodeKind, Op, PortId};

use super::rebuild::only;
use super::spread::{Spread, incoming};

/// Cuts what `spread` says is never taken; says whether that changed anything.
pub(super) fn sever(graph: &mut Graph, spread: &Spread) -> bool {
    let operands = operands(graph);
    let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
    let mut changed = false;
    for node in &ids {
        for (port, p) in graph.node_mut(*node).ports.iter_mut().enumerate() {
            let dead = !spread.takes(PortId { node: *node, port: port as u32 });
            p.targets.retain(|t| {
                let stays = !dead && spread.reaches(*t);
                changed |= !stays;
                stays
            });
        }
    }
    settle_operators(graph, &operands);
    changed |= ids.iter().any(|id| !spread.reaches(*id));
    *graph = only(graph, |id| spread.reaches(id));
    changed
}

/// The operands of every operator.
pub(super) fn operands(graph: &Graph) -> Vec<Vec<NodeId>> {
    let sources = |ports: Vec<PortId>| {
        let mut sources: Vec<NodeId> = ports.into_iter().map(|p| p.node).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    };
    incoming(graph).into_iter().map(sources).collect()
}

/// An operator that has lost an operand no longer waits for it, so the outcome for which all of them
/// are needed must not come: it never came before.
pub(super) fn settle_operators(graph: &mut Graph, before: &[Vec<NodeId>]) {
    let after = operands(graph);
    let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
    for id in ids {
        let NodeKind::Operator(op) = graph.node(id).kind else { continue };
        if before.get(id.index()).is_some_and(|b| *b != after[id.index()]) {
            let needs_all = usize::from(matches!(op, Op::And | Op::Nor));
            let node = graph.node_mut(id);
            if let Some(port) = node.ports.get_mut(needs_all) {
                port.targets.clear();
                let name = port.name.clone();
                node.attrs.retain(|a| !matches!(a, Attr::Drop { port, .. } if *port == name));
            }
        }
    }
}
