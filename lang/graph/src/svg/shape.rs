//! How large a node is drawn, and where its ports are.

use super::extras::Extras;
use super::text::{clipped, short, width};
use super::wires::Cell;
use crate::node::{operator_name, short_name};
use crate::{Attr, Graph, Node, NodeId, NodeKind, Op};

/// Size of the letters in a name.
pub(super) const NAME: f64 = 11.0;
/// Size of the letters in a cell and below a name.
pub(super) const SMALL: f64 = 9.0;
const LONGEST: usize = 48;
const HEAD: f64 = 23.0;
const LINE: f64 = 12.0;
const CELL: f64 = 16.0;
const MARGIN: f64 = 10.0;
const NARROWEST_CELL: f64 = 26.0;

/// A node's box: a head with its name, above a row of cells, from which edges start.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) width: f64,
    /// Height of the head.
    pub(super) head: f64,
    /// Height of the row of cells.
    pub(super) foot: f64,
    /// `AND`, before the name of an O-node.
    pub(super) badge: Option<&'static str>,
    pub(super) name: String,
    /// The text below the name.
    pub(super) line: Option<String>,
    pub(super) cells: Vec<CellShape>,
}

/// One cell of the row.
#[derive(Clone, Debug)]
pub(super) struct CellShape {
    pub(super) cell: Cell,
    pub(super) text: String,
    pub(super) count: Option<String>,
    /// Left end, from the node's.
    pub(super) x: f64,
    pub(super) width: f64,
}

impl Shape {
    pub(super) fn height(&self) -> f64 {
        self.head + self.foot
    }

    /// Where the edges of `cell` start, from the node's left end.
    pub(super) fn start(&self, cell: Cell) -> f64 {
        let found = self.cells.iter().find(|c| c.cell == cell);
        found.map_or(self.width / 2.0, |c| c.x + c.width / 2.0)
    }

    pub(super) fn new(graph: &Graph, id: NodeId, extras: &Extras) -> Shape {
        let node = graph.node(id);
        let name = clipped(short_name(node), LONGEST);
        let badge = match node.kind {
            NodeKind::Operator(op) => Some(operator_name(op)),
            _ => None,
        };
        let line = match extras.folded(id) {
            Some(nodes) => Some(folded_line(nodes, extras.node(id))),
            None => line(node, extras.node(id)),
        };
        let line = line.map(|line| clipped(&line, LONGEST));
        let mut cells = cells(node, |cell| extras.cell(id, cell));
        let badge_width = badge.map_or(0.0, |badge| width(badge, SMALL) + 14.0);
        let title = width(&name, NAME) * 1.05 + badge_width;
        let line_width = line.as_ref().map_or(0.0, |line| width(line, SMALL));
        let row: f64 = cells.iter().map(|c| c.width).sum();
        let total = row.max(title.max(line_width) + 2.0 * MARGIN).max(48.0).ceil();
        spread(&mut cells, total, row);
        let counted = cells.iter().any(|c| c.count.is_some());
        let foot = if cells.is_empty() { 0.0 } else { CELL + if counted { LINE } else { 0.0 } };
        let head = HEAD + if line.is_some() { LINE } else { 0.0 };
        Shape { width: total, head, foot, badge, name, line, cells }
    }
}

fn cells(node: &Node, count: impl Fn(Cell) -> Option<u64>) -> Vec<CellShape> {
    let ports = node.ports.iter().map(|p| &p.name).enumerate().map(|(i, n)| (Cell::Port(i), n));
    let spawns = node.spawns.iter().enumerate().map(|(i, e)| (Cell::Spawn(i), &e.label));
    let notifies = node.notifies.iter().enumerate().map(|(i, e)| (Cell::Notify(i), &e.label));
    let cell = |(cell, name): (Cell, &String)| {
        let text = clipped(name, LONGEST);
        let count = count(cell).map(short);
        let widest = [Some(&text), count.as_ref()].into_iter().flatten();
        let widest = widest.map(|text| width(text, SMALL)).fold(0.0, f64::max);
        CellShape { cell, text, count, x: 0.0, width: (widest + 12.0).max(NARROWEST_CELL) }
    };
    ports.chain(spawns).chain(notifies).map(cell).collect()
}

/// Gives the room beyond `row` to the cells in equal parts, and sets them side by side.
fn spread(cells: &mut [CellShape], total: f64, row: f64) {
    let more = (total - row) / cells.len().max(1) as f64;
    let mut x = 0.0;
    for cell in cells {
        cell.x = x;
        cell.width += more;
        x += cell.width;
    }
}

/// The text below the name of a folded cluster.
fn folded_line(nodes: usize, packets: Option<u64>) -> String {
    let nodes = if nodes == 1 { "1 node".into() } else { format!("{nodes} nodes") };
    match packets {
        None => nodes,
        Some(packets) => format!("{nodes} · {} packets", short(packets)),
    }
}

fn line(node: &Node, packets: Option<u64>) -> Option<String> {
    let kind = match &node.kind {
        NodeKind::Table(table) if table.entries.len() == 1 => Some("table, 1 entry".into()),
        NodeKind::Table(table) => Some(format!("table, {} entries", table.entries.len())),
        NodeKind::Config(_) => Some("no value yet".into()),
        _ => None,
    };
    let packets = packets.map(|n| format!("{} packets", short(n)));
    match (kind, packets) {
        (Some(kind), Some(packets)) => Some(format!("{kind} · {packets}")),
        (kind, packets) => kind.or(packets),
    }
}

/// The name of a node's kind, for tooltips.
pub(super) fn kind_words(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Operator(Op::And) => "AND of its operands",
        NodeKind::Operator(Op::Or) => "OR of its operands",
        NodeKind::Operator(Op::Nand) => "NAND of its operands",
        NodeKind::Operator(Op::Nor) => "NOR of its operands",
        NodeKind::Config(_) => "configuration node",
        NodeKind::Table(_) => "table",
        NodeKind::Function if node.has(&Attr::Source) => "source",
        NodeKind::Function if node.has(&Attr::Sink) => "sink",
        NodeKind::Function => "function",
    }
}
