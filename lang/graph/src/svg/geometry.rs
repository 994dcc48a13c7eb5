//! Places, boxes and ways in a picture, and ways as SVG paths.

use std::fmt::Write;

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

/// Two points are above each other if they are no further to the side than this.
const UPRIGHT: f64 = 0.6;
/// The radius of corners.
const RADIUS: f64 = 8.0;

/// A number with one decimal at most.
pub(super) fn number(value: f64) -> String {
    let tenths = (value * 10.0).round() as i64;
    let sign = if tenths < 0 { "-" } else { "" };
    match (tenths.abs() / 10, tenths.abs() % 10) {
        (whole, 0) => format!("{sign}{whole}"),
        (whole, rest) => format!("{sign}{whole}.{rest}"),
    }
}

/// The path of a route.
pub(super) fn path(route: &Route) -> String {
    if route.behind { angular(&route.points) } else { through(&route.points) }
}

/// Straight down, and to the side in the gaps between layers.
fn through(points: &[Point]) -> String {
    let mut path = format!("M{} {}", number(points[0].x), number(points[0].y));
    let mut at = points[0];
    for (i, next) in points.iter().enumerate().skip(1) {
        if (next.x - at.x).abs() <= UPRIGHT {
            // One line for all that follow straight below.
            let goes_on = points.get(i + 1).is_some_and(|p| (p.x - at.x).abs() <= UPRIGHT);
            if !goes_on && next.y > at.y {
                let _ = write!(path, "L{} {}", number(next.x), number(next.y));
            } else if goes_on {
                continue;
            }
        } else {
            let middle = (at.y + next.y) / 2.0;
            let (x0, x1, y1) = (number(at.x), number(next.x), number(next.y));
            let middle = number(middle);
            let _ = write!(path, "C{x0} {middle} {x1} {middle} {x1} {y1}");
        }
        at = *next;
    }
    path
}

/// From point to point in straight lines, with round corners.
fn angular(points: &[Point]) -> String {
    let mut path = format!("M{} {}", number(points[0].x), number(points[0].y));
    for corner in points.windows(3) {
        let (before, at, after) = (corner[0], corner[1], corner[2]);
        let reach = RADIUS.min(distance(before, at) / 2.0).min(distance(at, after) / 2.0);
        let (into, out) = (towards(at, before, reach), towards(at, after, reach));
        let [ix, iy, x, y, ox, oy] = [into.x, into.y, at.x, at.y, out.x, out.y].map(number);
        let _ = write!(path, "L{ix} {iy}Q{x} {y} {ox} {oy}");
    }
    if let Some(end) = points.last() {
        let _ = write!(path, "L{} {}", number(end.x), number(end.y));
    }
    path
}

fn distance(a: Point, b: Point) -> f64 {
    (a.x - b.x).hypot(a.y - b.y)
}

/// The point that is `reach` away from `from`, in the direction of `to`.
fn towards(from: Point, to: Point, reach: f64) -> Point {
    let far = distance(from, to);
    let share = if far == 0.0 { 0.0 } else { reach / far };
    Point { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(1.0, "1"), (1.25, "1.3"), (-0.04, "0"), (-0.5, "-0.5"), (1234.56, "1234.6")]
        {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn points_below_each_other_are_one_line() {
        let points = [(0.0, 0.0), (0.0, 5.0), (0.2, 9.0), (8.0, 20.0), (8.0, 30.0)];
        let points = points.map(|(x, y)| Point { x, y });
        assert_eq!(through(&points), "M0 0L0.2 9C0.2 14.5 8 14.5 8 20L8 30");
    }
}
