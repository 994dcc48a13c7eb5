//! A graph that was simplified for a queue does the same as the whole graph: with every packet that
//! can reach the queue, and with every other one through the edge for unexpected packets.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use proptest::prelude::*;
use weever_block::Env;
use weever_blocks_std::host::provide;
use weever_blocks_std::testing::{self, HostBox, field_of, frames::*, host::host_state6};
use weever_engine::{CounterKind, Limits, Reading};
use weever_graph::{Field, Graph, Node, Predicate, Verified, verify};
use weever_models::{HostConfig, Service, host};
use weever_plan::config::{Configuration, Rss, Rule, Target};
use weever_plan::embed::{Arrival, arrivals};
use weever_plan::flow::Conj;
use weever_plan::nic::Nic;
use weever_plan::simplify::{
    ForeignPackets, HandOver, Home, QueueFacts, Simplified, SimplifyReport, simplify,
};
use weever_wire::fields::summarize;

#[allow(dead_code, reason = "shared with a test that needs more of it")]
#[path = "predicates"]
mod predicates {
    pub(crate) mod atoms;
    pub(crate) mod generate;
}
#[path = "simplified"]
mod simplified {
    pub(crate) mod figures;
    pub(crate) mod rules;
}

use predicates::atoms::{Facts, holds_of};
use predicates::generate::frames;
use simplified::rules::configurations;

pub(crate) fn whole() -> Verified {
    let mut graph = host(&HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9)).unwrap();
    weever_blocks_std::registry().annotate(&mut graph).unwrap();
    verify(graph).unwrap()
}

pub(crate) fn nic() -> Nic {
    Nic::of(&weever_models::nic("xdp").unwrap()).unwrap().with_queues(4).unwrap()
}

pub(crate) fn simplified_for(arrival: &Arrival, foreign: ForeignPackets) -> Simplified {
    let vouched = Predicate::True;
    simplify(&whole(), &QueueFacts { foreign, ..QueueFacts::of(&arrival.parts, &vouched) })
}

/// As another worker than the default one runs it.
pub(crate) fn at_worker(arrival: &Arrival, foreign: ForeignPackets) -> Simplified {
    let registry = weever_blocks_std::registry();
    let home = |node: &Node| registry.home_for_parts(node).map_or(Home::Any, Home::Elsewhere);
    let vouched = Predicate::True;
    let given = QueueFacts { home: &home, foreign, ..QueueFacts::of(&arrival.parts, &vouched) };
    simplify(&whole(), &given)
}

fn a_box(graph: Graph, env: &Env) -> HostBox {
    HostBox::in_env(graph, env, Limits::default())
}

fn env() -> Env {
    let env = testing::env();
    provide(&env, host_state6(), 0);
    env
}

type Drops = BTreeMap<(String, String), u64>;

fn drops(of: &HostBox) -> Drops {
    of.drops().into_iter().map(|(node, reason, n)| ((node, reason), n)).collect()
}

fn add(mut a: Drops, b: Drops) -> Drops {
    b.into_iter().for_each(|(key, n)| *a.entry(key).or_default() += n);
    a
}

/// A host that runs the whole graph, and one that runs a queue's graph with the whole one behind it.
struct Pair {
    reference: HostBox,
    queue: HostBox,
    default: HostBox,
    /// Nodes of the queue's graph that stand for nodes of the whole one.
    stubs: Vec<String>,
}

impl Pair {
    fn new(simplified: Simplified) -> Pair {
        let (one, other) = (env(), env());
        let reference = a_box(Graph::clone(&whole()), &one);
        let default = a_box(Graph::clone(&whole()), &other);
        let graph = simplified.graph;
        let stubs = graph.iter().filter(|(_, n)| n.param("worker").is_some());
        let stubs = stubs.map(|(_, n)| n.name.clone()).collect();
        let queue = a_box(graph, &other);
        let mut pair = Pair { reference, queue, default, stubs };
        // Neighbours that both hosts know, and no timer's packets.
        pair.reference.receive(&[arp_request(HOST)]);
        pair.default.receive(&[arp_request(HOST)]);
        pair.clear();
        pair
    }

    fn clear(&mut self) {
        drop((self.reference.sent(), self.queue.sent(), self.default.sent()));
    }

    /// Packets handed to nodes whose home is the default worker.
    fn handed_over(&self) -> u64 {
        let readings = self.queue.readings();
        let of_stubs = |r: &&Reading| self.stubs.iter().any(|s| **s == *r.node);
        let packets = readings.iter().filter(|r| r.kind == CounterKind::Packets).filter(of_stubs);
        packets.map(|r| r.value).sum()
    }

