//! Nodes that run at another worker: their names stay, so that tasks can be sent there.

use std::collections::HashSet;

use weever_graph::{Attr, Effects, Graph, Node, NodeId, NodeKind, Port};

/// Where a node runs, if several workers share a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The node runs at each worker.
    Any,
    /// At the worker that the graph is for, where others may start tasks.
    Here,
    /// At the worker of this number: only its name is needed here.
    Elsewhere(u16),
}

/// The names of the nodes where tasks start here that no edge starts here: those with `init`, roots
/// that are no edge's target, and nodes that other workers start.
pub(super) fn entrances(graph: &Graph, home: &dyn Fn(&Node) -> Home) -> HashSet<String> {
    let mut led_to = vec![false; graph.len()];
    graph.dataflow().for_each(|(_, to)| led_to[to.index()] = true);
    let mut started = vec![false; graph.len()];
    for edge in graph.iter().flat_map(|(_, n)| n.spawns.iter().chain(&n.notifies)) {
        started[edge.target.index()] = true;
    }
    let is_entrance = |(id, node): &(NodeId, &Node)| {
        let (led_to, started) = (led_to[id.index()], started[id.index()]);
        let root = !led_to && !started && !node.has(&Attr::Source);
        match home(node) {
            Home::Elsewhere(_) => false,
            Home::Here if started => true,
            Home::Here | Home::Any => node.has(&Attr::Init) || root,
        }
    };
    graph.iter().filter(is_entrance).map(|(_, n)| n.name.clone()).collect()
}

/// Replaces each node that runs at another worker by a node that leads nowhere.
pub(super) fn stand_in(graph: &mut Graph, home: &dyn Fn(&Node) -> Home, pass_on: &str) {
    let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
    for id in ids {
        if let Home::Elsewhere(worker) = home(graph.node(id)) {
            let stub = stub(&graph.node(id).name, pass_on, worker);
            let old = graph.node_mut(id);
            let (clusters, span) = (std::mem::take(&mut old.clusters), old.span);
            *old = Node { clusters, span, ..stub };
        }
    }
}

/// A node of this name that runs at a worker.
pub(super) fn stub(name: &str, pass_on: &str, worker: u16) -> Node {
    let mut stub = Node::new(name, NodeKind::Function);
    stub.implementation = Some(pass_on.into());
    stub.ports.push(Port { name: "out".into(), ..Port::default() });
    stub.attrs.push(Attr::Param { key: "worker".into(), value: worker.to_string() });
    // Packets that arrive here go on at that worker: no drop.
    stub.attrs.push(Attr::Param { key: "ends".into(), value: "out".into() });
    stub.effects = Some(Effects::READS.union(Effects::NEEDS_BUFFER));
    stub
}
