//! The places of clusters and nodes: inner clusters are laid out first, and then everything gets its
//! place from the outside in.

use std::collections::HashMap;

use super::geometry::{Point, Rect, Route};
use super::level::{EdgeSegment, End, LaidOutLevel};
use super::shape::Shape;
use super::wires::Wire;
use super::wires::{Item, ROOT, Tree};
use super::{place, text};

/// Room inside a cluster's border, and for its name at the top.
pub(super) const PAD: f64 = 14.0;
pub(super) const HEADER: f64 = 42.0;
/// Below everything in a cluster, where ways behind nodes may turn.
pub(super) const FOOT: f64 = 24.0;
/// Size of the letters in a cluster's name.
pub(super) const LABEL: f64 = 12.0;
/// Room around the picture, for the title and for the legend.
pub(super) const MARGIN: f64 = 24.0;
pub(super) const TITLE: f64 = 70.0;
/// A picture while its places are found.
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
    placed: Vec<LaidOutLevel>,
    /// The size of each cluster's box.
    pub(super) sizes: Vec<(f64, f64)>,
    corners: Vec<(f64, f64)>,
    pub(super) nodes: Vec<Rect>,
}

impl<'a> Picture<'a> {
    pub(super) fn new(tree: &'a Tree, shapes: &'a [Shape], wires: &'a [Wire]) -> Picture<'a> {
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
            placed: (0..count).map(|_| LaidOutLevel::default()).collect(),
            sizes: vec![(0.0, 0.0); count],
            corners: vec![(0.0, 0.0); count],
            nodes: vec![Rect { x: 0.0, y: 0.0, width: 0.0, height: 0.0 }; shapes.len()],
        }
    }

    /// Lays out the inside of a cluster after its inner clusters.
    pub(super) fn lay_out(&mut self, cluster: usize) {
        let items = &self.tree.clusters[cluster].items;
        let sizes: Vec<(f64, f64)> = items.iter().map(|item| self.size(*item)).collect();
        let places: HashMap<Item, usize> = items.iter().copied().zip(0..).collect();
        let strands: Vec<EdgeSegment> =
            self.inside[cluster].iter().map(|w| self.strand(cluster, *w, &places)).collect();
        let placed = place::place(&sizes, &strands);
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

    fn strand(&self, cluster: usize, wire: usize, places: &HashMap<Item, usize>) -> EdgeSegment {
        let Wire { from, to, .. } = self.wires[wire];
        // Not there, if the end lies outside.
        let end = |node, at| {
            let item = places.get(&self.tree.item_in(node, cluster));
            item.map_or(End::Border, |item| End::Item(*item, at))
        };
        EdgeSegment { from: end(from, self.leaves[wire]), to: end(to, self.enters[wire]) }
    }

    /// Gives everything its place in the picture, outer clusters first.
    pub(super) fn set_down(&mut self) {
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

    pub(super) fn route(&self, wire: usize) -> Route {
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
