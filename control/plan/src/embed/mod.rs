//! Embedding: a copy of the LPG behind every queue of the configured PRG (Dragonet thesis §2.3.1), each
//! without the nodes that are not needed there (§2.3.2).
//!
//! [`arrivals`] computes the packets that can arrive at each queue: a disjunction that covers every
//! packet which the filters and the hash may send there, `other` included. [`stated`] gives what
//! the NIC guarantees of packets: its features that are on, and the predicate at the port of
//! the PRG's source. [`embed`] gives both to [`simplify`](crate::simplify) for each queue. [`needs`]
//! reduces arrivals to the distinctions that a graph can make, for code that keeps graphs in step with
//! plans.

mod arrivals;
#[cfg(test)]
mod tests;

pub use arrivals::{arrivals, either, needs, tested};

use std::collections::{HashMap, HashSet};

use weever_graph::{Attr, Graph, Node, NodeId, Predicate, Verified};

use crate::config::Configuration;
use crate::flow::Conj;
use crate::nic::{Nic, Setting, Vouched};
use crate::policy::{GraphCosts, NodeSet, PathCosts};
use crate::simplify::{ForeignPackets, Home, QueueFacts, Simplified, simplify};

/// The packets that can arrive at a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// The queue.
    pub queue: u32,
    /// Every packet that can arrive is in one of these.
    pub parts: Vec<Conj>,
}

impl Arrival {
    /// The same as one predicate.
    pub fn predicate(&self) -> Predicate {
        Predicate::Or(self.parts.iter().map(Conj::to_predicate).collect())
    }
}

/// What a NIC does for a host's graph with these settings of its features; the predicate at the port of the
/// PRG's source, as in `predicate out "frame.len >= 60"`, is among what it always vouches for.
pub fn stated(prg: &Graph, nic: &Nic, settings: &[Setting]) -> Vouched {
    let source = prg.iter().map(|(_, node)| node).find(|n| n.has(&Attr::Source));
    let said = source.and_then(|n| n.ports.first()).map(|p| p.predicate.clone());
    let mut vouched = nic.vouched(settings);
    vouched.always.extend(said.filter(|predicate| *predicate != Predicate::True));
    vouched
}

/// The graph behind one queue.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// The queue and the packets that can arrive there.
    pub arrival: Arrival,
    /// The simplified graph of the queue.
    pub simplified: Simplified,
}

/// The execution of the queues' graphs: one worker for each queue.
pub struct ExecutionModel<'a> {
    /// The treatment of packets that a queue's graph is not made for.
    pub foreign: ForeignPackets,
    /// Whether a node runs at the default worker, number 0, only, because its state is in one place.
    /// The default worker serves the default queue, others the other queues.
    pub single_homed: &'a dyn Fn(&Node) -> bool,
}

/// The graph of every queue at which anything can arrive, by ascending queue.
pub fn embed(
    prg: &Graph,
    nic: &Nic,
    configuration: &Configuration,
    lpg: &Verified,
    execution: &ExecutionModel<'_>,
) -> Vec<Embedded> {
    let vouched = stated(prg, nic, &settings(nic, configuration, lpg));
    let (always, filled) = (vouched.always(), vouched.filled());
    let elsewhere = |node: &Node| match (execution.single_homed)(node) {
        true => Home::Elsewhere(0),
        false => Home::Any,
    };
    let graph = |arrival: Arrival| {
        let known = QueueFacts::of(&arrival.parts, &always);
        let home = if arrival.queue == nic.default_queue { known.home } else { &elsewhere };
        let foreign = execution.foreign.clone();
        let given = QueueFacts { foreign, home, filled: &filled, ..known };
        let simplified = simplify(lpg, &given);
        Embedded { arrival, simplified }
    };
    arrivals(nic, configuration).into_iter().map(graph).collect()
}

/// The features that have to be on or off for a configuration's rules and for a host's graph.
pub fn settings(nic: &Nic, configuration: &Configuration, lpg: &Graph) -> Vec<Setting> {
    let mut settings = nic.settings(configuration);
    settings.extend(nic.useful(lpg));
    settings
}

/// The graph that runs behind a NIC's queues.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The graph, with its effects filled in.
    pub lpg: &'a Verified,
    /// The properties that the NIC guarantees for every packet ([`self::stated`]).
    pub vouched: &'a Predicate,
    /// Whether a node runs at the default queue's worker only.
    pub single_homed: &'a dyn Fn(&Node) -> bool,
}

/// The cost of the graph of `host` for the packets of each of `classes`. For each class the graph is
/// simplified for its packets; the nodes that remain on the way from the source are those that it
/// needs.
pub fn graph_costs(host: &Host<'_>, classes: &[Vec<Conj>], settings: &PathCosts) -> GraphCosts {
    let all: Vec<(NodeId, &Node)> = host.lpg.iter().collect();
    let numbers: HashMap<&str, usize> =
        all.iter().enumerate().map(|(at, (_, node))| (node.name.as_str(), at)).collect();
    let cost = |node: &Node| settings.nodes.get(&node.name).copied().unwrap_or(1);
    let set = |graph: &Graph| {
        let mut set = NodeSet::default();
        for name in on_the_way(graph, host.single_homed) {
            numbers.get(name).into_iter().for_each(|at| set.insert(*at));
        }
        set
    };
    let of_class =
        |conjs: &Vec<Conj>| set(&simplify(host.lpg, &QueueFacts::of(conjs, host.vouched)).graph);
    let mut at_home = NodeSet::default();
    let homed = all.iter().enumerate().filter(|(_, (_, node))| (host.single_homed)(node));
    homed.for_each(|(at, _)| at_home.insert(at));
    GraphCosts {
        nodes: all.iter().map(|(_, node)| cost(node)).collect(),
        at_home,
        crossing: settings.crossing,
        classes: classes.iter().map(of_class).collect(),
        others: set(host.lpg),
    }
}

/// The names of the nodes that a packet can reach from a source. Nodes that it starts as another task
/// do not count, unless they run elsewhere and the packet has to be handed over.
fn on_the_way<'g>(graph: &'g Graph, is_homed: &dyn Fn(&Node) -> bool) -> HashSet<&'g str> {
    let sources = graph.iter().filter(|(_, n)| n.has(&Attr::Source)).map(|(id, _)| id);
    let mut open: Vec<NodeId> = sources.collect();
    let mut found = HashSet::new();
    while let Some(id) = open.pop() {
        let node = graph.node(id);
        if found.insert(node.name.as_str()) {
            open.extend(node.ports.iter().flat_map(|p| &p.targets));
            let started = node.spawns.iter().map(|edge| graph.node(edge.target));
            found.extend(started.filter(|n| is_homed(n)).map(|n| n.name.as_str()));
        }
    }
    found
}
