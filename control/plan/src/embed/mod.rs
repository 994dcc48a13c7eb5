//! Embedding: a copy of the LPG behind every queue of the configured PRG (Dragonet thesis §2.3.1), each
//! without the nodes that are not needed there (§2.3.2).
//!
//! [`arrivals`] computes the packets that can arrive at each queue: a disjunction that covers every
//! packet which the filters and the hash may send there, `other` included. [`stated`] gives the
//! properties that the NIC guarantees for every packet that it delivers: the predicate at the port of
//! the PRG's source. [`embed`] gives both to [`simplify`](crate::simplify) for each queue. [`needs`]
//! reduces arrivals to the distinctions that a graph can make, for code that keeps graphs in step with
//! plans.

mod arrivals;
mod costs;
mod needs;
#[cfg(test)]
mod tests;

pub use arrivals::arrivals;
pub use costs::{Host, graph_costs};
pub use needs::{either, needs, tested};

use weever_graph::{Attr, Graph, Node, Predicate, Verified};

use crate::config::Configuration;
use crate::flow::Conj;
use crate::nic::Nic;
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

/// The properties that a NIC guarantees for every packet: the predicate at the port of the PRG's
/// source, as in `predicate out "pred(udp.checksum,right)"`. [`Predicate::True`] if it guarantees
/// nothing.
pub fn stated(prg: &Graph) -> Predicate {
    let source = prg.iter().map(|(_, node)| node).find(|n| n.has(&Attr::Source));
    source.and_then(|n| n.ports.first()).map(|p| p.predicate.clone()).unwrap_or_default()
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
    let vouched = stated(prg);
    let elsewhere = |node: &Node| match (execution.single_homed)(node) {
        true => Home::Elsewhere(0),
        false => Home::Any,
    };
    let graph = |arrival: Arrival| {
        let known = QueueFacts::of(&arrival.parts, &vouched);
        let home = if arrival.queue == nic.default_queue { known.home } else { &elsewhere };
        let given = QueueFacts { foreign: execution.foreign.clone(), home, ..known };
        let simplified = simplify(lpg, &given);
        Embedded { arrival, simplified }
    };
    arrivals(nic, configuration).into_iter().map(graph).collect()
}
