//! Balance: every queue gets as much as every other.

use weever_graph::nic::QueueRange;

use super::{Change, Cost, Policy, QueueSet, Subject};
use crate::map::{Placement, WHOLE};

/// The balanced quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The number of flows, times their weights.
    Flows,
    /// Their rates, times their weights.
    Rate {
        /// The rate assumed for a flow without a known one.
        assumed: u64,
    },
}

/// Minimises the variance of the queues' loads. Where it is not known to which of several queues a
/// flow goes, the expected variance counts: uncertainty costs.
#[derive(Clone, Debug)]
pub struct Balance {
    measure: Measure,
    counted: QueueSet,
    queues: Vec<u32>,
    /// The load of each queue, in parts of `WHOLE`.
    loads: Vec<i128>,
    sum: i128,
    squares: i128,
    /// The addition of unknown hashes to the expected squares.
    doubt: i128,
}

impl Balance {
    /// Balances over the queues that it is started with. Packets that arrive elsewhere do not count.
    pub fn new(measure: Measure) -> Balance {
        let (counted, queues, loads) = (QueueSet::default(), Vec::new(), Vec::new());
        Balance { measure, counted, queues, loads, sum: 0, squares: 0, doubt: 0 }
    }

    /// The weight of a flow.
    fn size(&self, subject: &Subject) -> i128 {
        let each = match self.measure {
            Measure::Flows => 1,
            // Larger sums of squares would not fit; nothing is that fast.
            Measure::Rate { assumed } => subject.rate.unwrap_or(assumed).min(1 << 40),
        };
        i128::from(subject.weight) * i128::from(each)
    }

    fn counts(&self, queue: u32) -> bool {
        self.counted.contains(queue)
    }

    fn add(&mut self, queue: u32, load: i128) {
        let Some(at) = self.loads.get_mut(queue as usize) else { return };
        self.squares += load * (2 * *at + load);
        self.sum += load;
        *at += load;
    }
}

impl Policy for Balance {
    fn start(&mut self, queues: &QueueSet, _default_queue: u32) {
        self.queues = queues.iter().collect();
        self.counted = queues.clone();
        self.loads = vec![0; queues.last() as usize + 1];
        (self.sum, self.squares, self.doubt) = (0, 0, 0);
    }

    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change) {
        let whole = self.size(subject);
        let size = change.signed(whole);
        if let Placement::One(queue) = placement {
            if self.counts(*queue) {
                self.add(*queue, size * i128::from(WHOLE));
            }
            return;
        }
        // The size is a factor of every term, and multiplied once: a flow may go to hundreds of queues.
        let (mut shares, mut squares, mut doubt) = (0, 0, 0);
        for (queue, share) in placement.shares().filter(|(queue, _)| self.counted.contains(*queue))
        {
            let Some(at) = self.loads.get_mut(queue as usize) else { continue };
            let load = size * i128::from(share);
            squares += (2 * *at + load) * i128::from(share);
            *at += load;
            shares += u64::from(share);
            doubt += u64::from(share) * u64::from(WHOLE - share);
        }
        self.squares += size * squares;
        self.sum += size * i128::from(shares);
        if !placement.is_certain() {
            self.doubt += size * whole * i128::from(doubt);
        }
    }

    fn cost(&self) -> Cost {
        let n = self.queues.len().max(1) as i128;
        let scaled = n * (self.squares + self.doubt) - self.sum * self.sum;
        let unit = f64::from(WHOLE) * n as f64;
        Cost::accept(scaled as f64 / (unit * unit))
    }

    /// Whole loads differ by one at most.
    fn is_at_best(&self) -> bool {
        let (n, whole) = (self.queues.len().max(1) as i128, i128::from(WHOLE));
        if self.doubt != 0 || self.sum % whole != 0 {
            return false;
        }
        let (each, more) = (self.sum / whole / n, self.sum / whole % n);
        let least = (n - more) * each * each + more * (each + 1) * (each + 1);
        self.squares == least * whole * whole
    }

    fn best_queue(&self, _subject: &Subject, among: QueueRange) -> Option<u32> {
        let inside = self.queues.iter().copied().filter(|q| among.contains(*q));
        // The first of the smallest.
        inside.min_by_key(|q| self.loads[*q as usize])
    }

    fn crowded_queue(&self, _subject: &Subject) -> Option<u32> {
        // The first of the largest.
        self.queues.iter().copied().rev().max_by_key(|q| self.loads[*q as usize])
    }

    fn spread_over(&self, _subject: &Subject) -> Option<QueueSet> {
        Some(self.counted.clone())
    }

    fn order_key(&self, subject: &Subject) -> Option<i64> {
        match self.measure {
            Measure::Flows => None,
            // Large flows first, while there is room to make up for them.
            Measure::Rate { .. } => Some(-i64::try_from(self.size(subject)).unwrap_or(i64::MAX)),
        }
    }
}
