//! Dedicated queues: an application has a queue to itself, or not at all.

use super::{Change, Cost, Policy, QueueSet, Subject};
use crate::flow::AppId;
use crate::map::Placement;

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
