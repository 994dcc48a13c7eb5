//! Places, boxes and ways in a picture.

use super::wires::{Cell, WireKind};
use crate::NodeId;

/// A place in the picture, in pixels from its left upper corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The horizontal position, growing to the right.
    pub x: f64,
    /// The vertical position, growing downwards.
    pub y: f64,
}

/// A box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Left end.
    pub x: f64,
    /// Upper end.
    pub y: f64,
    /// The width, to its right end.
    pub width: f64,
    /// The height, to its lower end.
    pub height: f64,
}

/// The way of an edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The node it starts at.
    pub from: NodeId,
    /// The cell of that node at which it starts.
    pub cell: Cell,
    /// The node it ends at.
    pub to: NodeId,
    /// The kind of edge that it shows.
    pub kind: WireKind,
    /// Its first point lies on the lower border of `from`, its last on the upper border of `to`.
    pub points: Vec<Point>,
    /// Whether it goes in right angles and behind nodes, as spawn and notify edges do, and edges that
    /// lead upwards from a cluster to another. All others go round every node.
    pub behind: bool,
}
