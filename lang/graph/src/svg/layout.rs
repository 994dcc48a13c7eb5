//! From levels to the whole picture.

use super::behind;
use super::extras::Extras;
use super::geometry::{Rect, Route};
use super::picture::{FOOT, HEADER, MARGIN, PAD, Picture, TITLE};
use super::shape::Shape;
use super::wires::wires;
use super::wires::{Cluster, Item, ROOT, Tree};
use crate::Graph;

/// The distance between edges that arrive at a node, if there is room.
const ARRIVALS: f64 = 9.0;

/// A cluster's box.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) name: String,
    pub(super) depth: usize,
    pub(super) rect: Rect,
}

/// The places of all parts of the picture.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The picture's width.
    pub width: f64,
    /// The picture's height.
    pub height: f64,
    /// The boxes of the nodes.
    pub nodes: Vec<Rect>,
    /// Edges: ports' in the order of the graph, a node's spawn and notify edges after them.
    pub routes: Vec<Route>,
    pub(super) frames: Vec<Frame>,
    pub(super) shapes: Vec<Shape>,
}

impl Layout {
    /// The boxes of clusters, an inner one behind those around it.
    pub fn clusters(&self) -> impl Iterator<Item = (&str, Rect)> {
        self.frames.iter().map(|frame| (frame.name.as_str(), frame.rect))
    }
}

/// Finds a place for everything. Takes time about linear in nodes and edges; allocates.
pub fn layout(graph: &Graph, extras: &Extras) -> Layout {
    let shapes: Vec<Shape> = graph.iter().map(|(id, _)| Shape::new(graph, id, extras)).collect();
    let tree = Tree::new(graph);
    let wires = wires(graph, &tree);
    let mut picture = Picture::new(&tree, &shapes, &wires);
    for cluster in (0..tree.clusters.len()).rev() {
        picture.lay_out(cluster);
    }
    picture.set_down();
    let mut routes: Vec<Route> = (0..wires.len()).map(|wire| picture.route(wire)).collect();
    behind::lead(&mut routes, &wires, &picture);
    spread_arrivals(&mut routes, &picture.nodes);
    let root = picture.sizes[ROOT];
    let frame = |(i, cluster): (usize, &Cluster)| {
        let rect = picture.rect(Item::Cluster(i));
        Frame { name: cluster.name.clone(), depth: cluster.depth, rect }
    };
    let frames = tree.clusters.iter().enumerate().skip(1).map(frame).collect();
    Layout {
        width: (root.0 + 2.0 * (MARGIN - PAD)).ceil(),
        height: (TITLE - HEADER + root.1 + MARGIN - FOOT).ceil(),
        nodes: picture.nodes,
        routes,
        frames,
        shapes,
    }
}

/// Sets the edges that arrive at a node side by side, in the order in which they come.
fn spread_arrivals(routes: &mut [Route], nodes: &[Rect]) {
    let mut by_node: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (i, route) in routes.iter().enumerate() {
        by_node[route.to.index()].push(i);
    }
    for (rect, mut arrivals) in nodes.iter().zip(by_node) {
        let side = |i: &usize| {
            let Route { points, behind, .. } = &routes[*i];
            points[points.len() - if *behind { 3 } else { 2 }].x
        };
        arrivals.sort_by(|a, b| side(a).total_cmp(&side(b)));
        let room = (rect.width - 24.0).max(0.0);
        let steps = arrivals.len().saturating_sub(1) as f64;
        let step = if steps == 0.0 { 0.0 } else { ARRIVALS.min(room / steps) };
        for (place, i) in arrivals.into_iter().enumerate() {
            let x = rect.x + rect.width / 2.0 + step * (place as f64 - steps / 2.0);
            let Route { points, behind, .. } = &mut routes[i];
            let moved = if *behind { 2 } else { 1 };
            points.iter_mut().rev().take(moved).for_each(|point| point.x = x);
        }
    }
}
