//! Graphs that users may write, with and without compiled runs: random nodes behind the parsing of headers, in
//! front of it and in between, with operators and counters.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use weever_block::Registry;
use weever_engine::{Limits, Member, MemberQueue, Reading, Team};
use weever_graph::{Field, Graph, Node, NodeId, NodeKind, Op, Port, Predicate, Relation, Set};

use weever_link::Link;
use weever_link::memory::{MemoryConfig, pair};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, Service, host};
use weever_packet::{HugePages, Pool, PoolConfig};

use weever_blocks_std::host::provide;
use weever_blocks_std::registry;
use weever_blocks_std::testing::{HostBox, env, frames::*, frames6::*, host::host_state6};

/// A node that is to be made: its kind, predicates, and where its ports lead.
#[derive(Clone, Debug)]
struct Plan {
    kind: u8,
    predicates: Vec<Predicate>,
    targets: Vec<u16>,
}

/// The block of the host's that records where headers are, and the predicate of its text.
const PARSER: (&str, Predicate) = ("RxL2EtherClassified", at_least(Field::FrameLen, 14));

const fn at_least(field: Field, least: u128) -> Predicate {
    Predicate::Range { field, lo: least, hi: 0xffff }
}

fn leaf() -> impl Strategy<Value = Predicate> {
    let eq = Predicate::eq;
    let some = vec![
        eq(Field::EthType, 0x800),
        eq(Field::EthType, 0x86dd),
        eq(Field::EthOuter, 0x8100),
        eq(Field::FrameGroup, 0),
        eq(Field::FrameVlan, 0),
        eq(Field::Ip4Frag, 0),
        eq(Field::IpVersion, 4),
        eq(Field::Ip4Hlen, 20),
        eq(Field::Ip4Proto, 17),
        eq(Field::IpUpper, 17),
        eq(Field::L4Dst, 7),
        at_least(Field::FrameLen, 14),
        at_least(Field::FrameLen, 60),
        Predicate::Range { field: Field::L4Len, lo: 8, hi: 0x1ffff },
        Predicate::Range { field: Field::UdpLen, lo: 8, hi: 0xffff },
        Predicate::Member { field: Field::EthDst, set: Set::Ours },
        Predicate::Member { field: Field::FrameVlan, set: Set::Ours },
        Predicate::Member { field: Field::Ip4Dst, set: Set::Ours },
        Predicate::Compare { left: Field::Ip4Len, relation: Relation::AtMost, right: Field::L3Len },
    ];
    prop::sample::select(some)
}

fn predicate() -> impl Strategy<Value = Predicate> {
    leaf().prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|p| Predicate::Not(Box::new(p))),
            vec(inner.clone(), 1..3).prop_map(Predicate::And),
            vec(inner, 1..3).prop_map(Predicate::Or),
        ]
    })
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let plan = (0u8..9, vec(predicate(), 2), vec(any::<u16>(), 0..5))
        .prop_map(|(kind, predicates, targets)| Plan { kind, predicates, targets });
    vec(plan, 1..16)
}

fn port(name: &str, predicate: Predicate) -> Port {
    Port { name: name.into(), predicate, ..Port::default() }
}

fn boolean(yes: Predicate) -> Vec<Port> {
    vec![port("false", Predicate::Not(Box::new(yes.clone()))), port("true", yes)]
}

fn node(at: usize, plan: &Plan) -> Node {
    let named = |kind| Node::new(format!("n{at}"), kind);
    let [first, second] = [&plan.predicates[0], &plan.predicates[1]].map(Clone::clone);
    match plan.kind {
        // Often, as no field behind has a value without it.
        0..=3 => {
            let mut node = named(NodeKind::Function);
            let (name, predicate) = PARSER;
            node.implementation = Some(name.into());
            node.ports = boolean(predicate);
            node
        }
        4 => {
            let mut node = named(NodeKind::Function);
            node.implementation = Some("Counter".into());
            node.ports = vec![port("out", Predicate::True)];
            node
        }
        5 => {
            let mut node = named(NodeKind::Operator(if plan.targets.len().is_multiple_of(2) {
                Op::And
            } else {
                Op::Or
            }));
            node.ports = vec![port("false", Predicate::True), port("true", Predicate::True)];
            node
        }
        6 => {
            let mut node = named(NodeKind::Function);
            let neither =
                Predicate::Not(Box::new(Predicate::Or(vec![first.clone(), second.clone()])));
            node.ports = vec![port("a", first), port("b", second), port("c", neither)];
            node
        }
        _ => {
            let mut node = named(NodeKind::Function);
            node.ports = boolean(first);
            node
        }
    }
}

