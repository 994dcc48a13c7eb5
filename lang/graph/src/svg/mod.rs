//! A graph as a picture in SVG, laid out here: nothing else has to be installed.
//!
//! Packets fall from top to bottom. Nodes stand in layers within the box of their cluster, and a
//! cluster stands like one large node within the box around it, so boxes nest and never overlap.
//! The way a graph takes:
//!
//! ```text
//! shapes  how large each node is, and where its ports are       (shape)
//! tree    which cluster lies in which                           (tree)
//! wires   every edge, and the clusters it leaves and enters     (wires)
//! level   per cluster, inner ones first: layers (rank), fewer crossings (order),
//!         places (place)                                        (level)
//! layout  places of a cluster's inside become places in the picture
//! draw    text
//! ```
//!
//! The method is Sugiyama's, applied to a level of the tree at a time. Equal graphs give equal
//! pictures, byte for byte.

mod behind;
mod draw;
mod layout;
mod level;
mod order;
mod path;
mod place;
mod rank;
mod shape;
mod style;
mod text;
mod tree;
mod wires;

#[cfg(test)]
mod tests;

pub use layout::{Layout, Point, Rect, Route, layout};
pub use wires::{Cell, WireKind};

use crate::{Graph, NodeId, PortId};

/// What a picture says beyond the graph itself.
#[derive(Default)]
pub struct Extras<'a> {
    /// How many packets reached a node.
    pub node: Option<&'a dyn Fn(NodeId) -> Option<u64>>,
    /// How many packets left by a port.
    pub port: Option<&'a dyn Fn(PortId) -> Option<u64>>,
    /// How many tasks a spawn edge started; the edge by its position in the node.
    pub spawn: Option<&'a dyn Fn(NodeId, usize) -> Option<u64>>,
    /// What holds of packets that leave by a port, in words.
    pub condition: Option<&'a dyn Fn(PortId) -> Option<String>>,
}

impl Extras<'_> {
    /// Whether the picture has counters: then the width of a line says how much went along it.
    fn counted(&self) -> bool {
        self.node.is_some() || self.port.is_some() || self.spawn.is_some()
    }

    fn node(&self, id: NodeId) -> Option<u64> {
        self.node.and_then(|count| count(id))
    }

    fn cell(&self, node: NodeId, cell: Cell) -> Option<u64> {
        match cell {
            Cell::Port(port) => self.port.and_then(|n| n(PortId { node, port: port as u32 })),
            Cell::Spawn(edge) => self.spawn.and_then(|count| count(node, edge)),
            Cell::Notify(_) => None,
        }
    }
}

/// Draws `graph`.
pub fn svg(graph: &Graph) -> String {
    svg_with(graph, &Extras::default())
}

/// Draws `graph` with what `extras` say.
pub fn svg_with(graph: &Graph, extras: &Extras) -> String {
    draw::draw(graph, extras, &layout(graph, extras))
}
