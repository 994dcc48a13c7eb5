//! A graph as a table for people.

use std::collections::HashMap;
use std::fmt::Write;

use weever_graph::{Edge, Graph, Node, NodeKind, Op, Predicate};
use weever_unicorn::predicate::Shown;

/// Nodes by cluster: kind, effects, attributes, then a line per port and edge.
pub fn show(graph: &Graph) -> String {
    let mut out = String::new();
    let (nodes, edges) = (graph.len(), graph.dataflow().count());
    let _ = writeln!(out, "graph {}: {nodes} nodes, {edges} edges", graph.name);
    for (path, nodes) in by_cluster(graph) {
        let _ = writeln!(out, "\n{}", if path.is_empty() { "(no cluster)" } else { &path });
        for node in nodes {
            show_node(&mut out, graph, node);
        }
    }
    out
}

/// The nodes of each cluster, clusters in the order in which their first nodes stand.
fn by_cluster(graph: &Graph) -> Vec<(String, Vec<&Node>)> {
    let mut groups: Vec<(String, Vec<&Node>)> = Vec::new();
    let mut known: HashMap<&[String], usize> = HashMap::new();
    for (_, node) in graph.iter() {
        let group = *known.entry(&node.clusters).or_insert_with(|| {
            groups.push((node.clusters.join("/"), Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(node);
    }
    groups
}

fn show_node(out: &mut String, graph: &Graph, node: &Node) {
    let _ = writeln!(out, "  {:<8} {}{}", kind_word(&node.kind), node.name, details(node));
    let width = node.ports.iter().map(|p| p.name.len()).max().unwrap_or(0);
    for port in &node.ports {
        let targets: Vec<&str> =
            port.targets.iter().map(|t| graph.node(*t).name.as_str()).collect();
        let targets = if targets.is_empty() { "(ends)".into() } else { targets.join(" ") };
        let condition = match &port.predicate {
            Predicate::True => String::new(),
            predicate => format!("   if {}", Shown(predicate)),
        };
        let reason = node.drop_reason(&port.name).map(|r| format!("   drop: {r}"));
        let reason = reason.unwrap_or_default();
        let _ = writeln!(out, "             {:<width$} -> {targets}{condition}{reason}", port.name);
    }
    for (word, edges) in [("spawn", &node.spawns), ("notify", &node.notifies)] {
        for Edge { label, target, .. } in edges {
            let _ = writeln!(out, "             {word} {label} ..> {}", graph.node(*target).name);
        }
    }
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
    }
    let drop = |a: &&weever_graph::Attr| !matches!(a, weever_graph::Attr::Drop { .. });
    parts.extend(node.attrs.iter().filter(drop).map(|a| format!("[{a}]")));
    parts.iter().fold(String::new(), |all, part| format!("{all} {part}"))
}
