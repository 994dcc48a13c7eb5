//! A policy as people write it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use weever_graph::Predicate;

use super::classifier::{Classifier, can_be_kept};
use super::{
    Balance, Dedicated, GraphCosts, Isolate, Locality, Measure, Pack, Paths, Policy, QueueSet,
    Share, Sum,
};
use crate::embed::{Host, graph_costs};
use crate::flow::{AppId, ClassId, Conj, Flow, MAX_PARTS, TooComplex, conjunctions};

/// A page of policy: classes and objectives.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Document {
    /// What flows of no class want, and classes that say nothing themselves.
    pub objective: Objective,
    /// What a flow counts whose rate is not known.
    pub assumed_rate: Option<u64>,
    /// The classes. Of two that match a flow, the one with the higher priority has it, then the
    /// earlier one.
    #[serde(rename = "class")]
    pub classes: Vec<Class>,
    /// Queues that belong to one application.
    pub dedicate: Vec<Dedication>,
    /// Where workers run, if flows are to arrive near their applications.
    pub locality: Option<Near>,
    /// What the graph behind each queue is to count for, if it is to count.
    pub paths: Option<NearNodes>,
}

/// A class of flows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The packets of its flows, as a filter in the syntax of the caller's parser.
    #[serde(rename = "match")]
    pub matches: String,
    /// Its queues.
    #[serde(default)]
    pub queues: Queues,
    /// How much each of its flows counts.
    #[serde(default = "one")]
    pub weight: u32,
    /// The higher, the earlier it is served: with flows, with queues and with filters.
    #[serde(default)]
    pub priority: i32,
    /// What it wants on its queues, if not what the document says.
    pub objective: Option<Objective>,
    /// How its queues are waited for, if not as others are.
    pub mode: Option<QueueMode>,
    /// Whether the NIC is to drop its packets, none of which arrives then.
    #[serde(default)]
    pub drop: bool,
}

fn one() -> u32 {
    1
}

/// The queues of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// Those that no class has for itself.
    #[default]
    Shared,
    /// So many for itself.
    Exclusive(u32),
    /// These for itself.
    Only(Vec<u32>),
}

/// What is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The same number of flows on each queue.
    #[default]
    Balance,
    /// The same rate on each queue.
    BalanceRate,
    /// Few queues, of which each takes so many flows.
    Pack(u64),
    /// Few queues, of which each takes such a rate.
    PackRate(u64),
}

/// How a queue is waited for: a queue of several classes as the most impatient of them wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueMode {
    /// Never polled.
    Interrupt,
    /// Polled while there is something to do.
    Adaptive,
    /// Always polled.
    Busy,
}

/// A queue for one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dedication {
    /// The application's number.
    pub app: u32,
    /// The queue.
    pub queue: u32,
}

/// That packets should arrive at the core of the application that reads them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Near {
    /// The core of each queue's worker, from queue 0 on.
    pub cores: Vec<u16>,
    /// What a flow costs that arrives at another core, beside the objective.
    #[serde(default = "one")]
    pub weight: u32,
}

/// That packets should have short ways through the graph of their queue. Costs are in units of an
/// ordinary node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NearNodes {
    /// What a flow costs that goes through the whole graph, beside the objective.
    pub weight: u32,
    /// What it costs to hand packets to a node that runs at the default queue's worker only.
    pub crossing: u32,
    /// What nodes cost that are not ordinary, by name.
    pub nodes: BTreeMap<String, u32>,
}

