//! Chains of `Counter` blocks, to measure the cost of a block (each reads its packets' length).

use weever_graph::{Attr, Graph, Node, NodeId, NodeKind, Port};

use crate::{HostConfig, ModelError, host};

/// The source of [`chain`]; the host's is [`HOST_SOURCE`].
pub const SOURCE: &str = "Source";
/// The source of the host's graph.
pub const HOST_SOURCE: &str = "RxQueue";

/// A source, `n` counters and a sink in a row.
pub fn chain(n: usize) -> Graph {
    let mut graph = Graph::new(format!("counters{n}"));
    let mut source = function(SOURCE, "RxQueue");
    source.attrs.push(Attr::Source);
    graph.add(source);
    graph.add(function("Sink", "Discard"));
    connect(&mut graph, NodeId(0), &[NodeId(1)]);
    splice(&mut graph, NodeId(0), n);
    graph
}

/// The host's graph with `n` counters between its source and the first validator.
///
/// # Errors
/// As [`host`](crate::host()).
pub fn host_with_counters(config: &HostConfig, n: usize) -> Result<Graph, ModelError> {
    let mut graph = host(config)?;
    if let Some(source) = graph.find(HOST_SOURCE) {
        splice(&mut graph, source, n);
    }
    Ok(graph)
}

/// Puts `n` counters, `Counter0` and so on, on the edge that leaves `node` by its first port.
fn splice(graph: &mut Graph, node: NodeId, n: usize) {
    let last = graph.node(node).ports[0].targets.clone();
    let mut at = node;
    for i in 0..n {
        let counter = graph.add(function(format!("Counter{i}"), "Counter"));
        connect(graph, at, &[counter]);
        at = counter;
    }
    connect(graph, at, &last);
}

fn connect(graph: &mut Graph, from: NodeId, to: &[NodeId]) {
    graph.node_mut(from).ports[0].targets = to.to_vec();
}

/// An F-node with the one port `out`.
fn function(name: impl Into<String>, implementation: &str) -> Node {
    let mut node = Node::new(name, NodeKind::Function);
    node.implementation = Some(implementation.into());
    node.ports.push(Port { name: "out".into(), ..Port::default() });
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use weever_graph::verify;

    #[test]
    fn a_chain_is_a_chain() {
        let graph = verify(chain(3)).unwrap();
        let names: Vec<&str> =
            graph.order().iter().map(|id| graph.node(*id).name.as_str()).collect();
        assert_eq!(names, ["Source", "Counter0", "Counter1", "Counter2", "Sink"]);
        assert_eq!(chain(0).len(), 2);
    }

    #[test]
    fn counters_stand_before_the_host() {
        let graph = host_with_counters(&HostConfig::default(), 2).unwrap();
        let next = |name: &str| {
            let id = graph.find(name).unwrap();
            graph.node(graph.node(id).ports[0].targets[0]).name.clone()
        };
        assert_eq!(next(HOST_SOURCE), "Counter0");
        assert_eq!(next("Counter1"), "RxL2EtherClassified");
    }
}
