//! A layout as SVG text.

use std::collections::HashMap;
use std::fmt::Write;

use super::extras::Extras;
use super::geometry::{Rect, Route};
use super::geometry::{number, path};
use super::layout::{Frame, Layout};
use super::picture::LABEL;
use super::shape::{CellShape, NAME, SMALL, Shape, kind_words};
use super::text::{STYLE, TINTS};
use super::text::{escaped, width};
use super::wires::{Cell, WireKind};
use crate::{Attr, Graph, Node, NodeId, NodeKind, PortId};

/// The narrowest picture, which has room for the legend.
const NARROWEST: f64 = 640.0;

/// Writes the picture.
pub(super) fn draw(graph: &Graph, extras: &Extras, layout: &Layout) -> String {
    let mut drawing = Drawing { graph, extras, layout, out: String::new() };
    drawing.open();
    drawing.frames();
    // Curves lie behind lines, which lie behind nodes.
    let (curves, lines): (Vec<&Route>, Vec<&Route>) =
        layout.routes.iter().partition(|route| route.behind);
    curves.into_iter().chain(lines).for_each(|route| drawing.route(route));
    drawing.labels();
    for (id, node) in graph.iter() {
        drawing.node(id, node);
    }
    drawing.out.push_str("</svg>\n");
    drawing.out
}

struct Drawing<'a> {
    graph: &'a Graph,
    extras: &'a Extras<'a>,
    layout: &'a Layout,
    out: String,
}

