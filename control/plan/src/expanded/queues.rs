//! From one node for all queues to one for each.

use std::collections::BTreeSet;

use weever_graph::nic::{QueueRange, Queues};
use weever_graph::{Graph, Node, NodeId};

use crate::config::{Configuration, Target};
use crate::nic::Nic;

/// The ports by which a rule or a hash sends packets to a queue of its choice.
const CHOOSING: [&str; 2] = ["queues", "queue"];

/// The queues that the configuration names, and the default one.
pub(super) fn used(nic: &Nic, configuration: &Configuration) -> BTreeSet<u32> {
    let rules = configuration.rules.iter().flatten().filter_map(|r| match r.target {
        Target::Queue(queue) => Some(queue),
        Target::Context(_) | Target::Drop => None,
    });
    let contexts = configuration.contexts.iter().flatten().copied();
    let spread = configuration.rss.table.iter().copied();
    rules.chain(spread).chain(contexts).chain([nic.default_queue]).collect()
}

/// The graph with a node for each of `queues`. Where a rule or a hash chooses, every one of them can be
/// chosen; elsewhere the node for all queues represents the default one.
pub(super) fn one_node_each(prg: &Graph, queues: &BTreeSet<u32>, default: u32) -> Graph {
    let mut graph = prg.clone();
    let Some((all, template)) = prg.iter().find(|(_, n)| n.queues.is_some()) else { return graph };
    let single = |queue: u32| {
        let all = QueueRange { lo: queue, hi: queue };
        let name = format!("{}{queue}", template.name);
        Node { name, queues: Some(Queues { all, linux: None }), ..template.clone() }
    };
    // The first takes the place of the node for all, so that no id moves.
    let mut ids = Vec::new();
    for (i, queue) in queues.iter().enumerate() {
        if i == 0 {
            *graph.node_mut(all) = single(*queue);
            ids.push(all);
        } else {
            ids.push(graph.add(single(*queue)));
        }
    }
    let sources: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
    for id in sources {
        for port in &mut graph.node_mut(id).ports {
            if port.targets.contains(&all) {
                port.targets.retain(|t| *t != all);
                let chosen = CHOOSING.contains(&port.name.as_str());
                let at = queues.iter().position(|q| *q == default);
                port.targets.extend(at.filter(|_| !chosen).map_or(&ids[..], |at| &ids[at..=at]));
            }
        }
    }
    graph
}

/// The node of `queue` in a graph with one for each.
pub(super) fn node_of(graph: &Graph, queue: u32) -> Option<NodeId> {
    let is = |n: &Node| n.queues.is_some_and(|q| q.all.lo == queue && q.all.hi == queue);
    graph.iter().find(|(_, n)| is(n)).map(|(id, _)| id)
}
