//! The running graph as a picture.

use std::collections::HashMap;

use weever_engine::{CounterKind, Reading};
use weever_graph::dot::{Labels, dot_with};
use weever_graph::{Graph, NodeId, PortId};

/// Draws `graph` in Graphviz's language, with how many tasks reached each node and left by each
/// port; where there were none, without a number.
pub(super) fn draw(graph: &Graph, readings: &[Reading]) -> String {
    let counts = readings.iter().filter(|reading| reading.value > 0);
    let counts: HashMap<(CounterKind, &str, &str), u64> =
        counts.map(|r| ((r.kind, &*r.node, &*r.label), r.value)).collect();
    let label = |kind, node, name| counts.get(&(kind, node, name)).map(u64::to_string);
    let node = |id: NodeId| label(CounterKind::Packets, graph.node(id).name.as_str(), "");
    let port = |id: PortId| {
        let node = graph.node(id.node);
        label(CounterKind::Port, node.name.as_str(), node.ports[id.port as usize].name.as_str())
    };
    dot_with(graph, &Labels { node: Some(&node), port: Some(&port) })
}
