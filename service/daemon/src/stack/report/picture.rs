//! The running graph as text.

use std::collections::HashMap;

use weever_engine::{CounterKind, Reading};
use weever_graph::dot::{Labels, dot_with};
use weever_graph::svg::{Extras, svg_folded};
use weever_graph::{Graph, NodeId, PortId};
use weever_service_api::{ApiError, ErrorKind, GraphFormat, GraphRequest};
use weever_unicorn::{condition, show_with};

/// Draws `graph` as `wanted`, with how many tasks reached each node and left by each port; where
/// there were none, without a number.
///
/// # Errors
/// When the format is not known here, or the graph has no cluster that is to be unfolded.
pub(in crate::stack) fn draw(
    graph: &Graph,
    readings: &[Reading],
    wanted: &GraphRequest,
) -> Result<String, ApiError> {
    let counts = Counts::new(graph, readings);
    let (node, port) = (|id| counts.node(id), |id| counts.port(id));
    let spawn = |id, edge| counts.spawn(id, edge);
    let condition = |id| condition(graph, id);
    let extras = Extras {
        node: Some(&node),
        port: Some(&port),
        spawn: Some(&spawn),
        condition: Some(&condition),
        ..Extras::default()
    };
    match wanted.format {
        GraphFormat::Svg => svg_folded(graph, &extras, &wanted.unfold).map_err(|unknown| {
            ApiError::new(ErrorKind::BadParameters, unknown.to_string(), unknown.remedy())
        }),
        GraphFormat::Text => Ok(show_with(graph, &extras)),
        GraphFormat::Dot => {
            let node = |id| counts.node(id).map(|n| n.to_string());
            let port = |id| counts.port(id).map(|n| n.to_string());
            Ok(dot_with(graph, &Labels { node: Some(&node), port: Some(&port) }))
        }
        _ => Err(ApiError::new(
            ErrorKind::BadParameters,
            "the running graph cannot be had in this format",
            "use dot, svg or text",
        )),
    }
}

/// The counters, by node and name.
struct Counts<'a> {
    graph: &'a Graph,
    values: HashMap<(CounterKind, &'a str, &'a str), u64>,
}

impl<'a> Counts<'a> {
    fn new(graph: &'a Graph, readings: &'a [Reading]) -> Counts<'a> {
        let some = readings.iter().filter(|reading| reading.value > 0);
        let values = some.map(|r| ((r.kind, &*r.node, &*r.label), r.value)).collect();
        Counts { graph, values }
    }

    fn get(&self, kind: CounterKind, node: NodeId, label: &str) -> Option<u64> {
        self.values.get(&(kind, self.graph.node(node).name.as_str(), label)).copied()
    }

    fn node(&self, id: NodeId) -> Option<u64> {
        self.get(CounterKind::Packets, id, "")
    }

    fn port(&self, id: PortId) -> Option<u64> {
        let name = &self.graph.node(id.node).ports[id.port as usize].name;
        self.get(CounterKind::Port, id.node, name)
    }

    fn spawn(&self, id: NodeId, edge: usize) -> Option<u64> {
        self.get(CounterKind::Spawned, id, &self.graph.node(id).spawns[edge].label)
    }
}
