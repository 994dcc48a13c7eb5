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
//! picture places of a cluster's inside become places in the picture
//! layout  the same with the ways of all edges
//! draw    text
//! ```
//!
//! The method is Sugiyama's, applied to a level of the tree at a time. Equal graphs give equal
//! pictures, byte for byte.

mod behind;
mod draw;
mod extras;
mod fold;
mod geometry;
mod layout;
mod level;
mod order;
mod picture;
mod place;
mod rank;
mod shape;
mod text;
mod wires;

#[cfg(test)]
mod tests;

pub use extras::Extras;
pub use fold::{EVERY, UnknownCluster};
pub use geometry::{Point, Rect, Route};
pub use layout::{Layout, layout};
pub use wires::{Cell, WireKind};

use crate::{Graph, PortId};

/// Draws the whole of `graph`.
pub fn svg(graph: &Graph) -> String {
    svg_with(graph, &Extras::default())
}

/// Draws the whole of `graph` with the text of `extras`.
pub fn svg_with(graph: &Graph, extras: &Extras) -> String {
    draw::draw(graph, extras, &layout(graph, extras))
}

/// Draws `graph` with its innermost clusters as single boxes, but for those in `unfold`, which are
/// named in full, as in `RxL4UDP`, or by their own name alone; [`EVERY`] unfolds all. The counts of
/// `extras` are summed: the packets that came into a cluster, left it for each other place, and were
/// dropped inside.
///
/// # Errors
/// When a name in `unfold` is of no such cluster.
pub fn svg_folded(
    graph: &Graph,
    extras: &Extras,
    unfold: &[String],
) -> Result<String, UnknownCluster> {
    fold::check(graph, unfold)?;
    let folded = fold::fold(graph, unfold);
    let node = |id| folded.node(graph, extras, id);
    let port = |id: PortId| folded.cell(extras, id.node, Cell::Port(id.port as usize));
    let spawn = |id, edge| folded.cell(extras, id, Cell::Spawn(edge));
    let condition = |id| folded.condition(extras, id);
    let inside = |id| folded.inside(id);
    let extras = Extras {
        node: extras.node.is_some().then_some(&node),
        port: extras.port.is_some().then_some(&port),
        spawn: extras.spawn.is_some().then_some(&spawn),
        condition: Some(&condition),
        folded: Some(&inside),
    };
    Ok(svg_with(&folded.graph, &extras))
}
