//! The order within layers, with few crossings: barycentre sweeps, then exchanges of neighbours.

use super::level::{Level, Segment};

const SWEEPS: usize = 16;
const ROUNDS: usize = 4;
/// Segments that may be looked at in all sweeps together, so that a large graph takes no longer
/// than one is ready to wait.
const BUDGET: usize = 3_000_000;
/// Two neighbours with more pairs of segments than this are left as they are.
const MOST_PAIRS: usize = 4_096;

/// Orders the layers of `level`, and packs them.
pub(super) fn reduce_crossings(level: &mut Level) {
    level.pack();
    let sweeps = (BUDGET / level.segments.len().max(1)).clamp(2, SWEEPS);
    let mut best = (crossings(level), level.layers.clone());
    for sweep in 0..sweeps {
        sweep_once(level, sweep % 2 == 0);
        if sweep % 4 >= 2 {
            exchange(level);
        }
        let now = crossings(level);
        if now < best.0 {
            best = (now, level.layers.clone());
        }
        if best.0 == 0 {
            break;
        }
    }
    level.layers = best.1;
    level.pack();
    for _ in 0..ROUNDS {
        if !exchange(level) {
            break;
        }
    }
}

fn sweep_once(level: &mut Level, down: bool) {
    let count = level.layers.len();
    for step in 1..count {
        let layer = if down { step } else { count - 1 - step };
        let members = std::mem::take(&mut level.layers[layer]);
        let mut keyed: Vec<(f64, usize)> =
            members.into_iter().map(|v| (barycentre(level, v, down), v)).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        level.layers[layer] = keyed.into_iter().map(|(_, v)| v).collect();
        level.pack_layer(layer);
    }
}

/// Where the vertex would like its middle to be, or where it is.
fn barycentre(level: &Level, vertex: usize, down: bool) -> f64 {
    let near = if down { &level.above[vertex] } else { &level.below[vertex] };
    let v = &level.vertices[vertex];
    if near.is_empty() {
        return v.x + v.width / 2.0;
    }
    let pulls = near.iter().map(|s| {
        let s = &level.segments[*s];
        // Where the vertex's middle would be if this segment were upright.
        if down { upper_x(level, s) - s.lower_at } else { lower_x(level, s) - s.upper_at }
    });
    pulls.sum::<f64>() / near.len() as f64 + v.width / 2.0
}

pub(super) fn upper_x(level: &Level, segment: &Segment) -> f64 {
    level.vertices[segment.upper].x + segment.upper_at
}

pub(super) fn lower_x(level: &Level, segment: &Segment) -> f64 {
    level.vertices[segment.lower].x + segment.lower_at
}

/// How many pairs of segments cross.
pub(super) fn crossings(level: &Level) -> u64 {
    let mut gaps: Vec<Vec<(f64, f64)>> = vec![Vec::new(); level.layers.len()];
    for segment in &level.segments {
        let layer = level.vertices[segment.upper].layer;
        gaps[layer].push((upper_x(level, segment), lower_x(level, segment)));
    }
    let inside = |mut lines: Vec<(f64, f64)>| {
        lines.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut ends: Vec<f64> = lines.into_iter().map(|line| line.1).collect();
        inversions(&mut ends)
    };
    gaps.into_iter().map(inside).sum()
}

/// Sorts, and returns the number of pairs that were in the wrong order.
fn inversions(values: &mut [f64]) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let (left, right) = values.split_at_mut(values.len() / 2);
    let mut count = inversions(left) + inversions(right);
    let (mut merged, mut l, mut r) = (Vec::with_capacity(left.len() + right.len()), 0, 0);
    while l < left.len() || r < right.len() {
        if r == right.len() || (l < left.len() && left[l] <= right[r]) {
            merged.push(left[l]);
            l += 1;
        } else {
            merged.push(right[r]);
            count += (left.len() - l) as u64;
            r += 1;
        }
    }
    values.copy_from_slice(&merged);
    count
}

/// Exchanges neighbours where that saves crossings; returns whether it did anywhere.
fn exchange(level: &mut Level) -> bool {
    let mut changed = false;
    for layer in 0..level.layers.len() {
        for place in 1..level.layers[layer].len() {
            let (left, right) = (level.layers[layer][place - 1], level.layers[layer][place]);
            let (now, then) = pairs(level, left, right);
            if then < now {
                level.layers[layer].swap(place - 1, place);
                let start = level.vertices[left].x;
                level.vertices[right].x = start;
                let gap = level.gap(right, left);
                level.vertices[left].x = start + level.vertices[right].width + gap;
                changed = true;
            }
        }
    }
    changed
}

/// Crossings between the segments of two neighbours, as they stand and if they were exchanged.
fn pairs(level: &Level, left: usize, right: usize) -> (u64, u64) {
    let (mut now, mut then) = (0, 0);
    for (lefts, rights, upwards) in [
        (&level.above[left], &level.above[right], true),
        (&level.below[left], &level.below[right], false),
    ] {
        if lefts.len() * rights.len() > MOST_PAIRS {
            continue;
        }
        let far = |s: &usize| {
            let segment = &level.segments[*s];
            if upwards { upper_x(level, segment) } else { lower_x(level, segment) }
        };
        for a in lefts.iter().map(far) {
            for b in rights.iter().map(far) {
                now += u64::from(a > b);
                then += u64::from(b > a);
            }
        }
    }
    (now, then)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inversions_are_counted() {
        for (mut values, expected) in [
            (vec![], 0),
            (vec![1.0, 2.0, 3.0], 0),
            (vec![3.0, 2.0, 1.0], 3),
            (vec![2.0, 2.0, 1.0, 3.0], 2),
        ] {
            assert_eq!(inversions(&mut values), expected);
        }
    }
}
