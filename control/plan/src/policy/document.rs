//! A policy as a value: classes with their packets, queues and objectives, and the classifier that gives
//! flows their classes.
//!
//! `weever-policy` reads it from text, and is the only place that checks it: class names differ, weights
//! lie in 1..=[`Flow::MAX_WEIGHT`], every class has packets, and no queue is promised twice. A document
//! that was put together otherwise plans badly, but never panics.

use std::cmp::Reverse;
use std::sync::Arc;

use super::{
    Balance, Dedicated, GraphCosts, InOrder, Isolate, Locality, Measure, Pack, PathCosts, Paths,
    Policy, QueueSet, Share, Sharing, SharingMode, Sum,
};
use crate::embed::{Host, graph_costs};
use crate::flow::{AppId, ClassId, Conj, Flow, MAX_PARTS};

/// A policy: classes and objectives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The objective of flows of no class, and of classes that have none themselves.
    pub objective: Objective,
    /// The rate assumed for a flow without a known one, in packets per second.
    pub assumed_rate: Option<u64>,
    /// The classes. A flow that two of them match belongs to the one with the higher priority, then to
    /// the earlier one.
    pub classes: Vec<Class>,
    /// Queues that belong to one application.
    pub dedicate: Vec<Dedication>,
    /// Cores of the workers, if flows should arrive near their applications.
    pub locality: Option<CoreLocality>,
    /// Costs of the graph behind each queue, if it should count.
    pub paths: Option<PathCosts>,
    /// How many workers receive from the default queue, if the policy says so.
    pub sharing: Option<Sharing>,
}

/// A class of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The packets of its flows.
    pub packets: Vec<Conj>,
    /// The application that the class belongs to, if it belongs to one.
    pub app: Option<AppId>,
    /// Its queues.
    pub queues: Queues,
    /// How much each of its flows counts.
    pub weight: u32,
    /// Classes with a higher priority are served earlier: with flows, with queues and with filters.
    pub priority: i32,
    /// Its objective on its queues, if not the document's.
    pub objective: Option<Objective>,
    /// How workers wait for its packets, if not as the stack is configured.
    pub mode: Option<QueueMode>,
    /// Whether the NIC drops its packets, so that none arrives.
    pub drop: bool,
    /// Whether packets of its flows must not overtake each other: they are kept off queues that workers share.
    pub ordered: bool,
}

/// The queues of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    /// The queues that no class has for itself.
    #[default]
    Shared,
    /// This many for itself.
    Exclusive(u32),
    /// These queues, for the class alone.
    Only(Vec<u32>),
}

/// The objective of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The same number of flows on each queue.
    #[default]
    Balance,
    /// The same rate on each queue.
    BalanceRate,
    /// Few queues, each with this many flows.
    Pack(u64),
    /// Few queues, each with this rate.
    PackRate(u64),
    /// The costs of several objectives, each times a factor, added up.
    Sum(Vec<(u32, Objective)>),
}

/// How a queue is waited for. Of several classes at a queue, the most impatient one decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueMode {
    /// Never polled.
    Interrupt,
    /// Polled while there is something to do.
    Adaptive,
    /// Always polled.
    Busy,
}

/// A queue for one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dedication {
    /// The application's number.
    pub app: u32,
    /// The queue.
    pub queue: u32,
}

/// Packets should arrive at the core of the application that reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreLocality {
    /// The core of each queue's worker, from queue 0 on.
    pub cores: Vec<u16>,
    /// The cost of a flow that arrives at another core, beside the objective.
    pub weight: u32,
}

impl Class {
    /// Whether it has a setting that only a class with queues can have.
    pub fn wants_queues(&self) -> bool {
        let has_wishes = self.objective.is_some() || self.mode.is_some() || self.ordered;
        has_wishes || self.queues != Queues::Shared
    }
}

impl Objective {
    fn policy(&self, assumed: u64) -> Box<dyn Policy> {
        match *self {
            Objective::Balance => Box::new(Balance::new(Measure::Flows)),
            Objective::BalanceRate => Box::new(Balance::new(Measure::Rate { assumed })),
            Objective::Pack(limit) => Box::new(Pack::new(Measure::Flows, limit)),
            Objective::PackRate(limit) => Box::new(Pack::new(Measure::Rate { assumed }, limit)),
            Objective::Sum(ref parts) => {
                let part = |(factor, objective): &(u32, Objective)| {
                    (f64::from(*factor), objective.policy(assumed))
                };
                Box::new(Sum::new(parts.iter().map(part).collect()))
            }
        }
    }
}

