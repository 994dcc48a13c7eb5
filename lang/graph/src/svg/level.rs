//! One cluster's inside: vertices in layers, joined by segments from a layer to the next.
//!
//! An edge that passes a layer, enters the cluster or leaves it has a bend there: a vertex with
//! hardly any width, which keeps room for it.

use super::rank;

/// Room between two boxes side by side.
const BOX_GAP: f64 = 20.0;
/// The same beside a box taller than any node, which is a cluster: ways go up and down there.
const WIDE_GAP: f64 = 34.0;
const TALL: f64 = 70.0;
/// Room between a line and its neighbour.
const LINE_GAP: f64 = 9.0;
/// Room between two layers, at least and at most.
const LAYER_GAP: (f64, f64) = (26.0, 84.0);
/// More vertices than this are not worth a careful layout: such a picture is unreadable.
const MOST_BENDS: usize = 150_000;

/// One end of a strand.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// An end at an item (by its position), at this distance from its left end.
    Item(usize, f64),
    /// An end at the cluster's border.
    Border,
}

/// A piece of an edge within one cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeSegment {
    pub(super) from: End,
    pub(super) to: End,
}

#[derive(Clone, Debug)]
pub(super) struct Vertex {
    pub(super) bend: bool,
    pub(super) layer: usize,
    pub(super) width: f64,
    pub(super) height: f64,
    /// The x of its left end.
    pub(super) x: f64,
    /// The room that it needs on each side.
    room: f64,
}

/// A line from a vertex to one in the next layer; `…_at` is the distance from its left end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) upper: usize,
    pub(super) upper_at: f64,
    pub(super) lower: usize,
    pub(super) lower_at: f64,
}

/// The inside of a cluster while it is laid out.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) vertices: Vec<Vertex>,
    /// Vertices by layer, from left to right.
    pub(super) layers: Vec<Vec<usize>>,
    pub(super) segments: Vec<Segment>,
    /// Segments by their lower and by their upper vertex.
    pub(super) above: Vec<Vec<usize>>,
    pub(super) below: Vec<Vec<usize>>,
    /// By strand: its vertices from top to bottom; empty for an abandoned strand.
    chains: Vec<Vec<usize>>,
}

/// A finished level.
#[derive(Debug, Default)]
pub(super) struct LaidOutLevel {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The upper left corner of each item.
    pub(super) items: Vec<(f64, f64)>,
    /// By strand: points to go through, from top to bottom, its two ends included; empty for one
    /// that was given up.
    pub(super) strands: Vec<Vec<(f64, f64)>>,
}

