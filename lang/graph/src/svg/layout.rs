//! From levels to the whole picture.

use std::collections::HashMap;

use super::level::{self, End, Placed, Strand};
use super::shape::Shape;
use super::tree::{Item, ROOT, Tree};
use super::wires::{Wire, wires};
use super::{Cell, Extras, WireKind, behind, text};
use crate::{Graph, NodeId};

/// Room inside a cluster's border, and for its name at the top.
const PAD: f64 = 14.0;
const HEADER: f64 = 42.0;
/// Below everything in a cluster, where ways behind nodes may turn.
const FOOT: f64 = 24.0;
/// Size of the letters in a cluster's name.
pub(super) const LABEL: f64 = 12.0;
/// Room around the picture, for the title and for the legend.
const MARGIN: f64 = 24.0;
const TITLE: f64 = 70.0;
/// Where edges arrive at a node they are so far apart, if there is room.
const ARRIVALS: f64 = 9.0;

/// A place in the picture, in pixels from its left upper corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Downwards.
    pub y: f64,
}

/// A box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Left end.
    pub x: f64,
    /// Upper end.
    pub y: f64,
    /// To its right end.
    pub width: f64,
    /// To its lower end.
    pub height: f64,
}

/// The way of an edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The node it starts at.
    pub from: NodeId,
    /// What it starts at there.
    pub cell: Cell,
    /// The node it ends at.
    pub to: NodeId,
    /// What it stands for.
    pub kind: WireKind,
    /// Its first point lies on the lower border of `from`, its last on the upper border of `to`.
    pub points: Vec<Point>,
    /// Whether it goes in right angles and behind nodes, as spawn and notify edges do, and what
    /// leads upwards from a cluster to another. All others go round every node.
    pub behind: bool,
}

/// A cluster's box.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) name: String,
    pub(super) depth: usize,
    pub(super) rect: Rect,
}

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The picture's width.
    pub width: f64,
    /// The picture's height.
    pub height: f64,
    /// By node.
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
    let frame = |(i, cluster): (usize, &super::tree::Cluster)| {
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

pub(super) struct Picture<'a> {
    pub(super) tree: &'a Tree,
    shapes: &'a [Shape],
    wires: &'a [Wire],
    /// By cluster: the wires in it, and the place of each.
    inside: Vec<Vec<usize>>,
    /// By cluster and wire: the position in the list above.
    place: HashMap<(usize, usize), usize>,
    /// By wire: where it leaves, and where it enters, the outermost item yet laid out around its
    /// end, from the item's left end.
    leaves: Vec<f64>,
    enters: Vec<f64>,
    placed: Vec<Placed>,
    /// By cluster, its box.
    sizes: Vec<(f64, f64)>,
    corners: Vec<(f64, f64)>,
    nodes: Vec<Rect>,
}

