//! Pack: as few queues as carry the load, so that the other cores may sleep.

use weever_graph::nic::QueueRange;

use super::{Change, Cost, Measure, Policy, QueueSet, Subject};
use crate::map::{Placement, WHOLE};

/// Uses few queues, none with more than a limit.
#[derive(Clone, Debug)]
pub struct Pack {
    measure: Measure,
    /// The load that a queue can carry.
    limit: u64,
    loads: Vec<i128>,
    used: u64,
    /// The sum of the loads beyond the limit.
    excess: i128,
    queues: QueueSet,
}

impl Pack {
    /// Fills queues up to `limit`, in flows or in rate.
    pub fn new(measure: Measure, limit: u64) -> Pack {
        Pack {
            measure,
            limit: limit.max(1),
            loads: Vec::new(),
            used: 0,
            excess: 0,
            queues: QueueSet::default(),
        }
    }

    fn size(&self, subject: &Subject) -> i128 {
        let each = match self.measure {
            Measure::Flows => 1,
            Measure::Rate { assumed } => subject.rate.unwrap_or(assumed).min(1 << 40),
        };
        i128::from(subject.weight) * i128::from(each)
    }

    fn most(&self) -> i128 {
        i128::from(self.limit) * i128::from(WHOLE)
    }

    fn beyond(&self, load: i128) -> i128 {
        (load - self.most()).max(0)
    }
}

impl Policy for Pack {
    fn start(&mut self, queues: &QueueSet, _default_queue: u32) {
        self.loads = vec![0; queues.last() as usize + 1];
        self.queues = queues.clone();
        (self.used, self.excess) = (0, 0);
    }

    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change) {
        let size = change.signed(self.size(subject));
        for (queue, share) in placement.shares() {
            let Some(&before) = self.loads.get(queue as usize) else { continue };
            let after = before + size * i128::from(share);
            self.excess += self.beyond(after) - self.beyond(before);
            self.used += u64::from(after > 0);
            self.used -= u64::from(before > 0);
            self.loads[queue as usize] = after;
        }
    }

    /// One more queue costs 1; a queue beyond its limit costs more than any number of queues.
    fn cost(&self) -> Cost {
        let excess = self.excess as f64 / f64::from(WHOLE);
        let penalty = excess * self.loads.len() as f64 * 2.0;
        Cost::accept(self.used as f64 + penalty)
    }

    fn is_at_best(&self) -> bool {
        let total: i128 = self.loads.iter().sum();
        let least = total.div_euclid(self.most()) + i128::from(total % self.most() != 0);
        self.excess == 0 && i128::from(self.used) <= least
    }

    fn best_queue(&self, subject: &Subject, among: QueueRange) -> Option<u32> {
        // The same that trying all would choose: the first that is in use and has room, or else the
        // first that is free.
        let size = self.size(subject) * i128::from(WHOLE);
        let grown = |q: u32| {
            let load = self.loads[q as usize];
            let excess = self.beyond(load + size) - self.beyond(load);
            excess * self.loads.len() as i128 * 2 + i128::from(load == 0) * i128::from(WHOLE)
        };
        self.queues.iter().filter(|q| among.contains(*q)).min_by_key(|q| grown(*q))
    }

    fn order_key(&self, subject: &Subject) -> Option<i64> {
        match self.measure {
            Measure::Flows => None,
            Measure::Rate { .. } => Some(-i64::try_from(self.size(subject)).unwrap_or(i64::MAX)),
        }
    }
}