impl Drawing<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn open(&mut self) {
        let (width, height) =
            (number(self.layout.width.max(NARROWEST)), number(self.layout.height));
        let name = escaped(&self.graph.name);
        let (mut boxes, mut nodes) = (0, 0);
        for (id, _) in self.graph.iter() {
            let inside = self.extras.folded(id);
            boxes += usize::from(inside.is_some());
            nodes += inside.unwrap_or(1);
        }
        let what = match boxes {
            0 => format!("{nodes} nodes, {} edges", self.graph.dataflow().count()),
            _ => format!("{nodes} nodes, most of them in {boxes} folded clusters"),
        };
        self.put(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\">"
        ));
        self.put(&format!("<title>{name}</title>\n<style>{STYLE}</style>\n<defs>"));
        for marker in ["o", "t", "f", "s", "n"] {
            self.put(&format!(
                "<marker id=\"{marker}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
                 markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" \
                 orient=\"auto\"><path d=\"M0 .8L8 4L0 7.2z\"/></marker>"
            ));
        }
        self.put("</defs>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>");
        self.put(&format!("<text class=\"title\" x=\"24\" y=\"34\">{name}</text>"));
        let x = number(24.0 + width_of_title(&self.graph.name) + 14.0);
        let counted = if self.extras.counted() { ", width by packets" } else { "" };
        self.put(&format!("<text class=\"sub\" x=\"{x}\" y=\"34\">{what}{counted}</text>"));
        self.legend();
    }

    fn legend(&mut self) {
        let mut x = 24.0;
        for (class, words) in [
            ("t", "true"),
            ("f", "false"),
            ("o", "another port"),
            ("s", "spawns a task"),
            ("n", "wakes tasks"),
        ] {
            let (end, text) = (number(x + 26.0), number(x + 33.0));
            let start = number(x);
            self.put(&format!(
                "<g class=\"e {class}\"><path d=\"M{start} 52H{end}\" marker-end=\"url(#{class})\"/></g>\
                 <text class=\"key\" x=\"{text}\" y=\"56\">{words}</text>"
            ));
            x += 33.0 + width(words, 11.0) + 18.0;
        }
        let (a, b, c) = (number(x), number(x + 5.0), number(x + 18.0));
        self.put(&format!(
            "<path class=\"g\" d=\"M{b} 46v7M{a} 53h10\"/>\
             <text class=\"key\" x=\"{c}\" y=\"56\">counted drop</text>"
        ));
    }

    /// Boxes of clusters. Those of one name have one colour, wherever they are.
    fn frames(&mut self) {
        for (frame, tint) in self.tinted() {
            let Rect { x, y, width, height } = frame.rect;
            let [x, y, width, height] = [x, y, width, height].map(number);
            let radius = if frame.depth == 1 { 14 } else { 10 };
            self.put(&format!(
                "<g class=\"c\"><rect class=\"k{tint}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
                 height=\"{height}\" rx=\"{radius}\"/></g>"
            ));
        }
    }

    fn labels(&mut self) {
        for (frame, tint) in self.tinted() {
            let (x, y) = (number(frame.rect.x + 14.0), number(frame.rect.y + LABEL + 7.0));
            let name = escaped(&frame.name);
            self.put(&format!("<text class=\"cl k{tint}\" x=\"{x}\" y=\"{y}\">{name}</text>"));
        }
    }

    fn tinted(&self) -> Vec<(Frame, usize)> {
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut tint = |frame: &Frame| {
            let next = known.len() % TINTS;
            (frame.clone(), *known.entry(frame.name.clone()).or_insert(next))
        };
        self.layout.frames.iter().map(&mut tint).collect()
    }

    fn route(&mut self, route: &Route) {
        let d = path(route);
        let node = self.graph.node(route.from);
        let (class, name) = match route.cell {
            Cell::Port(i) => (port_class(&node.ports[i].name), node.ports[i].name.as_str()),
            Cell::Spawn(i) => ("s", node.spawns[i].label.as_str()),
            Cell::Notify(i) => ("n", node.notifies[i].label.as_str()),
        };
        let count = self.extras.cell(route.from, route.cell);
        let (idle, stroke) = match (route.kind, count) {
            (WireKind::Flow | WireKind::Spawn, Some(n)) if n > 0 => {
                ("", format!(" style=\"stroke-width:{}\"", number(thickness(n))))
            }
            (WireKind::Flow | WireKind::Spawn, _) if self.extras.counted() => (" i", String::new()),
            _ => ("", String::new()),
        };
        let packets = count.map(|n| format!(", {n} packets")).unwrap_or_default();
        let title = format!("{}.{name} → {}{packets}", node.name, self.graph.node(route.to).name);
        let title = escaped(&title);
        self.put(&format!(
            "<g class=\"e {class}{idle}\"><title>{title}</title>\
             <path d=\"{d}\"{stroke} marker-end=\"url(#{class})\"/></g>"
        ));
    }

    fn node(&mut self, id: NodeId, node: &Node) {
        let (rect, shape) = (self.layout.nodes[id.index()], &self.layout.shapes[id.index()]);
        let (x, y, middle) = (number(rect.x), number(rect.y), shape.width / 2.0);
        let class = match node.kind {
            _ if self.extras.folded(id).is_some() => "G",
            NodeKind::Function => "F",
            NodeKind::Operator(_) => "O",
            NodeKind::Config(_) => "C",
            NodeKind::Table(_) => "T",
        };
        let title = match self.extras.folded(id) {
            Some(nodes) => about_folded(node, nodes, self.extras.node(id)),
            None => about(node, self.extras.node(id)),
        };
        let title = escaped(&title);
        let mut text =
            format!("<g class=\"{class}\" transform=\"translate({x} {y})\"><title>{title}</title>");
        body(&mut text, node, shape);
        head(&mut text, shape, middle);
        for cell in &shape.cells {
            self.cell(&mut text, id, node, shape, cell);
        }
        text.push_str("</g>");
        self.put(&text);
    }

    fn cell(&self, out: &mut String, id: NodeId, node: &Node, shape: &Shape, cell: &CellShape) {
        let class = match cell.cell {
            Cell::Port(i) => port_class(&node.ports[i].name),
            Cell::Spawn(_) => "s",
            Cell::Notify(_) => "n",
        };
        let (left, wide) = (number(cell.x + 3.0), number(cell.width - 6.0));
        let (top, high) = (number(shape.head - 1.0), number(shape.foot - 3.0));
        let (middle, base) = (cell.x + cell.width / 2.0, shape.head + 8.6);
        let title = escaped(&self.about_cell(id, node, cell.cell));
        let (text, x, y) = (escaped(&cell.text), number(middle), number(base));
        let _ = write!(
            out,
            "<g class=\"p {class}\"><title>{title}</title><rect x=\"{left}\" y=\"{top}\" \
             width=\"{wide}\" height=\"{high}\" rx=\"4\"/><text x=\"{x}\" y=\"{y}\">{text}</text>"
        );
        if let Some(count) = &cell.count {
            let y = number(base + 11.5);
            let _ = write!(out, "<text class=\"ct\" x=\"{x}\" y=\"{y}\">{count}</text>");
        }
        if let Cell::Port(i) = cell.cell
            && node.ports[i].targets.is_empty()
            && node.drop_reason(&node.ports[i].name).is_some()
        {
            let (top, left) = (number(shape.height() + 0.5), number(middle - 5.0));
            let _ = write!(out, "<path class=\"g\" d=\"M{x} {top}v6\"/>");
            let low = number(shape.height() + 6.5);
            let _ = write!(out, "<path class=\"g\" d=\"M{left} {low}h10\"/>");
        }
        out.push_str("</g>");
    }

    fn about_cell(&self, id: NodeId, node: &Node, cell: Cell) -> String {
        let mut lines = Vec::new();
        match cell {
            Cell::Port(i) => {
                let port = &node.ports[i];
                lines.push(format!("port {}", port.name));
                let place = PortId { node: id, port: i as u32 };
                let condition = self.extras.condition.and_then(|words| words(place));
                lines.extend(condition.map(|words| format!("if {words}")));
                lines.extend(node.drop_reason(&port.name).map(|reason| format!("drop: {reason}")));
            }
            Cell::Spawn(i) => lines.push(format!("spawns {}", node.spawns[i].label)),
            Cell::Notify(i) => lines.push(format!("notifies {}", node.notifies[i].label)),
        }
        lines.extend(self.extras.cell(id, cell).map(|n| format!("{n} packets")));
        lines.join("\n")
    }
}

