//! A graph as a table for people.

use std::collections::HashMap;
use std::fmt::Write;

use weever_graph::nic::{FeatureModel, Work};
use weever_graph::svg::Extras;
use weever_graph::{Attr, Edge, Graph, Node, NodeId, NodeKind, Op, PortId, Predicate};

use crate::predicate::PredicateText;

/// Nodes by cluster: kind, effects, attributes, then a line per port and edge.
pub fn show(graph: &Graph) -> String {
    show_with(graph, &Extras::default())
}

/// The same text, with counters.
pub fn show_with(graph: &Graph, extras: &Extras) -> String {
    let mut out = String::new();
    let (nodes, edges) = (graph.len(), graph.dataflow().count());
    let _ = writeln!(out, "graph {}: {nodes} nodes, {edges} edges", graph.name);
    for (path, nodes) in by_cluster(graph) {
        let _ = writeln!(out, "\n{}", if path.is_empty() { "(no cluster)" } else { &path });
        for id in nodes {
            show_node(&mut out, graph, id, extras);
        }
    }
    out
}

/// The condition on packets that leave by a port, in words; none if the graph does not say.
pub fn condition(graph: &Graph, id: PortId) -> Option<String> {
    match &graph.node(id.node).ports[id.port as usize].predicate {
        Predicate::True => None,
        predicate => Some(PredicateText(predicate).to_string()),
    }
}

/// The nodes of each cluster, clusters in the order in which their first nodes stand.
fn by_cluster(graph: &Graph) -> Vec<(String, Vec<NodeId>)> {
    let mut groups: Vec<(String, Vec<NodeId>)> = Vec::new();
    let mut known: HashMap<&[String], usize> = HashMap::new();
    for (id, node) in graph.iter() {
        let group = *known.entry(&node.clusters).or_insert_with(|| {
            groups.push((node.clusters.join("/"), Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(id);
    }
    groups
}

fn show_node(out: &mut String, graph: &Graph, id: NodeId, extras: &Extras) {
    let node = graph.node(id);
    let reached = packets(extras.node.and_then(|count| count(id)));
    let _ = writeln!(out, "  {:<8} {}{}{reached}", kind_word(&node.kind), node.name, details(node));
    let width = node.ports.iter().map(|p| p.name.len()).max().unwrap_or(0);
    for (place, port) in node.ports.iter().enumerate() {
        let targets: Vec<&str> =
            port.targets.iter().map(|t| graph.node(*t).name.as_str()).collect();
        let targets = if targets.is_empty() { "(ends)".into() } else { targets.join(" ") };
        let place = PortId { node: id, port: place as u32 };
        let condition = condition(graph, place).map(|words| format!("   if {words}"));
        let condition = condition.unwrap_or_default();
        let reason = node.drop_reason(&port.name).map(|r| format!("   drop: {r}"));
        let reason = reason.unwrap_or_default();
        let left = packets(extras.port.and_then(|count| count(place)));
        let name = &port.name;
        let _ = writeln!(out, "             {name:<width$} -> {targets}{condition}{reason}{left}");
    }
    for (word, edges) in [("spawn", &node.spawns), ("notify", &node.notifies)] {
        for (place, Edge { label, target, .. }) in edges.iter().enumerate() {
            let counted = extras.spawn.filter(|_| word == "spawn");
            let started = packets(counted.and_then(|count| count(id, place)));
            let target = &graph.node(*target).name;
            let _ = writeln!(out, "             {word} {label} ..> {target}{started}");
        }
    }
}

fn packets(count: Option<u64>) -> String {
    count.map(|n| format!("   ({n} packets)")).unwrap_or_default()
}

fn kind_word(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Function => "node",
        NodeKind::Operator(Op::And) => "and",
        NodeKind::Operator(Op::Or) => "or",
        NodeKind::Operator(Op::Nand) => "nand",
        NodeKind::Operator(Op::Nor) => "nor",
        NodeKind::Config(_) => "config",
        NodeKind::Table(_) => "table",
    }
}

fn details(node: &Node) -> String {
    let mut parts = Vec::new();
    if let Some(implementation) = &node.implementation {
        parts.push(format!("= {implementation}"));
    }
    if let Some(effects) = node.effects {
        parts.push(format!("({})", effects.names().collect::<Vec<_>>().join(" ")));
    }
    if let NodeKind::Config(spec) = &node.kind {
        parts.extend(spec.ty.as_ref().map(|ty| format!(": {ty}")));
        parts.extend(spec.feature.as_ref().map(|feature| feature_of(feature)));
    }
    let drop = |a: &&Attr| !matches!(a, Attr::Drop { .. });
    parts.extend(node.attrs.iter().filter(drop).map(|a| format!("[{a}]")));
    parts.iter().fold(String::new(), |all, part| format!("{all} {part}"))
}

/// A feature in a few words, as `does vouches fills, rx-checksum`.
fn feature_of(feature: &FeatureModel) -> String {
    let words: Vec<&str> = feature.work.iter().map(Work::word).collect();
    let names = feature.ethtool.iter().map(String::as_str);
    let all: Vec<&str> = words.into_iter().chain(names).collect();
    format!("({})", all.join(" "))
}

#[cfg(test)]
mod tests {
    use weever_graph::Port;

    use super::*;

    #[test]
    fn counters_stand_behind_what_they_count() {
        let mut graph = Graph::new("g");
        let id = graph.add(Node::new("A", NodeKind::Function));
        graph.node_mut(id).ports.push(Port { name: "out".into(), ..Port::default() });
        let (node, port) = (|_: NodeId| Some(7), |_: PortId| Some(5));
        let extras = Extras { node: Some(&node), port: Some(&port), ..Extras::default() };
        let text = show_with(&graph, &extras);
        assert!(text.contains("A   (7 packets)"), "{text}");
        assert!(text.contains("out -> (ends)   (5 packets)"), "{text}");
        assert!(!show(&graph).contains("packets"));
    }
}
