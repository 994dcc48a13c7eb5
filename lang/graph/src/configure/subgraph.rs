//! Replacing a node by nodes and edges, within its neighbourhood.

use std::collections::HashSet;

use super::error::{ConfigError, name_of, require_port};
use crate::{Graph, Node, NodeId, PortId};

/// The replacement of a config node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subgraph {
    /// New nodes. Their ports have no targets yet: edges are given apart.
    pub nodes: Vec<Node>,
    /// New edges.
    pub edges: Vec<NewEdge>,
}

/// An edge of a [`Subgraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEdge {
    /// Its start.
    pub from: From,
    /// Its end.
    pub to: To,
}

/// The start of a new edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At a port of a new node: its position in [`Subgraph::nodes`], the port's in the node.
    New(usize, usize),
    /// At a port of a node that leads to the config node.
    Old(PortId),
}

/// The end of a new edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// At a new node.
    New(usize),
    /// At a node that the config node leads to.
    Old(NodeId),
}

/// The subgraph that leads from all ports before `id` straight to the targets of `port`.
pub(super) fn straight_to(graph: &Graph, id: NodeId, port: &str) -> Result<Subgraph, ConfigError> {
    let node = graph.node(id);
    let targets = &node.ports[require_port(node, port)?].targets;
    let before: Vec<PortId> = graph.dataflow().filter(|(_, t)| *t == id).map(|(p, _)| p).collect();
    let edge = |from: &PortId, to: &NodeId| NewEdge { from: From::Old(*from), to: To::Old(*to) };
    let edges = before.iter().flat_map(|from| targets.iter().map(move |to| edge(from, to)));
    Ok(Subgraph { nodes: Vec::new(), edges: edges.collect() })
}

/// Puts `subgraph` in the place of the node at `id`.
pub(super) fn replace(
    graph: &mut Graph,
    id: NodeId,
    subgraph: Subgraph,
) -> Result<(), ConfigError> {
    check_locality(graph, id, &subgraph)?;
    check_others(graph, id)?;
    let Subgraph { nodes, edges } = subgraph;
    let new: Vec<NodeId> = nodes.into_iter().map(|n| graph.add(n)).collect();
    for edge in edges {
        let from = match edge.from {
            From::Old(port) => port,
            From::New(node, port) => PortId { node: new[node], port: port as u32 },
        };
        let to = match edge.to {
            To::Old(node) => node,
            To::New(node) => new[node],
        };
        let targets = &mut graph.node_mut(from.node).ports[from.port as usize].targets;
        if !targets.contains(&to) {
            // Where the config node stood, so that the order of targets is kept.
            let at = targets.iter().position(|t| *t == id).unwrap_or(targets.len());
            targets.insert(at, to);
        }
    }
    graph.remove(id);
    Ok(())
}

/// The locality rule: an edge starts at a new node or at one that led to the config node, and
/// ends at a new node or at one that the config node led to.
fn check_locality(graph: &Graph, id: NodeId, subgraph: &Subgraph) -> Result<(), ConfigError> {
    let before: HashSet<NodeId> =
        graph.dataflow().filter(|(_, t)| *t == id).map(|(p, _)| p.node).collect();
    let after: HashSet<NodeId> =
        graph.node(id).ports.iter().flat_map(|p| &p.targets).copied().collect();
    let fail = |end: String| Err(ConfigError::NotLocal { node: name_of(graph, id), end });
    for edge in &subgraph.edges {
        let start_fits = match edge.from {
            From::Old(p) => {
                before.contains(&p.node) && (p.port as usize) < graph.node(p.node).ports.len()
            }
            From::New(n, p) => subgraph.nodes.get(n).is_some_and(|n| p < n.ports.len()),
        };
        let end_fits = match edge.to {
            To::Old(node) => after.contains(&node),
            To::New(n) => n < subgraph.nodes.len(),
        };
        if !start_fits {
            return fail(start_text(graph, edge.from));
        }
        if !end_fits {
            return fail(end_text(graph, edge.to));
        }
    }
    let connected = |n: &&Node| n.ports.iter().any(|p| !p.targets.is_empty());
    match subgraph.nodes.iter().find(connected) {
        Some(node) => fail(format!("{} by an edge of its own", node.name)),
        None => Ok(()),
    }
}

fn start_text(graph: &Graph, from: From) -> String {
    match from {
        From::New(node, port) => format!("port {port} of new node {node}"),
        From::Old(port) => old_text(graph, port.node),
    }
}

fn end_text(graph: &Graph, to: To) -> String {
    match to {
        To::New(node) => format!("new node {node}"),
        To::Old(node) => old_text(graph, node),
    }
}

fn old_text(graph: &Graph, id: NodeId) -> String {
    if id.index() < graph.len() { name_of(graph, id) } else { format!("node {}", id.0) }
}

/// No spawn or notify edge may start or end at a node that vanishes.
fn check_others(graph: &Graph, id: NodeId) -> Result<(), ConfigError> {
    let mut edges = graph.iter().flat_map(|(from, node)| {
        node.spawns.iter().chain(&node.notifies).map(move |edge| (from, edge))
    });
    match edges.find(|(from, edge)| *from == id || edge.target == id) {
        Some((_, edge)) => {
            Err(ConfigError::StillNeeded { node: name_of(graph, id), edge: edge.label.clone() })
        }
        None => Ok(()),
    }
}