fn width_of_title(name: &str) -> f64 {
    width(name, 20.0) * 1.05
}

fn body(out: &mut String, node: &Node, shape: &Shape) {
    let (wide, high) = (number(shape.width), number(shape.height()));
    let radius = if shape.badge.is_some() { 12 } else { 6 };
    let _ = write!(out, "<rect class=\"b\" width=\"{wide}\" height=\"{high}\" rx=\"{radius}\"/>");
    let middle = shape.width / 2.0;
    if matches!(node.kind, NodeKind::Table(_)) {
        let end = number(shape.width - 6.0);
        let _ = write!(out, "<path class=\"top\" d=\"M6 3.5H{end}\"/>");
    }
    let [left, right, x] = [middle - 6.0, middle + 6.0, middle].map(number);
    if node.has(&Attr::Source) {
        let _ = write!(out, "<path class=\"in\" d=\"M{left} -8H{right}L{x} 0z\"/>");
    }
    if node.has(&Attr::Sink) {
        let (top, tip) = (number(shape.height()), number(shape.height() + 8.0));
        let _ = write!(out, "<path class=\"outm\" d=\"M{left} {top}H{right}L{x} {tip}z\"/>");
    }
}

fn head(out: &mut String, shape: &Shape, middle: f64) {
    let badge = shape.badge.map_or(0.0, |badge| width(badge, SMALL) + 14.0);
    if let Some(badge_text) = shape.badge {
        let total = badge + width(&shape.name, NAME) * 1.05;
        let left = (middle - total / 2.0).max(5.0);
        let (x, wide) = (number(left), number(badge - 5.0));
        let text = number(left + (badge - 5.0) / 2.0);
        let _ = write!(
            out,
            "<rect class=\"bd\" x=\"{x}\" y=\"5\" width=\"{wide}\" height=\"13\" rx=\"6.5\"/>\
             <text class=\"bt\" x=\"{text}\" y=\"14.6\">{badge_text}</text>"
        );
    }
    let (x, name) = (number(middle + badge / 2.0), escaped(&shape.name));
    let _ = write!(out, "<text class=\"nm\" x=\"{x}\" y=\"15.5\">{name}</text>");
    if let Some(line) = &shape.line {
        let (x, line) = (number(middle), escaped(line));
        let _ = write!(out, "<text class=\"ln\" x=\"{x}\" y=\"27\">{line}</text>");
    }
}

fn about_folded(node: &Node, nodes: usize, packets: Option<u64>) -> String {
    let mut text = format!("cluster of {nodes} nodes\n--unfold {} shows them", node.name);
    if let Some(packets) = packets {
        let _ = write!(text, "\n{packets} packets came in");
    }
    text
}

fn about(node: &Node, packets: Option<u64>) -> String {
    let mut lines = vec![format!("{}: {}", node.name, kind_words(node))];
    lines.extend(node.implementation.as_ref().map(|name| format!("implementation {name}")));
    if let Some(effects) = node.effects {
        let names: Vec<&str> = effects.names().collect();
        if !names.is_empty() {
            lines.push(format!("effects: {}", names.join(", ")));
        }
    }
    let told = node.attrs.iter().filter(|attr| !matches!(attr, Attr::Drop { .. }));
    lines.extend(told.map(ToString::to_string));
    lines.extend(packets.map(|n| format!("{n} packets")));
    lines.join("\n")
}

/// The class of a port's cell and edges; also the name of their arrow's head.
fn port_class(name: &str) -> &'static str {
    match name {
        "true" => "t",
        "false" => "f",
        _ => "o",
    }
}

/// The width of the line for `n` packets: ten times as many make it a pixel wider.
fn thickness(n: u64) -> f64 {
    (1.3 + 0.9 * (n as f64).max(1.0).log10()).min(9.0)
}
