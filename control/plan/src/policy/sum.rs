//! Policies made of policies: several at once, and one for some of the flows.

use weever_graph::nic::QueueRange;

use super::{Change, Cost, Policy, QueueSet, Subject};
use crate::flow::{AppId, ClassId};
use crate::map::Placement;

/// The sum of several policies' costs, each times a factor. A map that one policy rejects is rejected.
pub struct Sum {
    parts: Vec<(f64, Box<dyn Policy>)>,
}

impl Sum {
    /// Adds up.
    pub fn new(parts: Vec<(f64, Box<dyn Policy>)>) -> Sum {
        Sum { parts }
    }
}

impl Policy for Sum {
    fn start(&mut self, queues: &QueueSet, default_queue: u32) {
        self.parts.iter_mut().for_each(|(_, p)| p.start(queues, default_queue));
    }

    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change) {
        self.parts.iter_mut().for_each(|(_, p)| p.apply(subject, placement, change));
    }

    fn cost(&self) -> Cost {
        let costs = self.parts.iter().map(|(factor, p)| {
            let cost = p.cost();
            Cost { value: cost.value * factor, ..cost }
        });
        costs.fold(Cost::default(), std::ops::Add::add)
    }

    fn is_at_best(&self) -> bool {
        self.parts.iter().all(|(_, p)| p.is_at_best())
    }

    fn best_queue(&self, subject: &Subject, among: QueueRange) -> Option<u32> {
        match &self.parts[..] {
            [(factor, only)] if *factor > 0.0 => only.best_queue(subject, among),
            _ => None,
        }
    }

    fn crowded_queue(&self, subject: &Subject) -> Option<u32> {
        self.parts.iter().find_map(|(_, p)| p.crowded_queue(subject))
    }

    /// Those of the first part that has an opinion; the opinion of the others shows in the cost.
    fn spread_over(&self, subject: &Subject) -> Option<QueueSet> {
        self.parts.iter().find_map(|(_, p)| p.spread_over(subject))
    }

    fn drops(&self, subject: &Subject) -> bool {
        self.parts.iter().any(|(_, p)| p.drops(subject))
    }

    fn order_key(&self, subject: &Subject) -> Option<i64> {
        self.parts.iter().find_map(|(_, p)| p.order_key(subject))
    }

    fn takes_other(&self, queue: u32) -> bool {
        self.parts.iter().all(|(_, p)| p.takes_other(queue))
    }

    fn objection(&self, subject: &Subject, placement: &Placement) -> Option<String> {
        self.parts.iter().find_map(|(_, p)| p.objection(subject, placement))
    }

    fn complaints(&self) -> Vec<String> {
        self.parts.iter().flat_map(|(_, p)| p.complaints()).collect()
    }
}

/// Applies a policy to one class or one application, which thereby has its own part in the cost.
pub struct Only<P> {
    class: Option<ClassId>,
    app: Option<AppId>,
    policy: P,
}

impl<P: Policy> Only<P> {
    /// Applies `policy` to the flows of one class only.
    pub fn class(class: ClassId, policy: P) -> Only<P> {
        Only { class: Some(class), app: None, policy }
    }

    /// Applies `policy` to the flows of one application only: its own wishes.
    pub fn app(app: AppId, policy: P) -> Only<P> {
        Only { class: None, app: Some(app), policy }
    }

    fn concerns(&self, subject: &Subject) -> bool {
        let class = self.class.is_none_or(|c| subject.class == Some(c));
        class && self.app.is_none_or(|a| subject.app == Some(a))
    }
}

impl<P: Policy> Policy for Only<P> {
    fn start(&mut self, queues: &QueueSet, default_queue: u32) {
        self.policy.start(queues, default_queue);
    }

    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change) {
        if self.concerns(subject) {
            self.policy.apply(subject, placement, change);
        }
    }

    fn cost(&self) -> Cost {
        self.policy.cost()
    }

    fn is_at_best(&self) -> bool {
        self.policy.is_at_best()
    }

    fn best_queue(&self, subject: &Subject, among: QueueRange) -> Option<u32> {
        if self.concerns(subject) { self.policy.best_queue(subject, among) } else { Some(among.lo) }
    }

    fn crowded_queue(&self, subject: &Subject) -> Option<u32> {
        self.concerns(subject).then(|| self.policy.crowded_queue(subject)).flatten()
    }

    fn spread_over(&self, subject: &Subject) -> Option<QueueSet> {
        self.concerns(subject).then(|| self.policy.spread_over(subject)).flatten()
    }

    fn drops(&self, subject: &Subject) -> bool {
        self.concerns(subject) && self.policy.drops(subject)
    }

    fn order_key(&self, subject: &Subject) -> Option<i64> {
        self.concerns(subject).then(|| self.policy.order_key(subject)).flatten()
    }

    fn objection(&self, subject: &Subject, placement: &Placement) -> Option<String> {
        let concerns = self.concerns(subject);
        concerns.then(|| self.policy.objection(subject, placement)).flatten()
    }

    fn complaints(&self) -> Vec<String> {
        self.policy.complaints()
    }
}