/// The graph: `RxQueue`, a parser of Ethernet in most cases, and these nodes; edges lead to later ones.
fn graph(plans: &[Plan], parsed: bool) -> Graph {
    let mut graph = Graph::new("random");
    let mut queue = Node::new("RxQueue", NodeKind::Function);
    queue.attrs.push(weever_graph::Attr::Source);
    queue.ports = vec![Port { targets: vec![NodeId(1)], ..port("out", Predicate::True) }];
    graph.add(queue);
    let first =
        Plan { kind: if parsed { 0 } else { 4 }, targets: vec![0, 1, 2], ..plans[0].clone() };
    let all: Vec<Plan> = std::iter::once(first).chain(plans.iter().cloned()).collect();
    for (at, plan) in all.iter().enumerate() {
        let mut made = node(at, plan);
        for (nth, target) in plan.targets.iter().enumerate() {
            let later = all.len() - at - 1;
            let Some(step) = usize::from(*target).checked_rem(later) else { continue };
            let to = at + 1 + step;
            let ports = made.ports.len();
            let port = &mut made.ports[(nth + 1) % ports];
            let target = NodeId(to as u32 + 1);
            let boolean = ["true", "false"].contains(&port.name.as_str());
            if (boolean || all[to].kind != 5) && !port.targets.contains(&target) {
                port.targets.push(target);
            }
        }
        graph.add(made);
    }
    graph
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let known = vec![
        udp(5, 7, b"a"),
        udp(5, 9, b"some more bytes in this one"),
        echo_request(1, 2, b"data"),
        arp_reply(),
        tagged(&udp(5, 7, b"a"), 0, 3),
        tagged(&udp(5, 7, b"a"), 77, 3),
        from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, b"six")),
    ];
    let change = prop::option::of((0usize..60, any::<u8>()));
    let frame = (prop::sample::select(known), change).prop_map(|(mut frame, change)| {
        if let Some((at, byte)) = change
            && let Some(changed) = frame.get_mut(at)
        {
            *changed = byte;
        }
        frame
    });
    vec(frame, 1..40)
}

fn counted(graph: Graph, registry: &Registry, frames: &[Vec<u8>], batch: usize) -> Vec<Reading> {
    let env = env();
    provide(&env, host_state6(), 0);
    let mut host = HostBox::of(graph, registry, &env, Limits::default());
    frames.chunks(batch).for_each(|frames| host.receive(frames));
    let readings = host.readings();
    host.finish();
    readings
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
    ) })]

    #[test]
    fn every_node_counts_as_if_it_had_run(
        plans in plans(),
        parsed in prop::bool::weighted(0.9),
        frames in frames(),
        batch in prop_oneof![Just(1usize), Just(64)],
    ) {
        let graph = graph(&plans, parsed);
        let plain = registry().without_runs();
        let compiled = registry();
        let ours = counted(graph.clone(), &compiled, &frames, batch);
        let theirs = counted(graph, &plain, &frames, batch);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            prop_assert_eq!(ours, theirs);
        }
        prop_assert_eq!(ours.len(), theirs.len());
    }
}

