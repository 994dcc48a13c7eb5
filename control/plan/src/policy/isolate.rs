//! Isolation: classes with queues that others stay away from (the Dragonet queue management paper,
//! Algorithm 2), each with its own cost inside.

use weever_graph::nic::QueueRange;

use super::{Change, Cost, Policy, QueueSet, Subject};
use crate::map::Placement;

/// The queues of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// This number of queues, for the class alone.
    Exclusive(u32),
    /// Exactly these, for itself.
    Queues(QueueSet),
    /// All that no class has for itself.
    Shared,
    /// None: its packets are dropped by the NIC.
    Nowhere,
}

/// One class.
struct Part {
    name: String,
    share: Share,
    inner: Box<dyn Policy>,
    own: QueueSet,
    exclusive: bool,
    priority: i32,
    /// How many of its flows reach queues that are not its.
    astray: u64,
    /// How many of its flows lose packets to rules that drop.
    lost: u64,
}

/// Whether packets are dropped that are the flow's own class's.
fn loses(subject: &Subject, placement: &Placement) -> bool {
    placement.dropped() > 0 && !(subject.yields && placement.arrives())
}

/// Flows of each class stay on the queues of their class; deviations are rejected. The cost is the sum
/// of the classes' costs, each over its own flows only. Class `i` of flows is the `i`-th class here;
/// classes that are not listed are shared without a cost of their own.
pub struct Isolate {
    parts: Vec<Part>,
    /// The queues that a class has for itself.
    taken: QueueSet,
    /// The queues of classes without queues of their own.
    shared: QueueSet,
    /// How many exclusive queues `other` reaches.
    leaks: u64,
    /// Flows of no listed class on exclusive queues.
    strays: u64,
    /// Requested exclusive queues that do not exist.
    missing: u32,
}

impl Isolate {
    /// Isolates classes: for each a name, its share of queues, and its policy on them.
    pub fn new(classes: Vec<(String, Share, Box<dyn Policy>)>) -> Isolate {
        let part = |(name, share, inner)| {
            let exclusive = share != Share::Shared;
            Part {
                name,
                share,
                inner,
                own: QueueSet::default(),
                exclusive,
                priority: 0,
                astray: 0,
                lost: 0,
            }
        };
        Isolate {
            parts: classes.into_iter().map(part).collect(),
            taken: QueueSet::default(),
            shared: QueueSet::default(),
            leaks: 0,
            strays: 0,
            missing: 0,
        }
    }

    /// Serves classes of higher priority first: with filters, and with queues of their own.
    #[must_use]
    pub fn with_priorities(mut self, priorities: Vec<i32>) -> Isolate {
        for (part, priority) in self.parts.iter_mut().zip(priorities) {
            part.priority = priority;
        }
        self
    }

    /// The queues that class number `class` gets, once started.
    pub fn queues_of(&self, class: usize) -> Option<&QueueSet> {
        self.parts.get(class).map(|p| &p.own)
    }

    /// Gives every class its queues: named ones first, then the lowest that are left. The default queue
    /// is given away last, because unsteered packets arrive there.
    fn distribute(&mut self, queues: &QueueSet, default_queue: u32) {
        self.taken = QueueSet::default();
        self.missing = 0;
        for part in &mut self.parts {
            if let Share::Queues(named) = &part.share {
                self.missing += named.iter().filter(|q| !queues.contains(*q)).count() as u32;
                part.own = named.iter().filter(|q| queues.contains(*q)).collect();
                part.own.iter().for_each(|q| self.taken.insert(q));
            }
        }
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by_key(|i| std::cmp::Reverse(self.parts[*i].priority));
        for i in order {
            let part = &mut self.parts[i];
            let Share::Exclusive(count) = part.share else { continue };
            let free = queues.iter().filter(|q| *q != default_queue && !self.taken.contains(*q));
            part.own = free.take(count as usize).collect();
            self.missing += count - part.own.len() as u32;
            part.own.iter().for_each(|q| self.taken.insert(q));
        }
        let taken = &self.taken;
        self.shared = queues.iter().filter(|q| !taken.contains(*q)).collect();
        for part in self.parts.iter_mut().filter(|p| p.share == Share::Shared) {
            part.own = self.shared.clone();
        }
    }
}

fn count(counter: &mut u64, change: Change) {
    match change {
        Change::Comes => *counter += 1,
        Change::Goes => *counter -= 1,
    }
}

