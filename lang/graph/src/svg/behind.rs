//! Ways in right angles, behind the nodes: down a little, to a gutter, along it, and to the target
//! from above.

use std::collections::HashMap;

use super::geometry::{Point, Rect, Route};
use super::picture::Picture;
use super::wires::Item;
use super::wires::Wire;

/// The distance below and above nodes at which these ways turn, and between turns near to each other.
const TURN: f64 = 12.0;
const STAGGER: f64 = 3.5;
/// The number of lanes.
const LANES: usize = 4;
/// How far from a box its gutter is.
const BESIDE: f64 = 11.0;
/// How far apart ways in one gutter are.
const LANE: f64 = 4.5;

/// Gives every route that goes behind nodes its points.
pub(super) fn lead(routes: &mut [Route], wires: &[Wire], picture: &Picture<'_>) {
    let mut used: HashMap<(i64, i64), usize> = HashMap::new();
    for (route, wire) in routes.iter_mut().zip(wires).filter(|(route, _)| route.behind) {
        let (start, end) = (route.points[0], route.points[1]);
        let (gutter, outward) = gutter(wire, picture);
        // Ways that share a gutter take lanes in it.
        let lane = used.entry((gutter.round() as i64, outward as i64)).or_default();
        let x = gutter + outward * LANE * (*lane % LANES) as f64;
        let turn = TURN + STAGGER * (*lane % LANES) as f64;
        *lane += 1;
        let (low, high) = (start.y + turn, end.y - turn);
        route.points = vec![
            start,
            Point { x: start.x, y: low },
            Point { x, y: low },
            Point { x, y: high },
            Point { x: end.x, y: high },
            end,
        ];
    }
}

/// Where a wire goes up or down, and to which side of it there is more room.
fn gutter(wire: &Wire, picture: &Picture<'_>) -> (f64, f64) {
    let item = |node| picture.tree.item_in(node, wire.common);
    let (a, b) = (item(wire.from), item(wire.to));
    let (from, to) = (picture.rect(a), picture.rect(b));
    let clusters = matches!((a, b), (Item::Cluster(_), Item::Cluster(_)));
    if a == b || (clusters && right(from) <= to.x) {
        (right(from) + BESIDE / 2.0, 1.0)
    } else if clusters && right(to) <= from.x {
        (from.x - BESIDE / 2.0, -1.0)
    } else {
        // Beside the target, on the side it is come from.
        let node = picture.rect(Item::Node(wire.to));
        let source = picture.rect(Item::Node(wire.from));
        if source.x + source.width / 2.0 <= node.x + node.width / 2.0 {
            (node.x - BESIDE / 2.0, -1.0)
        } else {
            (right(node) + BESIDE / 2.0, 1.0)
        }
    }
}

fn right(rect: Rect) -> f64 {
    rect.x + rect.width
}