impl<'a> Picture<'a> {
    fn new(tree: &'a Tree, shapes: &'a [Shape], wires: &'a [Wire]) -> Picture<'a> {
        let count = tree.clusters.len();
        let (mut inside, mut place) = (vec![Vec::new(); count], HashMap::new());
        for (i, wire) in wires.iter().enumerate().filter(|(_, wire)| !wire.free) {
            let out = tree.up(wire.from, wire.common).map(|(cluster, _)| cluster);
            let into = tree.up(wire.to, wire.common).map(|(cluster, _)| cluster);
            for cluster in out.chain([wire.common]).chain(into) {
                place.insert((cluster, i), inside[cluster].len());
                inside[cluster].push(i);
            }
        }
        Picture {
            tree,
            shapes,
            wires,
            inside,
            place,
            leaves: wires.iter().map(|w| shapes[w.from.index()].start(w.cell)).collect(),
            enters: wires.iter().map(|w| shapes[w.to.index()].width / 2.0).collect(),
            placed: (0..count).map(|_| Placed::default()).collect(),
            sizes: vec![(0.0, 0.0); count],
            corners: vec![(0.0, 0.0); count],
            nodes: vec![Rect { x: 0.0, y: 0.0, width: 0.0, height: 0.0 }; shapes.len()],
        }
    }

    /// Lays out the inside of a cluster whose inner clusters are.
    fn lay_out(&mut self, cluster: usize) {
        let items = &self.tree.clusters[cluster].items;
        let sizes: Vec<(f64, f64)> = items.iter().map(|item| self.size(*item)).collect();
        let places: HashMap<Item, usize> = items.iter().copied().zip(0..).collect();
        let strands: Vec<Strand> =
            self.inside[cluster].iter().map(|w| self.strand(cluster, *w, &places)).collect();
        let placed = level::place(&sizes, &strands);
        for ((wire, strand), points) in
            self.inside[cluster].iter().zip(&strands).zip(&placed.strands)
        {
            if let (End::Border, Some(first)) = (strand.from, points.first()) {
                self.enters[*wire] = first.0 + PAD;
            }
            if let (End::Border, Some(last)) = (strand.to, points.last()) {
                self.leaves[*wire] = last.0 + PAD;
            }
        }
        let label = text::width(&self.tree.clusters[cluster].name, LABEL);
        let width = placed.width.max(label) + 2.0 * PAD;
        self.sizes[cluster] = (width, placed.height + HEADER + FOOT);
        self.placed[cluster] = placed;
    }

    fn size(&self, item: Item) -> (f64, f64) {
        match item {
            Item::Cluster(inner) => self.sizes[inner],
            Item::Node(node) => {
                let shape = &self.shapes[node.index()];
                (shape.width, shape.height())
            }
        }
    }

    fn strand(&self, cluster: usize, wire: usize, places: &HashMap<Item, usize>) -> Strand {
        let Wire { from, to, .. } = self.wires[wire];
        // Not there, if the end lies outside.
        let end = |node, at| {
            let item = places.get(&self.tree.item_in(node, cluster));
            item.map_or(End::Border, |item| End::Item(*item, at))
        };
        Strand { from: end(from, self.leaves[wire]), to: end(to, self.enters[wire]) }
    }

    /// Gives everything its place in the picture, outer clusters first.
    fn set_down(&mut self) {
        self.corners[ROOT] = (MARGIN - PAD, TITLE - HEADER);
        for cluster in 0..self.tree.clusters.len() {
            let (left, top) = self.content(cluster);
            let items = self.tree.clusters[cluster].items.iter().zip(&self.placed[cluster].items);
            for (item, (x, y)) in items {
                let corner = (left + x, top + y);
                match item {
                    Item::Cluster(inner) => self.corners[*inner] = corner,
                    Item::Node(node) => {
                        let (width, height) = self.size(*item);
                        self.nodes[node.index()] = Rect { x: corner.0, y: corner.1, width, height };
                    }
                }
            }
        }
    }

    fn content(&self, cluster: usize) -> (f64, f64) {
        let (x, y) = self.corners[cluster];
        (x + PAD, y + HEADER)
    }

    fn route(&self, wire: usize) -> Route {
        let Wire { from, cell, to, .. } = self.wires[wire];
        let way = self.way(wire);
        let (behind, kind) = (way.is_none(), self.wires[wire].kind());
        let points = way.unwrap_or_else(|| {
            let (a, b) = (self.nodes[from.index()], self.nodes[to.index()]);
            let start = a.x + self.shapes[from.index()].start(cell);
            let start = Point { x: start, y: a.y + a.height };
            vec![start, Point { x: b.x + b.width / 2.0, y: b.y }]
        });
        Route { from, cell, to, kind, points, behind }
    }

    /// The box of an item.
    pub(super) fn rect(&self, item: Item) -> Rect {
        match item {
            Item::Node(node) => self.nodes[node.index()],
            Item::Cluster(inner) => {
                let ((x, y), (width, height)) = (self.corners[inner], self.sizes[inner]);
                Rect { x, y, width, height }
            }
        }
    }

    /// Through the clusters it leaves, the one around both ends, and those it enters.
    fn way(&self, wire: usize) -> Option<Vec<Point>> {
        let Wire { from, to, common, free, .. } = self.wires[wire];
        if free {
            return None;
        }
        let out = self.tree.up(from, common).map(|(cluster, _)| cluster);
        let mut into: Vec<usize> = self.tree.up(to, common).map(|(cluster, _)| cluster).collect();
        into.reverse();
        let mut points = Vec::new();
        for cluster in out.chain([common]).chain(into) {
            let (left, top) = self.content(cluster);
            let piece = &self.placed[cluster].strands[self.place[&(cluster, wire)]];
            if piece.is_empty() {
                return None;
            }
            points.extend(piece.iter().map(|(x, y)| Point { x: left + x, y: top + y }));
        }
        Some(points)
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
