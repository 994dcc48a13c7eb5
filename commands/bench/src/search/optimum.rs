//! The least cost of an assignment of items to queues: a branch and bound that shares no code with the search.
//!
//! An item is a flow, or several that no rule tells apart. It is steered to one queue by one rule, if a table
//! has one for it and room, or it is hashed: then it is spread over the queues and adds the variance of not
//! knowing where it goes. A local search with restarts finds a good assignment. Partial assignments, the heaviest
//! items first, are then continued in the order of their bounds, until the best of them is as good as it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::quality::Dice;

/// Partial assignments that are continued, at most.
const MOST_NODES: u32 = 100_000;
/// Costs are searched to this share of the cost.
const PRECISION: f64 = 0.001;
/// Local optima that the local search leaves by random steps.
const RESTARTS: u32 = 40;

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

    /// No completion costs less: as many of the most doubtful items as have room are steered (rules are a
    /// matroid, so the greedy choice is the best one), and as many of the heaviest are a fluid that fills the
    /// lowest queues. Hashed items raise all queues alike, but for the unevenness of the hash.
    fn bound(&self, partial: &Partial) -> f64 {
        let (mut used, mut doubt) = (partial.used.clone(), partial.doubt);
        for item in self.by_doubt.iter().filter(|i| **i >= partial.at).map(|i| &self.items[*i]) {
            if self.fits(&used, item.pools) {
                Self::take(&mut used, item.pools);
            } else {
                doubt += item.doubt;
            }
        }
        let (mut used, mut fluid, mut hashed) = (partial.used.clone(), 0.0, 0.0);
        for item in &self.items[partial.at..] {
            if self.fits(&used, item.pools) {
                Self::take(&mut used, item.pools);
                fluid += item.weight;
            } else {
                hashed += item.weight;
            }
        }
        let least = self.spread.iter().copied().fold(1.0, f64::min);
        let rest = fluid + hashed;
        fluid += rest * (1.0 - least * self.spread.len() as f64);
        self.cost_of(self.squares_of(&partial.loads, rest, fluid.min(rest)), doubt)
    }

    /// The least sum of squares if of `rest` more weight `fluid` goes to the lowest queues, and the others
    /// evenly to all.
    fn squares_of(&self, loads: &[f64], rest: f64, mut fluid: f64) -> f64 {
        let even = (rest - fluid) / loads.len() as f64;
        let mut levels: Vec<f64> = loads.iter().map(|l| l + even).collect();
        levels.sort_unstable_by(f64::total_cmp);
        let mut low = 1;
        while low < levels.len() && fluid > (levels[low] - levels[low - 1]) * low as f64 {
            fluid -= (levels[low] - levels[low - 1]) * low as f64;
            low += 1;
        }
        let level = levels[low - 1] + fluid / low as f64;
        levels.iter().map(|l| l.max(level).powi(2)).sum()
    }

    /// The same with one more item assigned: to each queue, or hashed. Once no further item has room, all
    /// others are hashed.
    fn continued(&self, from: &Partial) -> Vec<Partial> {
        let mut all = vec![self.hashed(from)];
        let even = self.spread.iter().all(|s| *s == self.spread[0]);
        let item = &self.items[from.at];
        if self.fits(&from.used, item.pools) {
            for queue in 0..from.loads.len() {
                // Queues that have equal loads, and equal shares of the hash, are interchangeable.
                let same = |q: &f64| even && *q == from.loads[queue];
                if !from.loads[..queue].iter().any(same) {
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

/// A complete assignment, improved step by step.
#[derive(Clone)]
struct Guess<'a> {
    of: &'a Assignment,
    queues: Vec<Option<usize>>,
    loads: Vec<f64>,
    doubt: f64,
    used: Used,
}

impl<'a> Guess<'a> {
    /// The cost of the best assignment that was found.
    fn search(of: &'a Assignment) -> f64 {
        let mut dice = Dice(0x2545_f491_4f6c_dd1d);
        let mut best = Guess::greedy(of);
        best.descend();
        for _ in 0..RESTARTS {
            let mut other = best.clone();
            for _ in 0..3 {
                let item = dice.roll(of.items.len() as u64) as usize;
                let queue = dice.roll(of.spread.len() as u64 + 1) as usize;
                other.put(item, queue.checked_sub(1));
            }
            other.descend();
            if other.cost() < best.cost() {
                best = other;
            }
        }
        best.cost()
    }

    /// The most doubtful items are steered, the heaviest first to the lowest queue.
    fn greedy(of: &'a Assignment) -> Guess<'a> {
        let loads = of.spread.iter().map(|share| share * of.total).collect();
        let doubt = of.items.iter().map(|i| i.doubt).sum();
        let queues = vec![None; of.items.len()];
        let mut guess = Guess { of, queues, loads, doubt, used: vec![0; of.room.len()] };
        let mut used = guess.used.clone();
        let mut chosen: Vec<usize> = Vec::new();
        for item in &of.by_doubt {
            if of.fits(&used, of.items[*item].pools) {
                Assignment::take(&mut used, of.items[*item].pools);
                chosen.push(*item);
            }
        }
        chosen.sort_unstable();
        for item in chosen {
            let queues = 0..guess.loads.len();
            let lowest = queues.min_by(|a, b| guess.loads[*a].total_cmp(&guess.loads[*b]));
            guess.put(item, lowest);
        }
        guess
    }

    fn cost(&self) -> f64 {
        self.of.cost_of(self.loads.iter().map(|l| l * l).sum(), self.doubt)
    }

    /// Puts an item to a queue, or hashes it. Returns whether there is room.
    fn put(&mut self, item: usize, to: Option<usize>) -> bool {
        let (from, Item { weight, doubt, pools }) = (self.queues[item], &self.of.items[item]);
        match (from, to) {
            (None, Some(_)) if !self.of.fits(&self.used, *pools) => return false,
            (None, Some(_)) => Assignment::take(&mut self.used, *pools),
            (Some(_), None) => Assignment::release(&mut self.used, *pools),
            _ => {}
        }
        for (place, sign) in [(from, -1.0), (to, 1.0)] {
            match place {
                Some(queue) => self.loads[queue] += sign * weight,
                None => {
                    let loads = self.loads.iter_mut().zip(&self.of.spread);
                    loads.for_each(|(load, share)| *load += sign * weight * share);
                    self.doubt += sign * doubt;
                }
            }
        }
        self.queues[item] = to;
        true
    }

    /// Takes steps that lower the cost as long as there are any: one item elsewhere, or two that exchange
    /// their places.
    fn descend(&mut self) {
        let (items, queues) = (self.queues.len(), self.loads.len());
        loop {
            let before = self.cost();
            for one in 0..items {
                let all = (0..queues).map(Some).chain([None]);
                all.for_each(|place| self.attempt(&[(one, place)]));
                for other in 0..one {
                    let (a, b) = (self.queues[one], self.queues[other]);
                    match (a, b) {
                        (None, Some(_)) => self.attempt(&[(other, a), (one, b)]),
                        (Some(_), _) if a != b => self.attempt(&[(one, b), (other, a)]),
                        _ => {}
                    }
                }
            }
            // Rounding must not keep it going.
            if self.cost() >= before * (1.0 - 1e-9) {
                return;
            }
        }
    }

    /// Takes steps, unless one of them has no room or they do not lower the cost.
    fn attempt(&mut self, steps: &[(usize, Option<usize>)]) {
        let before = self.cost();
        let mut undo: Vec<(usize, Option<usize>)> = Vec::with_capacity(steps.len());
        let mut done = true;
        for (item, to) in steps {
            undo.push((*item, self.queues[*item]));
            done = done && self.put(*item, *to);
        }
        if !done || self.cost() >= before {
            for (item, from) in undo.into_iter().rev() {
                self.put(item, from);
            }
        }
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

    /// All assignments, one after the other.
    fn by_trying(of: &Assignment) -> f64 {
        let places = of.spread.len() as u64 + 1;
        let mut least = f64::MAX;
        for code in 0..places.pow(of.items.len() as u32) {
            let mut guess = Guess {
                of,
                queues: vec![None; of.items.len()],
                loads: of.spread.iter().map(|share| share * of.total).collect(),
                doubt: of.items.iter().map(|i| i.doubt).sum(),
                used: vec![0; of.room.len()],
            };
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
        for round in 0..200 {
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
