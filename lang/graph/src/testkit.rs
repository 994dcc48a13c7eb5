//! Short ways to build graphs in this crate's tests.

use crate::{Effects, Graph, Node, NodeId, NodeKind, Op, Port};

/// Adds an F-node with the named ports and edges to existing nodes: `"true" -> [a, b]`.
pub(crate) fn add(g: &mut Graph, name: &str, ports: &[(&str, &[NodeId])]) -> NodeId {
    add_kind(g, name, NodeKind::Function, ports)
}

pub(crate) fn add_op(g: &mut Graph, name: &str, op: Op, ports: &[(&str, &[NodeId])]) -> NodeId {
    add_kind(g, name, NodeKind::Operator(op), ports)
}

pub(crate) fn add_kind(
    g: &mut Graph,
    name: &str,
    kind: NodeKind,
    ports: &[(&str, &[NodeId])],
) -> NodeId {
    let mut node = Node::new(name, kind);
    for (name, targets) in ports {
        let port = Port { name: (*name).into(), targets: targets.to_vec(), ..Port::default() };
        node.ports.push(port);
    }
    g.add(node)
}

pub(crate) fn with_effects(g: &mut Graph, id: NodeId, effects: Effects) {
    g.node_mut(id).effects = Some(effects);
}