impl Policy for Isolate {
    fn start(&mut self, queues: &QueueSet, default_queue: u32) {
        self.distribute(queues, default_queue);
        (self.leaks, self.strays) = (0, 0);
        for part in &mut self.parts {
            (part.astray, part.lost) = (0, 0);
            part.inner.start(&part.own, default_queue);
        }
    }

    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change) {
        let Some(class) = subject.class else {
            for (queue, _) in placement.shares() {
                if self.taken.contains(queue) {
                    count(&mut self.leaks, change);
                }
            }
            return;
        };
        let Some(part) = self.parts.get_mut(usize::from(class.0)) else {
            if placement.shares().any(|(q, _)| self.taken.contains(q)) {
                count(&mut self.strays, change);
            }
            return;
        };
        if placement.shares().any(|(q, _)| !part.own.contains(q)) {
            count(&mut part.astray, change);
        }
        if part.share == Share::Nowhere {
            return;
        }
        if loses(subject, placement) {
            count(&mut part.lost, change);
        }
        part.inner.apply(subject, placement, change);
    }

    fn cost(&self) -> Cost {
        let wrong: u64 = self.parts.iter().map(|p| p.astray + p.lost).sum();
        let wrong = wrong + self.leaks + self.strays + u64::from(self.missing);
        let inner = self.parts.iter().map(|p| p.inner.cost());
        inner.fold(Cost::reject(wrong, 0.0), std::ops::Add::add)
    }

    fn is_at_best(&self) -> bool {
        self.cost().is_acceptable() && self.parts.iter().all(|p| p.inner.is_at_best())
    }

    fn best_queue(&self, subject: &Subject, among: QueueRange) -> Option<u32> {
        let part = self.parts.get(usize::from(subject.class?.0))?;
        // Only if the queue that the class would choose is its own; otherwise all are tried.
        let best = part.inner.best_queue(subject, among)?;
        part.own.contains(best).then_some(best)
    }

    fn crowded_queue(&self, subject: &Subject) -> Option<u32> {
        self.parts.get(usize::from(subject.class?.0))?.inner.crowded_queue(subject)
    }

    fn order_key(&self, subject: &Subject) -> Option<i64> {
        let part = self.parts.get(usize::from(subject.class?.0))?;
        // Flows that need a filter come first, while there are filters.
        let inner = part.inner.order_key(subject).unwrap_or(0).clamp(-(1 << 50), 1 << 50);
        let rank = 2 * i64::from(part.priority.clamp(-1000, 1000)) + i64::from(part.exclusive);
        Some(inner - (rank << 51))
    }

    fn spread_over(&self, subject: &Subject) -> Option<QueueSet> {
        self.parts.get(usize::from(subject.class?.0))?.inner.spread_over(subject)
    }

    fn drops(&self, subject: &Subject) -> bool {
        let part = subject.class.and_then(|class| self.parts.get(usize::from(class.0)));
        part.is_some_and(|part| part.share == Share::Nowhere)
    }

    fn takes_other(&self, queue: u32) -> bool {
        !self.taken.contains(queue)
    }

    fn objection(&self, subject: &Subject, placement: &Placement) -> Option<String> {
        let class = subject.class?;
        let Some(part) = self.parts.get(usize::from(class.0)) else {
            let on = placement.shares().find(|(q, _)| self.taken.contains(*q))?.0;
            return Some(format!("queue {on} is another class's own"));
        };
        let astray = placement.shares().find(|(q, _)| !part.own.contains(*q));
        if let (Some((queue, _)), Share::Nowhere) = (astray, &part.share) {
            let name = &part.name;
            return Some(format!(
                "class `{name}` is to be dropped, and queue {queue} gets packets"
            ));
        }
        if let Some((queue, _)) = astray {
            let (name, own) = (&part.name, &part.own);
            return Some(format!("queue {queue} is not one of class `{name}` (queues {own})"));
        }
        if part.share != Share::Nowhere && loses(subject, placement) {
            return Some(format!("packets of class `{}` would be dropped", part.name));
        }
        part.inner.objection(subject, placement)
    }

    fn complaints(&self) -> Vec<String> {
        let mut all = Vec::new();
        for part in &self.parts {
            if let Share::Exclusive(wanted) = part.share
                && part.own.len() < wanted as usize
            {
                let (name, got) = (&part.name, part.own.len());
                let queues = if wanted == 1 { "queue" } else { "queues" };
                all.push(format!(
                    "class `{name}` wants {wanted} {queues} of its own and gets {got}"
                ));
            }
            if part.astray > 0 && part.share == Share::Nowhere {
                let (name, n) = (&part.name, part.astray);
                let (flows, are) = if n == 1 { ("flow", "is") } else { ("flows", "are") };
                all.push(format!("{n} {flows} of class `{name}` {are} not dropped"));
            } else if part.astray > 0 {
                let (name, n, own) = (&part.name, part.astray, &part.own);
                let leave = if n == 1 { "flow leaves" } else { "flows leave" };
                all.push(match own.is_empty() {
                    true => format!("class `{name}` has none of the queues that it is to have"),
                    false => format!("{n} {leave} the queues of class `{name}` ({own})"),
                });
            }
            if part.lost > 0 {
                let (name, n) = (&part.name, part.lost);
                let (flows, lose) = if n == 1 { ("flow", "loses") } else { ("flows", "lose") };
                all.push(format!(
                    "{n} {flows} of class `{name}` {lose} packets to rules that drop"
                ));
            }
            all.extend(part.inner.complaints());
        }
        if self.strays > 0 {
            all.push(format!("{} flows of no class reach a class's own queues", self.strays));
        }
        if self.leaks > 0 {
            all.push(format!("unregistered traffic can reach {} queues of a class", self.leaks));
        }
        all
    }
}
