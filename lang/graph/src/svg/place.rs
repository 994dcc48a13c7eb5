//! Where vertices stand within their layers: as near as may be to their neighbours above and
//! below, in the order they have, without overlap.
//!
//! For one layer that is least squares with an order to be kept, which pooling of adjacent
//! violators solves exactly; layers take turns.

use super::level::{EdgeSegment, LaidOutLevel, Level, Segment};
use super::order::{lower_x, reduce_crossings, upper_x};

const SWEEPS: usize = 28;
/// The budget of steps, as in `order`.
const BUDGET: usize = 4_000_000;
/// A vertex without neighbours stays where it is, if the position is free.
const IDLE: f64 = 0.05;

/// Lays out items of these sizes (width, height), joined by `strands`.
pub(super) fn place(items: &[(f64, f64)], strands: &[EdgeSegment]) -> LaidOutLevel {
    let mut level = Level::new(items, strands);
    reduce_crossings(&mut level);
    straighten(&mut level);
    level.finish(items.len(), strands)
}

/// Moves the vertices of `level` apart and into line.
fn straighten(level: &mut Level) {
    let sweeps = (BUDGET / level.segments.len().max(1)).clamp(3, SWEEPS);
    let count = level.layers.len();
    for sweep in 0..sweeps {
        let last = sweep + 6 >= sweeps;
        for step in 0..count {
            let (layer, down) =
                if sweep % 2 == 0 { (step, true) } else { (count - 1 - step, false) };
            settle(level, layer, down || last, !down || last);
        }
    }
}

fn settle(level: &mut Level, layer: usize, above: bool, below: bool) {
    let offsets = level.offsets(layer);
    let wishes: Vec<(f64, f64)> =
        level.layers[layer].iter().map(|v| wish(level, *v, above, below)).collect();
    let shifted = wishes.iter().zip(&offsets).map(|((x, weight), offset)| (x - offset, *weight));
    let places = isotonic(shifted);
    for (i, place) in places.into_iter().enumerate() {
        let vertex = level.layers[layer][i];
        level.vertices[vertex].x = place + offsets[i];
    }
}

/// Where a vertex would like its left end, and how much.
fn wish(level: &Level, vertex: usize, above: bool, below: bool) -> (f64, f64) {
    let (mut sum, mut total) = (0.0, 0.0);
    if above {
        for segment in level.above[vertex].iter().map(|s| &level.segments[*s]) {
            let weight = weight(level, segment);
            sum += weight * (upper_x(level, segment) - segment.lower_at);
            total += weight;
        }
    }
    if below {
        for segment in level.below[vertex].iter().map(|s| &level.segments[*s]) {
            let weight = weight(level, segment);
            sum += weight * (lower_x(level, segment) - segment.upper_at);
            total += weight;
        }
    }
    if total == 0.0 { (level.vertices[vertex].x, IDLE) } else { (sum / total, total) }
}

/// Long lines are to be straight before short ones.
fn weight(level: &Level, segment: &Segment) -> f64 {
    match (level.vertices[segment.upper].bend, level.vertices[segment.lower].bend) {
        (true, true) => 8.0,
        (false, false) => 1.0,
        _ => 2.0,
    }
}

/// The values in rising order that are nearest to those wanted (value, weight), by the sum of
/// weighted squares.
fn isotonic(wanted: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (value, weight) in wanted {
        let mut block = (value, weight, 1);
        while let Some((before, heavy, many)) = blocks.last().copied().filter(|b| b.0 > block.0) {
            blocks.pop();
            let total = heavy + block.1;
            block = ((before * heavy + block.0 * block.1) / total, total, many + block.2);
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(value, _, many)| std::iter::repeat_n(value, many)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::level::End;

    #[test]
    fn what_is_in_order_stays_and_the_rest_meets() {
        let even = |values: &[f64]| isotonic(values.iter().map(|v| (*v, 1.0)));
        assert_eq!(even(&[1.0, 2.0, 5.0]), [1.0, 2.0, 5.0]);
        assert_eq!(even(&[3.0, 1.0, 2.0, 9.0]), [2.0, 2.0, 2.0, 9.0]);
        assert_eq!(isotonic([(4.0, 3.0), (0.0, 1.0)].into_iter()), [3.0, 3.0]);
    }

    #[test]
    fn what_can_be_untangled_is() {
        // Two rows of four, joined in the opposite order.
        let items = [(40.0, 20.0); 8];
        let strand = |i| EdgeSegment { from: End::Item(i, 20.0), to: End::Item(7 - i, 20.0) };
        let placed = place(&items, &[0, 1, 2, 3].map(strand));
        let uprights = placed.strands.iter().filter(|s| (s[0].0 - s[s.len() - 1].0).abs() < 0.5);
        assert_eq!(uprights.count(), 4, "{:?}", placed.strands);
    }
}