impl Document {
    /// The cost function. `host` has the graph that `paths` refers to; without it, `paths` has no
    /// effect.
    pub fn policy(&self, host: Option<&Host<'_>>) -> Box<dyn Policy> {
        let costs = host.zip(self.paths.as_ref()).map(|(host, paths)| {
            let packets: Vec<_> = self.classes.iter().map(|class| class.packets.clone()).collect();
            graph_costs(host, &packets, paths)
        });
        self.compose(costs)
    }

    /// The classifier that gives flows their classes. Building it takes time in proportion to the
    /// classes: keep it.
    pub fn classifier(&self) -> Classifier {
        let mut classifier =
            Classifier { classes: Vec::new(), dropped: Vec::new(), rest: self.rest() };
        for number in self.by_priority() {
            let class = &self.classes[number];
            if class.drop {
                classifier.dropped.push(classifier.classes.len());
            }
            classifier.classes.push(Classified {
                id: ClassId(number as u16),
                weight: class.weight,
                packets: class.packets.clone(),
                app: class.app,
            });
        }
        classifier
    }

    /// The numbers of the classes in the order in which they are tried for a flow.
    pub fn by_priority(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.classes.len()).collect();
        order.sort_by_key(|number| Reverse(self.classes[*number].priority));
        order
    }

    /// The class of flows that no class matches.
    fn rest(&self) -> ClassId {
        ClassId(self.classes.len() as u16)
    }

    /// The class of this name, and how much each of its flows counts.
    pub fn class_of(&self, name: &str) -> Option<(ClassId, u32)> {
        if name == "default" {
            return Some((self.rest(), 1));
        }
        let at = self.classes.iter().position(|class| class.name == name)?;
        Some((ClassId(at as u16), self.classes[at].weight))
    }

    /// Flows that the policy needs regardless of registered ones: all packets of each class that keeps its
    /// order while others share a queue ([`Class::ordered`]), since what no filter takes goes there; all packets of each class that is
    /// dropped ([`Class::drop`]), so that the NIC drops unregistered ones, too; and before them the
    /// part of these packets that belongs to classes of higher precedence, which has to arrive. The
    /// classifier is the document's own.
    pub fn standing_flows(&self, classifier: &Classifier) -> Vec<Flow> {
        let mut flows = Vec::new();
        for (at, Classified { id, weight, packets: conjs, app }) in
            classifier.classes.iter().enumerate()
        {
            let class = &self.classes[usize::from(id.0)];
            // An application's packets are not known beforehand: its flows are those of its
            // sockets.
            if app.is_some() || (!class.drop && !self.keeps_order(class)) {
                continue;
            }
            let name = self.class_name(*id);
            // Only of dropped packets does it matter that others keep theirs.
            let before = if class.drop { &classifier.classes[..at] } else { &[] };
            for Classified { id: other, weight: other_weight, packets: theirs, app } in before {
                if app.is_some() {
                    continue;
                }
                let both = shared(conjs, theirs);
                if both.is_empty() || self.classes[usize::from(other.0)].drop {
                    continue;
                }
                let kept = Flow::of(format!("{} of {name}", self.class_name(*other)), both);
                let kept = Flow { class: *other, weight: *other_weight, ..kept };
                flows.push(Flow { yields: classifier.yields(&kept), ..kept });
            }
            let whole = Flow::of(format!("all of {name}"), conjs.clone());
            let whole = Flow { class: *id, weight: *weight, ..whole };
            flows.push(Flow { yields: !class.drop && classifier.yields(&whole), ..whole });
        }
        flows
    }

    /// The wait mode of a worker at a queue with flows of these classes; nothing if none of them has a
    /// mode.
    pub fn mode_of(&self, classes: impl IntoIterator<Item = ClassId>) -> Option<QueueMode> {
        let classes = classes.into_iter().filter_map(|id| self.classes.get(usize::from(id.0)));
        classes.filter_map(|class| class.mode).max()
    }

    /// Whether a class has to be kept off a queue that workers share.
    fn keeps_order(&self, class: &Class) -> bool {
        let is_shared = self.sharing.is_some_and(|s| s.mode != SharingMode::ScaleOut);
        class.ordered && is_shared
    }

    /// The name of a class, for reports.
    pub fn class_name(&self, class: ClassId) -> &str {
        self.classes.get(usize::from(class.0)).map_or("default", |c| &c.name)
    }

    fn compose(&self, costs: Option<GraphCosts>) -> Box<dyn Policy> {
        let assumed = self.assumed_rate.unwrap_or(1000);
        let inner = |o: Option<&Objective>| o.unwrap_or(&self.objective).policy(assumed);
        let mut parts: Vec<(f64, Box<dyn Policy>)> = Vec::new();
        if self.classes.is_empty() {
            parts.push((1.0, inner(None)));
        } else {
            let share = |class: &Class| match &class.queues {
                _ if class.drop => Share::Nowhere,
                Queues::Shared => Share::Shared,
                Queues::Exclusive(n) => Share::Exclusive(*n),
                Queues::Only(queues) => Share::Queues(queues.iter().copied().collect::<QueueSet>()),
            };
            let classes = self.classes.iter();
            let classes = classes.map(|c| (c.name.clone(), share(c), inner(c.objective.as_ref())));
            let rest = ("default".to_string(), Share::Shared, inner(None));
            let priorities = self.classes.iter().map(|c| c.priority).collect();
            let isolate = Isolate::new(classes.chain([rest]).collect()).with_priorities(priorities);
            parts.push((1.0, Box::new(isolate)));
        }
        let ordered = (0..).zip(&self.classes).filter(|(_, class)| self.keeps_order(class));
        let ordered: Vec<_> =
            ordered.map(|(id, class)| (ClassId(id), class.name.clone())).collect();
        if !ordered.is_empty() {
            parts.push((1.0, Box::new(InOrder::new(ordered))));
        }
        for Dedication { app, queue } in &self.dedicate {
            parts.push((1.0, Box::new(Dedicated::new(AppId(*app), *queue))));
        }
        if let Some(CoreLocality { cores, weight }) = self.locality.clone() {
            let apart =
                move |queue: u32, core: u16| u32::from(cores.get(queue as usize) != Some(&core));
            parts.push((f64::from(weight), Box::new(Locality::new(apart))));
        }
        if let Some((costs, paths)) = costs.zip(self.paths.as_ref()) {
            parts.push((f64::from(paths.weight), Box::new(Paths::new(Arc::new(costs)))));
        }
        Box::new(Sum::new(parts))
    }
}

