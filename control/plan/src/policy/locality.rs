//! Policies about applications: packets arrive near the core of the application that reads them, or at a
//! queue that it has to itself.

use weever_graph::nic::QueueRange;

use super::{Change, Cost, Policy, QueueSet, Subject};
use crate::flow::AppId;
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

/// Rejects every map in which a foreign packet can reach the application's queue, so that it is safe to
/// give the application the queue's buffers (design/0000 §4.7). The application's own packets are
/// better there than elsewhere, but may be elsewhere.
#[derive(Clone, Debug)]
pub struct Dedicated {
    app: AppId,
    queue: u32,
    foreign: u64,
    other: bool,
    elsewhere: u64,
}

impl Dedicated {
    /// Dedicates `queue` to `app`.
    pub fn new(app: AppId, queue: u32) -> Dedicated {
        Dedicated { app, queue, foreign: 0, other: false, elsewhere: 0 }
    }

    fn is_own(&self, subject: &Subject) -> bool {
        subject.app == Some(self.app)
    }
}

fn count(counter: &mut u64, change: Change) {
    match change {
        Change::Comes => *counter += 1,
        Change::Goes => *counter -= 1,
    }
}

impl Policy for Dedicated {
    fn start(&mut self, _queues: &QueueSet, _default_queue: u32) {
        (self.foreign, self.other, self.elsewhere) = (0, false, 0);
    }

    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change) {
        let here = placement.reaches(self.queue);
        if subject.is_other() {
            self.other = if here { change == Change::Comes } else { self.other };
        } else if !self.is_own(subject) {
            if here {
                count(&mut self.foreign, change);
            }
        } else if placement.queue() != Some(self.queue) {
            count(&mut self.elsewhere, change);
        }
    }

    fn cost(&self) -> Cost {
        Cost::reject(self.foreign + u64::from(self.other), self.elsewhere as f64)
    }

    fn is_at_best(&self) -> bool {
        self.cost() == Cost::accept(0.0)
    }

    fn takes_other(&self, queue: u32) -> bool {
        queue != self.queue
    }

    fn objection(&self, subject: &Subject, placement: &Placement) -> Option<String> {
        let reaches = !self.is_own(subject) && placement.reaches(self.queue);
        let (queue, app) = (self.queue, self.app.0);
        reaches.then(|| format!("queue {queue} is dedicated to application {app}"))
    }

    fn complaints(&self) -> Vec<String> {
        let (queue, app) = (self.queue, self.app.0);
        let foreign = (self.foreign > 0).then(|| {
            let n = self.foreign;
            format!("{n} flows of others reach queue {queue}, dedicated to application {app}")
        });
        let other = self.other.then(|| {
            format!("unregistered traffic can reach queue {queue}, dedicated to application {app}")
        });
        foreign.into_iter().chain(other).collect()
    }
}