impl Level {
    pub(super) fn new(items: &[(f64, f64)], strands: &[EdgeSegment]) -> Level {
        let (mut edges, mut entered, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for strand in strands {
            match (strand.from, strand.to) {
                (End::Item(a, _), End::Item(b, _)) => edges.push((a, b)),
                (End::Border, End::Item(b, _)) => entered.push(b),
                (End::Item(a, _), End::Border) => left.push(a),
                (End::Border, End::Border) => {}
            }
        }
        let first = usize::from(!entered.is_empty());
        let layer = rank::layers(items.len(), &edges, &entered, &left);
        let deepest = layer.iter().max().map_or(0, |deepest| deepest + 1);
        let count = first + deepest + usize::from(!left.is_empty());
        let mut level = Level { layers: vec![Vec::new(); count], ..Level::default() };
        for ((width, height), layer) in items.iter().zip(layer) {
            level.add(false, layer + first, *width, *height);
        }
        for strand in strands {
            level.thread(*strand, count.saturating_sub(1));
        }
        level.index();
        level
    }

    fn add(&mut self, bend: bool, layer: usize, width: f64, height: f64) -> usize {
        let id = self.vertices.len();
        let room = if height > TALL { WIDE_GAP } else { BOX_GAP };
        self.vertices.push(Vertex { bend, layer, width, height, x: 0.0, room });
        self.layers[layer].push(id);
        id
    }

    /// Adds the bends of a strand: one in every layer between its ends, and at the border.
    fn thread(&mut self, strand: EdgeSegment, last: usize) {
        let start = match strand.from {
            End::Item(item, at) => Some((item, at)),
            End::Border => None,
        };
        let (end, bottom) = match strand.to {
            End::Item(item, at) => (Some((item, at)), self.vertices[item].layer),
            End::Border => (None, last + 1),
        };
        let top = start.map_or(0, |(item, _)| self.vertices[item].layer + 1);
        if self.vertices.len() + bottom.saturating_sub(top) > MOST_BENDS {
            self.chains.push(Vec::new());
            return;
        }
        let mut stops: Vec<(usize, f64)> = start.into_iter().collect();
        stops.extend((top..bottom).map(|layer| (self.add(true, layer, 0.0, 0.0), 0.0)));
        stops.extend(end);
        for pair in stops.windows(2) {
            let ((upper, upper_at), (lower, lower_at)) = (pair[0], pair[1]);
            self.segments.push(Segment { upper, upper_at, lower, lower_at });
        }
        self.chains.push(stops.into_iter().map(|(vertex, _)| vertex).collect());
    }

    fn index(&mut self) {
        self.above = vec![Vec::new(); self.vertices.len()];
        self.below = vec![Vec::new(); self.vertices.len()];
        for (i, segment) in self.segments.iter().enumerate() {
            self.above[segment.lower].push(i);
            self.below[segment.upper].push(i);
        }
    }

    /// How far apart two neighbours in a layer must be.
    pub(super) fn gap(&self, left: usize, right: usize) -> f64 {
        let (left, right) = (&self.vertices[left], &self.vertices[right]);
        if left.bend || right.bend { LINE_GAP } else { left.room.max(right.room) }
    }

    /// Sets each layer's vertices side by side, around 0.
    pub(super) fn pack(&mut self) {
        for layer in 0..self.layers.len() {
            self.pack_layer(layer);
        }
    }

    pub(super) fn pack_layer(&mut self, layer: usize) {
        let offsets = self.offsets(layer);
        let width = match (offsets.last(), self.layers[layer].last()) {
            (Some(offset), Some(v)) => offset + self.vertices[*v].width,
            _ => return,
        };
        for (place, offset) in offsets.into_iter().enumerate() {
            let vertex = self.layers[layer][place];
            self.vertices[vertex].x = offset - width / 2.0;
        }
    }

    /// The least distance of each vertex of a layer from the first.
    pub(super) fn offsets(&self, layer: usize) -> Vec<f64> {
        let members = &self.layers[layer];
        let mut offset = 0.0;
        let mut offsets = Vec::with_capacity(members.len());
        for (i, vertex) in members.iter().enumerate() {
            offsets.push(offset);
            if let Some(next) = members.get(i + 1) {
                offset += self.vertices[*vertex].width + self.gap(*vertex, *next);
            }
        }
        offsets
    }

    pub(super) fn finish(self, items: usize, strands: &[EdgeSegment]) -> LaidOutLevel {
        let left = self.vertices.iter().map(|v| v.x).fold(f64::INFINITY, f64::min);
        let right = self.vertices.iter().map(|v| v.x + v.width).fold(f64::NEG_INFINITY, f64::max);
        let (tops, bottoms) = self.heights();
        let vertex = |id: usize| (self.vertices[id].x - left, tops[self.vertices[id].layer]);
        let pairs = self.chains.iter().zip(strands);
        let strand = |(chain, strand): (&Vec<usize>, &EdgeSegment)| {
            let mut points = Vec::new();
            for (i, id) in chain.iter().enumerate() {
                let (x, top) = vertex(*id);
                let layer = self.vertices[*id].layer;
                match (i, strand.from, strand.to) {
                    (0, End::Item(_, at), _) => {
                        points.push((x + at, top + self.vertices[*id].height));
                        points.push((x + at, bottoms[layer]));
                    }
                    (_, _, End::Item(_, at)) if i + 1 == chain.len() => points.push((x + at, top)),
                    _ => points.extend([(x, top), (x, bottoms[layer])]),
                }
            }
            points
        };
        LaidOutLevel {
            width: if items == 0 { 0.0 } else { right - left },
            height: bottoms.last().copied().unwrap_or(0.0),
            items: (0..items).map(vertex).collect(),
            strands: pairs.map(strand).collect(),
        }
    }

    /// Where each layer begins and ends. There is more room where lines go far to the side.
    fn heights(&self) -> (Vec<f64>, Vec<f64>) {
        let mut shift = vec![0.0f64; self.layers.len()];
        for Segment { upper, upper_at, lower, lower_at } in &self.segments {
            let (a, b) = (&self.vertices[*upper], &self.vertices[*lower]);
            let far = (a.x + upper_at - b.x - lower_at).abs();
            shift[a.layer] = shift[a.layer].max(far);
        }
        let (mut tops, mut bottoms, mut y) = (Vec::new(), Vec::new(), 0.0);
        for (layer, members) in self.layers.iter().enumerate() {
            tops.push(y);
            y += members.iter().map(|v| self.vertices[*v].height).fold(0.0, f64::max);
            bottoms.push(y);
            y += (LAYER_GAP.0 + shift[layer] * 0.09).min(LAYER_GAP.1).round();
        }
        (tops, bottoms)
    }
}
