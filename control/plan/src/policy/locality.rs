//! Locality: packets arrive near the application that reads them.

use weever_graph::nic::QueueRange;

use super::{Change, Cost, Policy, QueueSet, Subject};
use crate::map::{Placement, WHOLE};

/// How far apart a queue and a core are.
pub trait Distance: Send {
    /// In units of the caller's choice; 0 is the same core.
    fn between(&self, queue: u32, core: u16) -> u32;
}

impl<F: Fn(u32, u16) -> u32 + Send> Distance for F {
    fn between(&self, queue: u32, core: u16) -> u32 {
        self(queue, core)
    }
}

/// The cost of a flow at a queue.
type CostAt = dyn Fn(&Subject, u32) -> u64 + Send;

/// Minimises distance.
pub struct Locality {
    distance: Box<CostAt>,
    total: i128,
    queues: QueueSet,
}

impl Locality {
    /// Costs grow with the distance from the queue to the core on which the flow's application runs.
    /// Flows without a known core cost nothing anywhere.
    pub fn new(distance: impl Distance + 'static) -> Locality {
        let by = move |s: &Subject, q: u32| {
            s.core.map_or(0, |core| u64::from(distance.between(q, core)))
        };
        Locality { distance: Box::new(by), total: 0, queues: QueueSet::default() }
    }
}

impl Policy for Locality {
    fn start(&mut self, queues: &QueueSet, _default_queue: u32) {
        self.total = 0;
        self.queues = queues.clone();
    }

    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change) {
        for (queue, share) in placement.shares() {
            let cost = i128::from((self.distance)(subject, queue)) * i128::from(share);
            self.total += change.signed(cost * i128::from(subject.weight));
        }
    }

    fn cost(&self) -> Cost {
        Cost::accept(self.total as f64 / f64::from(WHOLE))
    }

    fn is_at_best(&self) -> bool {
        self.total == 0
    }

    fn best_queue(&self, subject: &Subject, among: QueueRange) -> Option<u32> {
        self.queues
            .iter()
            .filter(|q| among.contains(*q))
            .min_by_key(|q| (self.distance)(subject, *q))
    }
}
