//! Simplification: removes the nodes that no packet of a queue can reach (Dragonet thesis §2.3.2).
//!
//! The conditions on arriving packets are propagated along the edges (`spread`): at an F-node the
//! predicates of its ports are added, at an O-node the operands' outcomes are combined with its three
//! values, at a T-node entries select. Ports by which nothing can leave lose their edges, nodes that
//! nothing reaches go (`sever`), and validators whose outcome is known, with operators that have one
//! operand left, become edges (`fold`). Nodes started by spawn edges, timers and other workers stay.
//!
//! A packet may arrive that a queue's graph was not made for: a plan is being changed, or the NIC does
//! not follow its model. With [`ForeignPackets::HandOver`], the tests that detect such packets stay,
//! and a packet that leaves the kept nodes goes to the whole graph at the default worker (`guard`). The
//! graph is then right for *every* packet, whatever the plan; the plan decides only which of them take
//! the long way. Validators are left out only because the NIC guarantees their outcome or because of
//! other nodes of the graph. With [`ForeignPackets::Never`], all statements of the plan are used.

mod fold;
mod guard;
mod meaning;
mod report;
mod sever;
mod spread;
#[cfg(test)]
mod tests;

pub use guard::{HandOver, Home};
pub use report::{SimplifyReport, Size};

use std::collections::HashSet;

use weever_graph::{Graph, Node, Predicate, Verified};

use crate::flow::Conj;
use meaning::PacketSet;
use spread::{TaskStarts, spread};

/// The treatment of packets that the graph is not made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForeignPackets {
    /// There are none: the plan's statements hold for every packet that arrives.
    #[default]
    Never,
    /// They are handed over to the whole graph.
    HandOver(HandOver),
}

/// The facts about a queue and its worker that simplification may use.
pub struct QueueFacts<'a> {
    /// Every packet that can arrive is in one of these.
    pub arriving: &'a [Conj],
    /// A predicate that the NIC guarantees for every packet.
    pub vouched: &'a Predicate,
    /// A predicate that all links make true of packets that are sent.
    pub filled: &'a Predicate,
    /// The home of each node.
    pub home: &'a dyn Fn(&Node) -> Home,
    /// The treatment of other packets.
    pub foreign: ForeignPackets,
    /// The implementation, with one port `out`, that stands in for nodes which run elsewhere.
    pub pass_on: &'a str,
}

impl<'a> QueueFacts<'a> {
    /// These packets arrive and nothing else; one worker runs all nodes.
    pub fn of(arriving: &'a [Conj], vouched: &'a Predicate) -> QueueFacts<'a> {
        let (home, foreign) = (&|_: &Node| Home::Any, ForeignPackets::Never);
        QueueFacts {
            arriving,
            vouched,
            filled: &Predicate::True,
            home,
            foreign,
            pass_on: "RxQueue",
        }
    }
}

/// A simplified graph, with a report of the changes.
#[derive(Clone, Debug)]
pub struct Simplified {
    /// The graph. Nodes that were in the graph before keep their names.
    pub graph: Graph,
    /// The changes.
    pub report: SimplifyReport,
}

/// Removes from `graph` the nodes that no packet of `given` can reach. Effects of nodes must have been
/// filled in; a node without stays a node.
pub fn simplify(graph: &Verified, given: &QueueFacts<'_>) -> Simplified {
    let mut now = Graph::clone(graph);
    let entrances = guard::entrances(&now, given.home);
    guard::stand_in(&mut now, given.home, given.pass_on);
    let vouched = meaning::meaning(given.vouched, true);
    let arriving = PacketSet::of(given.arriving.iter().cloned()).and(&vouched);
    let filled = meaning::meaning(given.filled, true);
    let mut report = SimplifyReport::of(graph);
    let done = fold::Done { vouched: &vouched, filled: &filled };
    let known = |arriving| Known { arriving, done, entrances: &entrances };
    let checked = match &given.foreign {
        ForeignPackets::Never => &arriving,
        ForeignPackets::HandOver(to) => {
            // Nodes that nothing needs must not cause packets to be handed over.
            while known(&vouched).round(&mut now, &mut report) {}
            now = guard::guard(&now, &arriving, &entrances, to, given.pass_on, &mut report);
            &vouched
        }
    };
    while known(checked).round(&mut now, &mut report) {}
    report.finish(&now);
    Simplified { graph: now, report }
}

struct Known<'a> {
    arriving: &'a PacketSet,
    done: fold::Done<'a>,
    entrances: &'a HashSet<String>,
}

impl Known<'_> {
    /// Severs edges and folds nodes; returns whether anything changed.
    fn round(&self, graph: &mut Graph, report: &mut SimplifyReport) -> bool {
        let starts = TaskStarts { arriving: self.arriving, entrances: self.entrances, forced: &[] };
        let spread_now = spread(graph, &starts);
        let severed = sever::sever(graph, &spread_now);
        let again = spread(graph, &starts);
        let folded = fold::fold(graph, &again, self.done, self.entrances);
        let any = severed || !folded.is_empty();
        report.folded.extend(folded);
        any
    }
}
