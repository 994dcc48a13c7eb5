//! Good assignments by a local search with restarts.

use super::assignment::{Assignment, Item, Used};
use crate::search::quality::Dice;

/// Local optima that the local search leaves by random steps.
const RESTARTS: u32 = 40;

/// A complete assignment, improved step by step.
#[derive(Clone)]
pub(super) struct Guess<'a> {
    of: &'a Assignment,
    queues: Vec<Option<usize>>,
    loads: Vec<f64>,
    doubt: f64,
    used: Used,
}

impl<'a> Guess<'a> {
    /// The cost of the best assignment that was found.
    pub(super) fn search(of: &'a Assignment) -> f64 {
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

    /// No item has a rule.
    pub(super) fn hashed(of: &'a Assignment) -> Guess<'a> {
        let loads = of.spread.iter().map(|share| share * of.total).collect();
        let doubt = of.items.iter().map(|i| i.doubt).sum();
        Guess { of, queues: vec![None; of.items.len()], loads, doubt, used: vec![0; of.room.len()] }
    }

    /// The most doubtful items are steered, the heaviest first to the lowest queue.
    fn greedy(of: &'a Assignment) -> Guess<'a> {
        let mut guess = Guess::hashed(of);
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

    pub(super) fn cost(&self) -> f64 {
        self.of.cost_of(self.loads.iter().map(|l| l * l).sum(), self.doubt)
    }

    /// Puts an item to a queue, or hashes it. Returns whether there is room.
    pub(super) fn put(&mut self, item: usize, to: Option<usize>) -> bool {
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
