//! The cost of a host's graph for the packets of each class, for policies.

use std::collections::{HashMap, HashSet};

use weever_graph::{Attr, Graph, Node, NodeId, Predicate, Verified};

use crate::flow::Conj;
use crate::policy::{GraphCosts, NodeSet, PathCosts};
use crate::simplify::{QueueFacts, simplify};

/// The graph that runs behind a NIC's queues.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The graph, with its effects filled in.
    pub lpg: &'a Verified,
    /// The properties that the NIC guarantees for every packet ([`super::stated`]).
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
