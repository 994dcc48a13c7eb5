//! The least cost of an assignment of items to queues: a branch and bound that shares no code with the search.
//!
//! An item is a flow, or several that no rule tells apart. It is steered to one queue by one rule, if a table
//! has one for it and room, or it is hashed: then it is spread over the queues and adds the variance of not
//! knowing where it goes. A local search with restarts finds a good assignment. Partial assignments, the heaviest
//! items first, are then continued in the order of their bounds, until the best of them is as good as it.

mod bound;
mod guess;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use guess::Guess;

/// Partial assignments that are continued, at most.
const MOST_NODES: u32 = 20_000;
/// Costs are searched to this share of the cost.
const PRECISION: f64 = 0.001;

/// Flows that go to a queue together, or are hashed.
#[derive(Clone, Debug, Default)]
pub(super) struct Item {
    pub(super) weight: f64,
    /// The variance that hashing them adds, as a multiple of that of a flow of weight 1.
    pub(super) doubt: f64,
    /// The pools of entries that have a rule for them, a bit each; 0 if there is none.
    pub(super) pools: u32,
}

/// The least cost lies between them. They are one if it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub(super) lower: f64,
    pub(super) upper: f64,
}

/// Items, the share of hashed packets that each queue gets, and the room for rules.
pub(super) struct Assignment {
    items: Vec<Item>,
    spread: Vec<f64>,
    /// The entries that each set of pools has, by the bits of the set.
    room: Vec<u32>,
    /// The items by their doubt, the greatest first.
    by_doubt: Vec<usize>,
    /// The variance of hashing a flow of weight 1.
    unit: f64,
    total: f64,
    /// Costs below this are as good as none.
    floor: f64,
}

/// The entries in use of each set of pools: rules of items that can use no other pools.
type Used = Vec<u32>;

/// The first `at` items are assigned.
#[derive(Clone)]
struct Partial {
    at: usize,
    bound: f64,
    loads: Vec<f64>,
    doubt: f64,
    used: Used,
}

impl Assignment {
    /// `pools` are the entries of each pool, and `most` those of all.
    pub(super) fn new(
        mut items: Vec<Item>,
        spread: Vec<f64>,
        pools: &[u32],
        most: u32,
        floor: f64,
    ) -> Assignment {
        items.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let mut by_doubt: Vec<usize> = (0..items.len()).collect();
        by_doubt.sort_by(|a, b| items[*b].doubt.total_cmp(&items[*a].doubt));
        let room = (0..1_u32 << pools.len())
            .map(|set| {
                let inside = pools.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
                inside.map(|(_, room)| *room).fold(0, u32::saturating_add).min(most)
            })
            .collect();
        let total = items.iter().map(|i| i.weight).sum();
        let unit = spread.iter().map(|s| s * (1.0 - s)).sum();
        Assignment { items, spread, room, by_doubt, unit, total, floor }
    }

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

    /// Whether one more item can have a rule, by Hall's theorem: no set of pools serves more items that depend
    /// on it than it has entries.
    fn fits(&self, used: &Used, pools: u32) -> bool {
        let full = |set: usize| pools & !(set as u32) == 0 && used[set] >= self.room[set];
        pools != 0 && !(0..used.len()).any(full)
    }

    fn take(used: &mut Used, pools: u32) {
        let within = used.iter_mut().enumerate().filter(|(set, _)| pools & !(*set as u32) == 0);
        within.for_each(|(_, used)| *used += 1);
    }

    fn release(used: &mut Used, pools: u32) {
        let within = used.iter_mut().enumerate().filter(|(set, _)| pools & !(*set as u32) == 0);
        within.for_each(|(_, used)| *used -= 1);
    }

    fn cost_of(&self, squares: f64, doubt: f64) -> f64 {
        let n = self.spread.len() as f64;
        ((squares + doubt * self.unit) / n - (self.total / n).powi(2)).max(0.0)
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