impl Default for NearNodes {
    fn default() -> NearNodes {
        NearNodes { weight: 1, crossing: 20, nodes: BTreeMap::new() }
    }
}

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// Two classes have one name.
    #[error("two classes are called `{name}`; rename one of them")]
    Twice {
        /// The name.
        name: String,
    },
    /// A class has no queues.
    #[error(
        "class `{class}` is to have no queue at all; give it one, or write `queues = \"shared\"`"
    )]
    NoQueue {
        /// The class.
        class: String,
    },
    /// A queue is promised twice.
    #[error("queue {queue} is promised to `{first}` and to `{second}`")]
    Contradiction {
        /// The queue.
        queue: u32,
        /// Who has it.
        first: String,
        /// Who is to have it as well.
        second: String,
    },
    /// A weight is out of range.
    #[error("the weight of class `{class}` is {weight}; it has to be between 1 and {most}")]
    Weight {
        /// The class.
        class: String,
        /// Its weight.
        weight: u32,
        /// The largest.
        most: u32,
    },
    /// A class that is dropped wants queues.
    #[error("class `{class}` is to be dropped, so it has no queues and wants nothing of them")]
    Dropped {
        /// The class.
        class: String,
    },
    /// A filter is no filter.
    #[error("class `{class}`: {reason}")]
    Match {
        /// The class.
        class: String,
        /// What the parser says.
        reason: String,
    },
    /// A filter takes too many conjunctions.
    #[error("class `{class}`: {source}")]
    TooComplex {
        /// The class.
        class: String,
        /// How many were allowed.
        source: TooComplex,
    },
    /// No packet is in a class.
    #[error("class `{class}` matches no packet: its conditions contradict each other")]
    Empty {
        /// The class.
        class: String,
    },
    /// No flow can be in a class.
    #[error(
        "class `{class}` never gets a flow: `{by}` comes before it and matches all of its packets"
    )]
    Hidden {
        /// The class.
        class: String,
        /// The one that hides it.
        by: String,
    },
    /// What belongs to a class before it cannot be kept out of a drop.
    #[error(
        "class `{class}` is to be dropped, but what `{by}` has of its packets takes more than {most} \
         filters"
    )]
    Kept {
        /// The class.
        class: String,
        /// The one that comes before it.
        by: String,
        /// The limit.
        most: usize,
    },
}

impl Class {
    /// Whether it says anything that only a class with queues can want.
    pub fn wants_queues(&self) -> bool {
        self.queues != Queues::Shared || self.objective.is_some() || self.mode.is_some()
    }
}

impl Objective {
    fn policy(self, assumed: u64) -> Box<dyn Policy> {
        match self {
            Objective::Balance => Box::new(Balance::new(Measure::Flows)),
            Objective::BalanceRate => Box::new(Balance::new(Measure::Rate { assumed })),
            Objective::Pack(limit) => Box::new(Pack::new(Measure::Flows, limit)),
            Objective::PackRate(limit) => Box::new(Pack::new(Measure::Rate { assumed }, limit)),
        }
    }
}

impl Document {
    /// The policy, and who is in which class. `parse` turns a class's `match` into a predicate, and
    /// `host` is the one whose graph `paths` is about; without one, that counts for nothing.
    ///
    /// # Errors
    /// [`DocumentError`] names the class, and the other one if it takes two.
    pub fn build<E: std::fmt::Display>(
        &self,
        parse: impl Fn(&str) -> Result<Predicate, E>,
        host: Option<&Host<'_>>,
    ) -> Result<(Box<dyn Policy>, Classifier), DocumentError> {
        self.check()?;
        let classifier = self.classifier(parse)?;
        let costs = host.zip(self.paths.as_ref());
        let costs = costs.map(|(host, paths)| graph_costs(host, &classifier.packets(), paths));
        Ok((self.policy(costs), classifier))
    }

    /// Flows that the policy asks for whatever else there is: see [`Class::drop`]. The classifier is the
    /// one that [`Document::build`] returned.
    pub fn standing_flows(&self, classifier: &Classifier) -> Vec<Flow> {
        classifier.standing(self)
    }

    /// How a queue wants to be waited for at which flows of these classes arrive; nothing if none of
    /// them says.
    pub fn mode_of(&self, classes: impl IntoIterator<Item = ClassId>) -> Option<QueueMode> {
        let classes = classes.into_iter().filter_map(|id| self.classes.get(usize::from(id.0)));
        classes.filter_map(|class| class.mode).max()
    }

    /// The name of a class, for reports.
    pub fn class_name(&self, class: ClassId) -> &str {
        self.classes.get(usize::from(class.0)).map_or("default", |c| &c.name)
    }

    fn check(&self) -> Result<(), DocumentError> {
        let mut promised: Vec<(u32, &str)> = Vec::new();
        for (i, class) in self.classes.iter().enumerate() {
            let name = &class.name;
            if self.classes[..i].iter().any(|c| c.name == *name) {
                return Err(DocumentError::Twice { name: name.clone() });
            }
            if class.weight == 0 || class.weight > Flow::MAX_WEIGHT {
                let (class, weight) = (name.clone(), class.weight);
                return Err(DocumentError::Weight { class, weight, most: Flow::MAX_WEIGHT });
            }
            if class.drop && class.wants_queues() {
                return Err(DocumentError::Dropped { class: name.clone() });
            }
            let named = match &class.queues {
                Queues::Exclusive(0) => return Err(DocumentError::NoQueue { class: name.clone() }),
                Queues::Only(q) if q.is_empty() => {
                    return Err(DocumentError::NoQueue { class: name.clone() });
                }
                Queues::Only(queues) => queues.as_slice(),
                _ => &[],
            };
            for queue in named {
                if let Some((_, first)) = promised.iter().find(|(q, _)| q == queue) {
                    let (first, second) = (first.to_string(), name.clone());
                    return Err(DocumentError::Contradiction { queue: *queue, first, second });
                }
                promised.push((*queue, name));
            }
        }
        self.check_dedications(&promised)
    }