/// A header is recorded between two nodes that read it, by a node beside them: it is absent to the first, and
/// there to the second.
#[test]
fn a_header_may_be_recorded_beside_a_run() {
    let by_text = |predicate, targets| Plan { kind: 7, predicates: vec![predicate; 2], targets };
    let six = Predicate::eq(Field::EthType, 0x86dd);
    let parser = Plan { kind: 0, predicates: vec![six.clone(); 2], targets: vec![] };
    let plans = [
        by_text(six.clone(), vec![2, 2]),
        parser.clone(),
        parser,
        by_text(six.clone(), vec![0, 0]),
        by_text(six, vec![]),
    ];
    let graph = graph(&plans, false);
    let frames = [from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, b"six"))];
    let plain = registry().without_runs();
    let compiled = registry();
    let ours = counted(graph.clone(), &compiled, &frames, 1);
    let passed = |node, label| {
        let port = |reading: &&Reading| &*reading.node == node && &*reading.label == label;
        ours.iter().find(port).map(|reading| reading.value)
    };
    assert_eq!((passed("n1", "false"), passed("n4", "true")), (Some(1), Some(1)), "{ours:?}");
    assert_eq!(ours, counted(graph, &plain, &frames, 1));
}

/// The host's graph with a counter in front of each of these nodes.
fn counting(before: &[&str]) -> Graph {
    let mut graph = host(&HostConfig::serving(Service::Discard, 7)).unwrap();
    for name in before {
        let target = graph.find(name).unwrap();
        let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
        let mut counter = Node::new(format!("Count{name}"), NodeKind::Function);
        counter.implementation = Some("Counter".into());
        counter.ports = vec![Port { targets: vec![target], ..port("out", Predicate::True) }];
        let added = graph.add(counter);
        for id in ids {
            let targets = graph.node_mut(id).ports.iter_mut().flat_map(|port| &mut port.targets);
            targets.filter(|to| **to == target).for_each(|to| *to = added);
        }
    }
    graph
}

/// The counters of nodes after frames have come between changes of the graph.
fn changed(registry: Registry) -> Vec<Reading> {
    let config = PoolConfig { frames: 1024, huge_pages: HugePages::Never, ..PoolConfig::default() };
    let pool = Pool::new(config).expect("memory for a pool");
    let (mut left, mut right) = pair(&MemoryConfig::default()).expect("descriptors");
    let env = Arc::new(env());
    provide(&env, host_state6(), 0);
    let queue = left.take_queues().remove(0);
    let member = Member {
        name: "worker".into(),
        pool: pool.cache(),
        limits: Limits::default(),
        queues: vec![MemberQueue { link: 0, source: HOST_SOURCE.into(), queue }],
    };
    let built = Team::build(counting(&[]), registry, env, vec![member]);
    let Team { mut workers, publisher } = built.unwrap_or_else(|error| panic!("{error}"));
    let (mut peer, mut cache) = (right.take_queues().remove(0), pool.cache());
    let six = from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, b"six"));
    let frames =
        [udp(5000, 7, b"four"), six, echo_request(1, 1, b"ping"), udp(5000, 99, b"closed")];
    let steps: [&[&str]; 6] = [
        &["RxL2EtherClassified"],
        &["RxL3IPv6ValidSource", "RxL2EtherClassified"],
        &["RxL3IPv6ValidSource"],
        &["RxL3IPv6ValidSource", "RxL4UDPValidLength"],
        &["RxL4UDPValidLength"],
        &[],
    ];
    for (now, before) in steps.iter().enumerate() {
        publisher.replace(counting(before)).unwrap_or_else(|error| panic!("{error}"));
        for frame in &frames {
            let mut buffer = cache.alloc().expect("a large pool");
            assert!(buffer.append(frame));
            peer.tx(&mut cache, &mut [buffer].into()).expect("the worker is there");
        }
        peer.flush(&mut cache).expect("the worker is there");
        (0..4).for_each(|_| drop(workers[0].turn(now as u64)));
    }
    workers[0].engine().counters().describe()
}

#[test]
fn runs_come_and_go_with_changes_of_the_graph() {
    let plain = registry().without_runs();
    let ours = changed(registry());
    let theirs = changed(plain);
    let counted = |node: &str| ours.iter().find(|r| &*r.node == node && r.value > 0);
    assert!(counted("RxL4UDPDiscard").is_some_and(|reading| reading.value == 12), "{ours:?}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}