    fn check(&mut self, frame: &[u8]) -> Result<(), TestCaseError> {
        let before = self.handed_over();
        self.reference.receive(&[frame]);
        self.queue.receive(&[frame]);
        if self.handed_over() > before {
            self.default.receive(&[frame]);
        }
        let mut sent = self.queue.sent();
        sent.extend(self.default.sent());
        prop_assert_eq!(sent, self.reference.sent(), "sent for {:02x?}", frame);
        let both = add(drops(&self.queue), drops(&self.default));
        prop_assert_eq!(both, drops(&self.reference), "drops of {:02x?}", frame);
        Ok(())
    }
}

fn arrives(arrival: &Arrival, frame: &[u8]) -> bool {
    let parsed = summarize(frame);
    arrival.predicate().eval(&|field| field_of(&parsed, field), &|_| false)
}

/// Sums that a NIC may vouch for in all packets. Their nodes stay for datagrams that are put together here, and for what
/// the host sends to itself.
const VOUCHED: [&str; 2] = ["udp.checksum", "tcp.checksum"];
/// Shorter frames do not come from an Ethernet.
const SHORTEST: usize = 56;

/// The graph behind a NIC that vouches for the sums, and for the length of frames. Made once: it takes seconds.
fn vouched_for() -> &'static Simplified {
    static MADE: OnceLock<Simplified> = OnceLock::new();
    MADE.get_or_init(|| {
        let long = Predicate::Range { field: Field::FrameLen, lo: 0, hi: SHORTEST as u128 - 1 };
        let mut facts = VOUCHED.map(right).to_vec();
        facts.push(Predicate::Not(Box::new(long)));
        let (vouched, arriving) = (Predicate::And(facts), [Conj::all()]);
        let foreign = ForeignPackets::HandOver(HandOver::default());
        let given = QueueFacts { foreign, ..QueueFacts::of(&arriving, &vouched) };
        let simplified = simplify(&whole(), &given);
        let folded = &simplified.report.folded;
        assert!(folded.iter().any(|node| node == "RxL2EtherValidLength"), "{folded:?}");
        simplified
    })
}

/// That the sum which a label stands for is right.
fn right(label: &str) -> Predicate {
    Predicate::Atom { label: label.into(), value: "right".into() }
}

/// Whether all of that is true of a frame, or the frame has no such checksum.
fn is_vouched_for(frame: &[u8]) -> bool {
    let parsed = summarize(frame);
    let protocol = field_of(&parsed, Field::IpUpper);
    if frame.len() < SHORTEST {
        return false;
    }
    let facts = Facts { frame, known: &[] };
    VOUCHED
        .iter()
        .zip([17, 6])
        .all(|(label, of)| protocol != Some(of) || holds_of(label, "right", &facts))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) })]

    /// With any filters and any packets, which may contradict the filters.
    #[test]
    fn with_an_edge_for_strangers_every_packet_fares_alike(
        configuration in configurations(),
        frames in prop::collection::vec(frames(), 60),
    ) {
        for arrival in arrivals(&nic(), &configuration) {
            let foreign = ForeignPackets::HandOver(HandOver::default());
            let mut pair = Pair::new(at_worker(&arrival, foreign));
            for frame in &frames {
                pair.check(frame)?;
            }
        }
    }

    /// Without the node whose work a NIC vouches for, every packet of which that is true fares alike. What is true of it is
    /// what independent sums find.
    #[test]
    fn what_is_vouched_for_fares_alike_without_its_node(
        frames in prop::collection::vec(frames(), 200),
    ) {
        let mut pair = Pair::new(vouched_for().clone());
        for frame in frames.iter().filter(|frame| is_vouched_for(frame)) {
            pair.check(frame)?;
        }
    }

    /// Without it, those that can arrive do.
    #[test]
    fn without_it_every_packet_that_can_arrive_does(
        configuration in configurations(),
        frames in prop::collection::vec(frames(), 200),
    ) {
        for arrival in arrivals(&nic(), &configuration) {
            let simplified = simplified_for(&arrival, ForeignPackets::Never);
            prop_assert!(simplified.graph.find("RxForeign").is_none());
            let mut pair = Pair::new(simplified);
            for frame in frames.iter().filter(|f| arrives(&arrival, f)) {
                pair.check(frame)?;
            }
        }
    }
}
