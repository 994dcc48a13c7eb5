//! Removes edges that are never enabled, and nodes that nothing reaches.

use weever_graph::{Attr, Graph, NodeId, NodeKind, Op, PortId, verify};

use super::spread::{Spread, incoming};

/// Removes the nodes that nothing reaches, then the edges between others that are never enabled;
/// returns whether that changed anything. Each step is left out if the verifier cannot follow it: its
/// knowledge of a graph is bounded, and edges that are never enabled do no harm.
pub(super) fn sever(graph: &mut Graph, spread: &Spread) -> bool {
    let without_edges = cut(graph, spread, |port| !spread.takes(port));
    let without_nodes = cut(graph, spread, |_| false);
    for next in [without_edges, without_nodes] {
        if next != *graph && verify(next.clone()).is_ok() {
            *graph = next;
            return true;
        }
    }
    false
}

fn cut(graph: &Graph, spread: &Spread, dead: impl Fn(PortId) -> bool) -> Graph {
    let operands = operands(graph);
    let mut next = graph.clone();
    for (node, n) in graph.iter() {
        for port in 0..n.ports.len() {
            let id = PortId { node, port: port as u32 };
            let stays = |t: &NodeId| spread.reaches(*t) && !dead(id);
            next.node_mut(node).ports[port].targets.retain(stays);
        }
    }
    settle_operators(&mut next, &operands);
    only(&next, |id| spread.reaches(id))
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

/// An operator that has lost an operand no longer waits for it, so the outcome that needs all operands
/// must not occur: it never occurred before.
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

/// The nodes for which `keep` holds, and the edges between them.
pub(super) fn only(graph: &Graph, keep: impl Fn(NodeId) -> bool) -> Graph {
    let mut out = Graph::new(graph.name.clone());
    out.helpers.clone_from(&graph.helpers);
    let mut moved: Vec<Option<NodeId>> = vec![None; graph.len()];
    for (id, node) in graph.iter().filter(|(id, _)| keep(*id)) {
        moved[id.index()] = Some(out.add(node.clone()));
    }
    for id in moved.iter().flatten() {
        let node = out.node_mut(*id);
        for port in &mut node.ports {
            port.targets = port.targets.iter().filter_map(|t| moved[t.index()]).collect();
        }
        for edges in [&mut node.spawns, &mut node.notifies] {
            edges.retain(|e| moved[e.target.index()].is_some());
            edges.iter_mut().for_each(|e| e.target = moved[e.target.index()].unwrap_or(e.target));
        }
    }
    out
}
