//! A graph as a picture in the DOT language.
//!
//! Clusters are boxes around their nodes. F-nodes are boxes, O-nodes show their operator, C-nodes
//! are hexagons, T-nodes are cylinders. Edges start at the port's own cell; `true` is green,
//! `false` red. Spawn edges are dashed, notify edges dotted.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::node::{operator_name, short_name};
use crate::{Graph, Node, NodeId, NodeKind, PortId};

/// More text for a picture, for instance counters.
#[derive(Default)]
pub struct Labels<'a> {
    /// A line under a node's name.
    pub node: Option<&'a dyn Fn(NodeId) -> Option<String>>,
    /// A line under a port's name.
    pub port: Option<&'a dyn Fn(PortId) -> Option<String>>,
}

/// Draws `graph` without further labels.
pub fn dot(graph: &Graph) -> String {
    dot_with(graph, &Labels::default())
}

/// Draws `graph` with the text of `labels`.
pub fn dot_with(graph: &Graph, labels: &Labels) -> String {
    let mut drawing = Drawing { graph, labels, out: String::new() };
    drawing.draw();
    drawing.out
}

/// The nodes and inner clusters of a cluster.
#[derive(Default)]
struct Cluster<'a> {
    inner: BTreeMap<&'a str, Cluster<'a>>,
    nodes: Vec<NodeId>,
}

struct Drawing<'a> {
    graph: &'a Graph,
    labels: &'a Labels<'a>,
    out: String,
}

impl<'a> Drawing<'a> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn draw(&mut self) {
        self.line(&format!("digraph {} {{", quoted(&self.graph.name)));
        self.line("  rankdir=LR; fontname=\"sans-serif\";");
        self.line("  node [fontname=\"sans-serif\" fontsize=10 shape=plaintext];");
        self.line("  edge [fontname=\"sans-serif\" fontsize=8];");
        let clusters = self.clusters();
        self.cluster(&clusters, "", 1);
        for (id, node) in self.graph.iter() {
            self.flows(id, node);
            self.others(id, node);
        }
        self.line("}");
    }

    fn clusters(&self) -> Cluster<'a> {
        let mut root = Cluster::default();
        for (id, node) in self.graph.iter() {
            let mut at = &mut root;
            for name in &node.clusters {
                at = at.inner.entry(name).or_default();
            }
            at.nodes.push(id);
        }
        root
    }

    fn cluster(&mut self, cluster: &Cluster<'a>, path: &str, depth: usize) {
        let pad = "  ".repeat(depth);
        for id in &cluster.nodes {
            let drawn = self.node(*id);
            self.line(&format!("{pad}n{} [{drawn}];", id.0));
        }
        for (name, inner) in &cluster.inner {
            let path = format!("{path}_{name}");
            self.line(&format!("{pad}subgraph {} {{", quoted(&format!("cluster{path}"))));
            self.line(&format!("{pad}  label={}; color=\"gray60\";", quoted(name)));
            self.cluster(inner, &path, depth + 1);
            self.line(&format!("{pad}}}"));
        }
    }

    fn node(&self, id: NodeId) -> String {
        let node = self.graph.node(id);
        match &node.kind {
            NodeKind::Operator(op) => {
                let title = format!("{}\n{}", operator_name(*op), self.title(id, node));
                format!(
                    "shape=ellipse style=filled fillcolor=\"lightyellow\" label={}",
                    quoted(&title)
                )
            }
            NodeKind::Function => self.table(id, node, "white", ""),
            NodeKind::Config(_) => self.table(id, node, "lightpink", "config"),
            NodeKind::Table(table) => {
                let kind = format!("table, {} of {}", table.entries.len(), table.capacity);
                self.table(id, node, "lightblue", &kind)
            }
        }
    }

    fn title(&self, id: NodeId, node: &Node) -> String {
        let extra = self.labels.node.and_then(|label| label(id));
        let name = short_name(node);
        extra.map_or_else(|| name.into(), |extra| format!("{name}\n{extra}"))
    }

    /// An HTML-like table: the name above, a cell per port below.
    fn table(&self, id: NodeId, node: &Node, fill: &str, kind: &str) -> String {
        let mut title = html(&self.title(id, node));
        if !kind.is_empty() {
            let _ = write!(title, "<BR/><I>{}</I>", html(kind));
        }
        let columns = node.ports.len().max(1);
        let mut cells = String::new();
        for (i, port) in node.ports.iter().enumerate() {
            let extra = self.labels.port.and_then(|l| l(PortId { node: id, port: i as u32 }));
            let text = match extra {
                Some(extra) => format!("{}\n{extra}", port.name),
                None => port.name.clone(),
            };
            let _ = write!(
                cells,
                "<TD PORT=\"p{i}\" BGCOLOR=\"{}\">{}</TD>",
                colour(&port.name).1,
                html(&text)
            );
        }
        let row = if cells.is_empty() { String::new() } else { format!("<TR>{cells}</TR>") };
        format!(
            "label=<<TABLE BORDER=\"0\" CELLBORDER=\"1\" CELLSPACING=\"0\" BGCOLOR=\"{fill}\">\
             <TR><TD COLSPAN=\"{columns}\">{title}</TD></TR>{row}</TABLE>>"
        )
    }

    fn flows(&mut self, id: NodeId, node: &Node) {
        let operator = matches!(node.kind, NodeKind::Operator(_));
        for (i, port) in node.ports.iter().enumerate() {
            let from = if operator { format!("n{}", id.0) } else { format!("n{}:p{i}", id.0) };
            let extra = self.labels.port.and_then(|l| l(PortId { node: id, port: i as u32 }));
            let label = extra.filter(|_| operator).map(|e| format!(" label={}", quoted(&e)));
            let label = label.unwrap_or_default();
            for target in &port.targets {
                let colour = colour(&port.name).0;
                self.line(&format!("  {from} -> n{} [color=\"{colour}\"{label}];", target.0));
            }
        }
    }

    fn others(&mut self, id: NodeId, node: &Node) {
        let spawns = node.spawns.iter().map(|e| (e, "dashed"));
        for (edge, style) in spawns.chain(node.notifies.iter().map(|e| (e, "dotted"))) {
            let (label, to) = (quoted(&edge.label), edge.target.0);
            let how = format!("style={style} constraint=false label={label}");
            self.line(&format!("  n{} -> n{to} [{how}];", id.0));
        }
    }
}

