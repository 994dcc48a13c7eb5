//! The least cost of an assignment of items to queues: a branch and bound that shares no code with the search.
//!
//! An item is a flow, or several that no rule tells apart. It is steered to one queue by one rule, if a table
//! has one for it and room, or it is hashed: then it is spread over the queues and adds the variance of not
//! knowing where it goes. A local search with restarts finds a good assignment. Partial assignments, the heaviest
//! items first, are then continued in the order of their bounds, until the best of them is as good as it.

mod assignment;
mod bound;
mod guess;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use assignment::Partial;
pub(super) use assignment::{Assignment, Item};
use guess::Guess;

/// Partial assignments that are continued, at most.
const MOST_NODES: u32 = 20_000;
/// Costs are searched to this share of the cost.
const PRECISION: f64 = 0.001;

/// The least cost lies between them. They are one if it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl Assignment {
    /// The least cost, unless that is above `known`, which is the upper bound then.
    pub(super) fn solve(&self, known: f64) -> Bounds {
        let used = vec![0; self.room.len()];
        let loads = vec![0.0; self.spread.len()];
        let mut root = Partial { at: 0, bound: 0.0, loads, doubt: 0.0, used };
        root.bound = self.bound(&root);
        if !self.improves(root.bound, known) {
            return Bounds { lower: known, upper: known };
        }
        let mut best = known.min(Guess::search(self));
        let mut open = BinaryHeap::from([root]);
        for _ in 0..MOST_NODES {
            let next = open.pop().filter(|next| self.improves(next.bound, best));
            let Some(next) = next else { return Bounds { lower: best, upper: best } };
            for child in self.continued(&next) {
                if child.at == self.items.len() {
                    best = best.min(child.bound);
                } else if self.improves(child.bound, best) {
                    open.push(child);
                }
            }
        }
        Bounds { lower: open.peek().map_or(best, |p| p.bound.min(best)), upper: best }
    }

    /// Whether a cost is notably below the best.
    fn improves(&self, cost: f64, best: f64) -> bool {
        cost + PRECISION * cost.max(self.floor) < best
    }

    /// The same with one more item assigned: to each queue, or hashed. Once no further item has room, all
    /// others are hashed.
    fn continued(&self, from: &Partial) -> Vec<Partial> {
        let mut all = vec![self.hashed(from)];
        let item = &self.items[from.at];
        if self.fits(&from.used, item.pools) {
            for queue in 0..from.loads.len() {
                // Queues that have equal loads, and equal shares of the hash, are interchangeable.
                let kind = |q: usize| (self.spread[q], from.loads[q]);
                if !(0..queue).any(|q| kind(q) == kind(queue)) {
                    let mut next = Partial { at: from.at + 1, ..from.clone() };
                    Self::take(&mut next.used, item.pools);
                    next.loads[queue] += item.weight;
                    next.bound = self.bound(&next);
                    all.push(next);
                }
            }
        }
        all
    }

    fn hashed(&self, from: &Partial) -> Partial {
        let mut next = from.clone();
        loop {
            let item = &self.items[next.at];
            let loads = next.loads.iter_mut().zip(&self.spread);
            loads.for_each(|(load, share)| *load += item.weight * share);
            next.doubt += item.doubt;
            next.at += 1;
            let more = self.items.get(next.at);
            if more.is_none_or(|item| self.fits(&next.used, item.pools)) {
                break;
            }
        }
        next.bound = self.bound(&next);
        next
    }
}

/// The least bound is the greatest, as the heap wants it; of equals the longest assignment.
impl Ord for Partial {
    fn cmp(&self, other: &Partial) -> Ordering {
        other.bound.total_cmp(&self.bound).then(self.at.cmp(&other.at))
    }
}

impl PartialOrd for Partial {
    fn partial_cmp(&self, other: &Partial) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Partial {
    fn eq(&self, other: &Partial) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Partial {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::quality::Dice;

    /// All assignments, one after the other.
    fn by_trying(of: &Assignment) -> f64 {
        let places = of.spread.len() as u64 + 1;
        let mut least = f64::MAX;
        for code in 0..places.pow(of.items.len() as u32) {
            let mut guess = Guess::hashed(of);
            let mut rest = code;
            let fits = (0..of.items.len()).all(|item| {
                let place = (rest % places) as usize;
                rest /= places;
                guess.put(item, place.checked_sub(1))
            });
            if fits {
                least = least.min(guess.cost());
            }
        }
        least
    }

    #[test]
    fn the_optimum_is_that_of_trying_everything() {
        let mut dice = Dice(7);
        for round in 0..400 {
            let queues = 2 + dice.roll(2) as usize;
            let items = (0..3 + dice.roll(4)).map(|_| {
                let weight = (1 + dice.roll(100)) as f64;
                let doubt = if dice.roll(3) == 0 { 0.0 } else { weight * weight };
                Item { weight, doubt, pools: dice.roll(4) as u32 }
            });
            let items = items.collect();
            let mut spread: Vec<f64> = (0..queues).map(|_| (1 + dice.roll(2)) as f64).collect();
            let sum: f64 = spread.iter().sum();
            spread.iter_mut().for_each(|s| *s /= sum);
            let pools = [dice.roll(3) as u32, dice.roll(3) as u32];
            let all = Assignment::new(items, spread, &pools, 1 + dice.roll(4) as u32, 0.01);
            let (found, least) = (all.solve(f64::MAX), by_trying(&all));
            assert_eq!(found.lower, found.upper, "round {round}");
            let near = (found.upper - least).abs() <= PRECISION * least.max(0.01);
            assert!(near, "round {round}: {found:?}, by trying {least}");
        }
    }
}
