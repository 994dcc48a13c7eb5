//! Paths: the cost of the graph behind each queue for the packets that go through it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Change, Cost, Policy, QueueSet, Subject};
use crate::map::{Placement, WHOLE};

/// Packets should have short paths through the graph of their queue. Costs are in units of an
/// ordinary node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathCosts {
    /// The cost of a flow that goes through the whole graph, beside the objective.
    pub weight: u32,
    /// The cost of handing packets to a node that runs at the default queue's worker only.
    pub crossing: u32,
    /// The costs of nodes that are not ordinary, by name.
    pub nodes: BTreeMap<String, u32>,
}

impl Default for PathCosts {
    fn default() -> PathCosts {
        PathCosts { weight: 1, crossing: 20, nodes: BTreeMap::new() }
    }
}

/// A set of nodes of the host's graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSet(Vec<u64>);

impl NodeSet {
    pub(crate) fn insert(&mut self, node: usize) {
        if self.0.len() <= node / 64 {
            self.0.resize(node / 64 + 1, 0);
        }
        self.0[node / 64] |= 1 << (node % 64);
    }

    fn add(&mut self, other: &NodeSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |(i, word): (usize, &u64)| {
            let word = *word;
            (0..64).filter(move |b| word >> b & 1 == 1).map(move |b| i * 64 + b)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

/// The host's graph, as far as it decides the cost of a packet at a queue:
/// [`crate::embed::graph_costs`] makes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphCosts {
    /// The cost of each node per batch, in units of an ordinary node.
    pub(crate) nodes: Vec<u32>,
    /// The nodes that run at the default queue's worker only.
    pub(crate) at_home: NodeSet,
    /// The cost of handing a batch to them.
    pub(crate) crossing: u32,
    /// The nodes that packets of each class can get to.
    pub(crate) classes: Vec<NodeSet>,
    /// The nodes that unknown packets can reach.
    pub(crate) others: NodeSet,
}

impl GraphCosts {
    /// The cost of a batch that goes through these nodes.
    fn of(&self, nodes: &NodeSet) -> u64 {
        nodes.iter().map(|n| u64::from(self.nodes.get(n).copied().unwrap_or(1))).sum()
    }

    /// The extra cost of a class's packets where they have to be handed over.
    fn handed_over(&self, class: usize) -> u64 {
        let home = |n: &usize| self.at_home.0.get(n / 64).is_some_and(|w| w >> (n % 64) & 1 == 1);
        u64::from(self.crossing) * self.nodes_of(class).iter().filter(home).count() as u64
    }

    fn nodes_of(&self, class: usize) -> &NodeSet {
        self.classes.get(class).unwrap_or(&self.others)
    }
}

/// The state of one queue.
#[derive(Clone, Debug, Default)]
struct AtQueue {
    /// How many flows of each class can arrive, and for the last one how often `other` does.
    present: Vec<u32>,
    /// The arriving load, in parts of `WHOLE`.
    load: i128,
    /// The cost of a batch there.
    cycles: u64,
    is_home: bool,
}

/// Minimises the path of packets through the graph: each flow counts the cost of a batch at its queue,
/// compared with the cost in the whole graph. A batch goes through every node needed by any class with
/// flows at the queue, and packets are handed over where a node that they need runs at the default
/// queue's worker; so classes that need different nodes are better apart, and those that need such
/// nodes are better at that queue.
pub struct Paths {
    graph: Arc<GraphCosts>,
    queues: Vec<AtQueue>,
    /// The sum over queues of load times cycles, and over flows of the cost of handing over.
    total: i128,
    /// The cost of handing over packets of each class, and of packets without a class.
    handed_over: Vec<u64>,
    whole: u64,
}

impl Paths {
    /// A policy that uses the costs of this graph.
    pub fn new(graph: Arc<GraphCosts>) -> Paths {
        let whole = graph.of(&graph.others).max(1);
        let handed_over = (0..=graph.classes.len()).map(|c| graph.handed_over(c)).collect();
        Paths { graph, queues: Vec::new(), total: 0, handed_over, whole }
    }

    fn class_of(&self, subject: &Subject) -> usize {
        let none = self.graph.classes.len();
        subject.class.map_or(none, |class| usize::from(class.0).min(none))
    }
}

impl AtQueue {
    /// Adds or removes a flow of a class; returns whether that changes the set of classes.
    fn count(&mut self, class: usize, change: Change) -> bool {
        if self.present.len() <= class {
            self.present.resize(class + 1, 0);
        }
        let present = &mut self.present[class];
        let before = *present > 0;
        match change {
            Change::Comes => *present += 1,
            Change::Goes => *present -= 1,
        }
        before != (*present > 0)
    }

    fn measure(&self, graph: &GraphCosts) -> u64 {
        let mut nodes = NodeSet::default();
        for (class, _) in self.present.iter().enumerate().filter(|(_, n)| **n > 0) {
            nodes.add(graph.nodes_of(class));
        }
        graph.of(&nodes)
    }

    fn cost(&self) -> i128 {
        self.load * i128::from(self.cycles)
    }
}

impl Policy for Paths {
    fn start(&mut self, queues: &QueueSet, default_queue: u32) {
        self.queues = vec![AtQueue::default(); queues.last() as usize + 1];
        if let Some(home) = self.queues.get_mut(default_queue as usize) {
            home.is_home = true;
        }
        self.total = 0;
    }

    fn apply(&mut self, subject: &Subject, placement: &Placement, change: Change) {
        let class = self.class_of(subject);
        for (queue, share) in placement.shares() {
            let Some(at) = self.queues.get_mut(queue as usize) else { continue };
            let load = change.signed(i128::from(subject.weight) * i128::from(share));
            if !at.is_home {
                self.total += load * i128::from(self.handed_over[class]);
            }
            self.total -= at.cost();
            at.load += load;
            if at.count(class, change) {
                at.cycles = at.measure(&self.graph);
            }
            self.total += at.cost();
        }
    }

    fn cost(&self) -> Cost {
        Cost::accept(self.total as f64 / f64::from(WHOLE) / self.whole as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::ClassId;
    use crate::map::Spread;

    fn set(nodes: &[usize]) -> NodeSet {
        let mut set = NodeSet::default();
        nodes.iter().for_each(|n| set.insert(*n));
        set
    }

    /// Nodes 0 to 2 are shared, 3 is of class 0, 70 and 71 of class 1; 71 runs at the default worker
    /// only.
    fn graph() -> Arc<GraphCosts> {
        let mut nodes = vec![1; 72];
        nodes[70] = 5;
        Arc::new(GraphCosts {
            nodes,
            at_home: set(&[71]),
            crossing: 10,
            classes: vec![set(&[0, 1, 2, 3]), set(&[0, 1, 2, 70, 71])],
            others: set(&[0, 1, 2, 3, 70, 71]),
        })
    }

    fn started() -> Paths {
        let mut paths = Paths::new(graph());
        paths.start(&(0..4).collect(), 0);
        paths
    }

    fn of_class(class: u16) -> Subject {
        let class = Some(ClassId(class));
        Subject { class, app: None, core: None, weight: 1, rate: None, yields: false }
    }

    /// In nodes rather than in whole graphs, which has 10.
    fn nodes(paths: &Paths) -> f64 {
        (paths.cost().value * 10.0 * 1000.0).round() / 1000.0
    }

    #[test]
    fn a_queue_costs_what_its_classes_need() {
        assert_eq!(graph().of(&graph().others), 10);
        let mut paths = started();
        paths.apply(&of_class(0), &Placement::One(1), Change::Comes);
        assert_eq!(nodes(&paths), 4.0);
        paths.apply(&of_class(1), &Placement::One(2), Change::Comes);
        assert_eq!(nodes(&paths), 4.0 + 9.0 + 10.0, "a node of it is at home elsewhere");
        paths.apply(&of_class(1), &Placement::One(2), Change::Goes);
        paths.apply(&of_class(1), &Placement::One(0), Change::Comes);
        assert_eq!(nodes(&paths), 4.0 + 9.0);
        paths.apply(&of_class(0), &Placement::One(0), Change::Comes);
        assert_eq!(nodes(&paths), 4.0 + 2.0 * 10.0, "both need the whole graph there");
        paths.apply(&Subject::OTHER, &Placement::One(1), Change::Comes);
        assert_eq!(nodes(&paths), 20.0 + 10.0, "and where anything may arrive, it takes all");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The sums equal those counted from nothing, and changes leave no trace.
        #[test]
        fn deltas_add_up(steps in proptest::collection::vec((0u16..4, 0u32..4, 0u32..4, any::<bool>()), 0..40)) {
            let mut kept = started();
            let mut there: Vec<(Subject, Placement)> = Vec::new();
            for (class, queue, other, goes) in steps {
                if goes && !there.is_empty() {
                    let (subject, placement) = there.swap_remove(usize::from(class) % there.len());
                    kept.apply(&subject, &placement, Change::Goes);
                } else {
                    let subject = if class == 3 { Subject::OTHER } else { of_class(class) };
                    let shares = vec![(queue, WHOLE / 4), (queue.max(other) + 1, WHOLE / 4 * 3)];
                    let spread = Spread { shares, dropped: 0, certain: true };
                    let placement = match queue == other {
                        true => Placement::One(queue),
                        false => Placement::Spread(Arc::new(spread)),
                    };
                    kept.apply(&subject, &placement, Change::Comes);
                    there.push((subject, placement));
                }
                let mut fresh = started();
                there.iter().for_each(|(s, p)| fresh.apply(s, p, Change::Comes));
                prop_assert_eq!(kept.total, fresh.total);
            }
        }
    }
}
