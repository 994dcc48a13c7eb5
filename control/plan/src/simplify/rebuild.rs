//! A graph with some of its nodes.

use weever_graph::{Graph, NodeId};

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