/// Gives flows their classes.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// The classes, by descending precedence.
    classes: Vec<Classified>,
    /// The classes that are dropped.
    dropped: Vec<usize>,
    rest: ClassId,
}

/// The parts of a class that tell which flows belong to it.
#[derive(Clone, Debug)]
struct Classified {
    id: ClassId,
    weight: u32,
    packets: Vec<Conj>,
    app: Option<AppId>,
}

impl Classified {
    /// Whether all packets of a flow belong to the class.
    fn has(&self, flow: &Flow) -> bool {
        let is_its = self.app.is_none_or(|app| flow.app == Some(app));
        is_its && flow.parts.iter().all(|part| self.packets.iter().any(|own| part.implies(own)))
    }
}

impl Classifier {
    /// Sets the flow's class and weight. The class is the first one that contains all of its packets, and is of
    /// the flow's application or of none; a flow without one gets the default class, after the last.
    pub fn classify(&self, flow: &mut Flow) {
        let found = self.classes.iter().find(|class| class.has(flow));
        (flow.class, flow.weight) =
            found.map_or((self.rest, flow.weight), |class| (class.id, class.weight));
        flow.yields = self.yields(flow);
    }

    /// Whether a dropped class precedes the flow's class and contains some of its packets.
    pub fn yields(&self, flow: &Flow) -> bool {
        let own = self.classes.iter().position(|class| class.id == flow.class);
        let before = self.dropped.iter().filter(|at| own.is_none_or(|own| **at < own));
        let mut theirs = before.flat_map(|at| &self.classes[*at].packets);
        theirs.any(|theirs| flow.parts.iter().any(|part| !part.disjoint(theirs)))
    }
}

/// The packets that two classes have both.
pub(super) fn shared(one: &[Conj], other: &[Conj]) -> Vec<Conj> {
    let both = one.iter().flat_map(|c| other.iter().map(|t| c.and(t)));
    both.filter(|c| !c.is_empty()).collect()
}

/// Whether the part of a dropped class that belongs to an earlier class can be a flow, which must
/// consist of few enough parts.
pub fn can_be_kept(kept: &[Conj], dropped: &[Conj]) -> bool {
    shared(dropped, kept).len() <= MAX_PARTS
}