    fn check_dedications(&self, promised: &[(u32, &str)]) -> Result<(), DocumentError> {
        for (i, Dedication { app, queue }) in self.dedicate.iter().enumerate() {
            let earlier = self.dedicate[..i].iter().find(|d| d.queue == *queue);
            let first = earlier.map(|d| format!("application {}", d.app)).or_else(|| {
                let class = promised.iter().find(|(q, _)| q == queue)?.1;
                Some(class.to_string())
            });
            if let Some(first) = first {
                let second = format!("application {app}");
                return Err(DocumentError::Contradiction { queue: *queue, first, second });
            }
        }
        Ok(())
    }

    fn policy(&self, costs: Option<GraphCosts>) -> Box<dyn Policy> {
        let assumed = self.assumed_rate.unwrap_or(1000);
        let inner = |o: Option<Objective>| o.unwrap_or(self.objective).policy(assumed);
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
            let classes = classes.map(|c| (c.name.clone(), share(c), inner(c.objective)));
            let rest = ("default".to_string(), Share::Shared, inner(None));
            let priorities = self.classes.iter().map(|c| c.priority).collect();
            let isolate = Isolate::new(classes.chain([rest]).collect()).with_priorities(priorities);
            parts.push((1.0, Box::new(isolate)));
        }
        for Dedication { app, queue } in &self.dedicate {
            parts.push((1.0, Box::new(Dedicated::new(AppId(*app), *queue))));
        }
        if let Some(Near { cores, weight }) = self.locality.clone() {
            let apart =
                move |queue: u32, core: u16| u32::from(cores.get(queue as usize) != Some(&core));
            parts.push((f64::from(weight), Box::new(Locality::new(apart))));
        }
        if let Some((costs, paths)) = costs.zip(self.paths.as_ref()) {
            parts.push((f64::from(paths.weight), Box::new(Paths::new(Arc::new(costs)))));
        }
        Box::new(Sum::new(parts))
    }

    fn classifier<E: std::fmt::Display>(
        &self,
        parse: impl Fn(&str) -> Result<Predicate, E>,
    ) -> Result<Classifier, DocumentError> {
        let mut order: Vec<usize> = (0..self.classes.len()).collect();
        order.sort_by_key(|i| std::cmp::Reverse(self.classes[*i].priority));
        let mut classes: Vec<(ClassId, u32, Vec<Conj>)> = Vec::new();
        let mut dropped = Vec::new();
        for i in order {
            let class = &self.classes[i];
            let name = || class.name.clone();
            let predicate = parse(&class.matches)
                .map_err(|e| DocumentError::Match { class: name(), reason: e.to_string() })?;
            let conjs = conjunctions(&predicate, MAX_PARTS)
                .map_err(|source| DocumentError::TooComplex { class: name(), source })?;
            if conjs.is_empty() {
                return Err(DocumentError::Empty { class: name() });
            }
            let covers = |by: &[Conj]| conjs.iter().all(|c| by.iter().any(|b| c.implies(b)));
            if let Some((by, ..)) = classes.iter().find(|(.., by)| covers(by)) {
                let by = self.class_name(*by).to_string();
                return Err(DocumentError::Hidden { class: name(), by });
            }
            if class.drop {
                let kept =
                    |(id, ..): &&(ClassId, u32, Vec<Conj>)| !self.classes[usize::from(id.0)].drop;
                let many = classes.iter().filter(kept).find(|(.., by)| !can_be_kept(by, &conjs));
                if let Some((by, ..)) = many {
                    let by = self.class_name(*by).to_string();
                    return Err(DocumentError::Kept { class: name(), by, most: MAX_PARTS });
                }
                dropped.push(classes.len());
            }
            classes.push((ClassId(i as u16), class.weight, conjs));
        }
        Ok(Classifier { classes, dropped, rest: ClassId(self.classes.len() as u16) })
    }
}