/// The colours of a port's edges and of its cell.
fn colour(port: &str) -> (&'static str, &'static str) {
    match port {
        "true" => ("darkgreen", "honeydew"),
        "false" => ("firebrick", "mistyrose"),
        _ => ("black", "white"),
    }
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

fn html(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', "&quot;").replace('\n', "<BR/>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Edge;
    use crate::Op;
    use crate::testkit::{add, add_op};

    fn example() -> Graph {
        let mut g = Graph::new("a \"graph\"");
        let op = add_op(&mut g, "RxValid", Op::Nand, &[("false", &[]), ("true", &[])]);
        let f = add(&mut g, "RxLen<", &[("false", &[op]), ("true", &[op]), ("out", &[])]);
        for id in [op, f] {
            g.node_mut(id).clusters = vec!["Rx".into()];
        }
        let edge = Edge { label: "again".into(), target: f, predicates: Vec::new() };
        g.node_mut(f).spawns.push(edge.clone());
        g.node_mut(f).notifies.push(edge);
        g
    }

    #[test]
    fn nodes_edges_and_clusters_are_drawn() {
        let text = dot(&example());
        for part in [
            "digraph \"a \\\"graph\\\"\" {",
            "subgraph \"cluster_Rx\" {",
            "NAND\\nValid",
            "Len&lt;",
            "n1:p0 -> n0 [color=\"firebrick\"]",
            "n1:p1 -> n0 [color=\"darkgreen\"]",
            "n1 -> n1 [style=dashed",
            "n1 -> n1 [style=dotted",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn labels_reach_nodes_and_ports() {
        let (node, port) = (
            |id: NodeId| Some(format!("ran {}", id.0)),
            |p: PortId| Some(format!("left {}.{}", p.node.0, p.port)),
        );
        let labels = Labels { node: Some(&node), port: Some(&port) };
        let text = dot_with(&example(), &labels);
        assert!(text.contains("ran 1") && text.contains("left 1.2"), "{text}");
    }
}
