//! Additional text in a picture: counters and conditions, from the caller.

use super::wires::Cell;
use crate::{NodeId, PortId};

/// Additional text in a picture.
#[derive(Default)]
pub struct Extras<'a> {
    /// How many packets reached a node.
    pub node: Option<&'a dyn Fn(NodeId) -> Option<u64>>,
    /// How many packets left by a port.
    pub port: Option<&'a dyn Fn(PortId) -> Option<u64>>,
    /// How many tasks a spawn edge started; the edge by its position in the node.
    pub spawn: Option<&'a dyn Fn(NodeId, usize) -> Option<u64>>,
    /// The condition on packets that leave by a port, in words.
    pub condition: Option<&'a dyn Fn(PortId) -> Option<String>>,
    /// The number of nodes in a box, if it is a folded cluster. [`svg_folded`](super::svg_folded) sets
    /// it itself.
    pub folded: Option<&'a dyn Fn(NodeId) -> Option<usize>>,
}

impl Extras<'_> {
    /// Whether the picture has counters: then the width of a line shows its traffic.
    pub(super) fn counted(&self) -> bool {
        self.node.is_some() || self.port.is_some() || self.spawn.is_some()
    }

    pub(super) fn folded(&self, id: NodeId) -> Option<usize> {
        self.folded.and_then(|inside| inside(id))
    }

    pub(super) fn node(&self, id: NodeId) -> Option<u64> {
        self.node.and_then(|count| count(id))
    }

    pub(super) fn cell(&self, node: NodeId, cell: Cell) -> Option<u64> {
        match cell {
            Cell::Port(port) => self.port.and_then(|n| n(PortId { node, port: port as u32 })),
            Cell::Spawn(edge) => self.spawn.and_then(|count| count(node, edge)),
            Cell::Notify(_) => None,
        }
    }
}
