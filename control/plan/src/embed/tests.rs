//! The computed arrivals of a queue include every packet that does arrive.

use proptest::prelude::*;
use weever_graph::{Field, Key, Predicate};

use super::{Arrival, arrivals, either, needs, tested};
use crate::config::{Configuration, Rss, Rule, Target};
use crate::flow::{Conj, Kinds};
use crate::map::place;
use crate::nic::Nic;
use crate::testkit::{flow_director, nic, udp, with_rss};

fn a_nic() -> Nic {
    with_rss(nic(4, vec![flow_director(64), flow_director(64)]), 8)
}

fn rule(src: Option<u32>, port: Option<u16>, queue: u32) -> Rule {
    let key = |field: Field, value: Option<u128>| match value {
        Some(value) => Key { mask: field.full_mask(), value },
        None => Key { mask: 0, value: 0 },
    };
    let keys = vec![
        key(Field::Ip4Src, src.map(u128::from)),
        key(Field::Ip4Dst, None),
        key(Field::L4Src, None),
        key(Field::L4Dst, port.map(u128::from)),
    ];
    let flow_type = Some(weever_graph::nic::FlowType::Udp4);
    Rule { flow_type, keys, target: Target::Queue(queue), priority: 0, location: 0 }
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let one = (prop::option::of(0u32..3), prop::option::of(5u16..8), 0u32..4);
    prop::collection::vec(one.prop_map(|(src, port, queue)| rule(src, port, queue)), 0..90)
}

fn covers(arrivals: &[Arrival], queue: u32, packet: &Conj) -> bool {
    let of_queue = arrivals.iter().find(|a| a.queue == queue);
    of_queue.is_some_and(|a| a.parts.iter().any(|part| packet.implies(part)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn wherever_a_packet_goes_it_is_expected(
        first in rules(),
        second in rules(),
        packets in prop::collection::vec((0u32..4, 0u16..3, 0u32..3, 4u16..9), 20),
        queues in prop::sample::select(vec![vec![0], vec![1, 2], vec![0, 1, 2, 3]]),
    ) {
        let nic = a_nic();
        let rss = Rss::over(&nic, &queues, None);
        let configuration = Configuration { rules: vec![first, second], rss, ..Default::default() };
        let found = arrivals(&nic, &configuration);
        let needed = needs(&nic, &configuration, &[Field::EthType, Field::L4Dst].into());
        for (src, sport, dst, dport) in packets {
            let packet = udp(src, sport, dst, dport);
            for (queue, _) in place(&nic, &configuration, &packet).shares() {
                prop_assert!(covers(&found, queue, &packet), "{packet:?} at {queue}");
                prop_assert!(covers(&needed, queue, &packet), "{packet:?} at {queue}");
            }
        }
        let arp = Conj::all().with(Field::EthType, 0x0806);
        for (queue, _) in place(&nic, &configuration, &arp).shares() {
            prop_assert!(covers(&found, queue, &arp.clone().of(Kinds::with(Field::ArpOp))));
        }
    }
}

#[test]
fn a_filter_takes_its_packets_away_from_the_rest() {
    let nic = a_nic();
    let rules = vec![vec![rule(None, Some(7), 3), rule(Some(9), Some(7), 2)], Vec::new()];
    let configuration =
        Configuration { rules, rss: Rss::over(&nic, &[0, 1], None), ..Default::default() };
    let found = arrivals(&nic, &configuration);
    // The second rule is never reached.
    assert_eq!(found.iter().map(|a| a.queue).collect::<Vec<_>>(), [0, 1, 3]);
    let ours = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17);
    let ours = ours.with(Field::L4Dst, 7).with(Field::Ip4Frag, 0);
    for other in &found[..2] {
        assert!(other.parts.iter().all(|p| p.disjoint(&ours)), "{:?}", other.parts);
    }
    // Only hashed packets can reach the second queue of the hash.
    assert!(found[1].parts.iter().all(|p| p.kinds().within(Kinds::IP4)));
    assert!(!found[0].parts.iter().all(|p| p.kinds().within(Kinds::IP4)));
}

#[test]
fn a_graph_that_looks_at_ports_needs_nothing_new_for_a_new_client() {
    let nic = a_nic();
    let with = |clients: u32| {
        let rules = (0..clients).map(|src| rule(Some(src), Some(7), 3)).collect();
        let rss = Rss::over(&nic, &[0, 1], None);
        let rules = vec![rules, Vec::new()];
        let configuration = Configuration { rules, rss, ..Default::default() };
        needs(&nic, &configuration, &[Field::L4Dst].into())
    };
    let at_3 = |needs: &[Arrival]| needs.iter().find(|n| n.queue == 3).unwrap().clone();
    let (one, many) = (with(1), with(300));
    assert_eq!(at_3(&one), at_3(&many));
    assert!(at_3(&one).parts.iter().all(|part| part.single(Field::L4Dst) == Some(7)));
    let other = needs(&nic, &Configuration::default(), &[Field::L4Dst].into());
    let both = either(&one, &other);
    assert!(both.iter().all(|b| one.iter().chain(&other).any(|n| n.queue == b.queue)));
    assert!(other.iter().all(|n| n.parts.iter().all(|part| covers(&both, n.queue, part))));
}

#[test]
fn a_graph_looks_at_what_its_ports_and_tables_say() {
    use weever_graph::{Entry, Graph, Node, NodeKind, Port, TableSpec};
    let mut graph = Graph::new("g");
    let mut port = Node::new("ports", NodeKind::Function);
    let either = Predicate::Or(vec![Predicate::eq(Field::EthType, 1), Predicate::True]);
    let predicate = Predicate::Not(Box::new(either));
    port.ports.push(Port { name: "out".into(), predicate, ..Port::default() });
    graph.add(port);
    let fields = vec![Field::L4Dst];
    let table = TableSpec { fields, entries: Vec::<Entry>::new(), miss: 0, capacity: 1 };
    graph.add(Node::new("table", NodeKind::Table(table)));
    assert_eq!(tested(&graph), [Field::EthType, Field::L4Dst].into());
}

#[test]
fn what_a_nic_vouches_for_stands_at_its_source() {
    use weever_graph::{Attr, Graph, Node, NodeKind, Port};
    let mut prg = Graph::new("n");
    let mut source = Node::new("In", NodeKind::Function);
    source.attrs.push(Attr::Source);
    let right = Predicate::Atom { label: "l4.checksum".into(), value: "right".into() };
    source.ports.push(Port { name: "out".into(), predicate: right.clone(), ..Port::default() });
    prg.add(source);
    assert_eq!(super::stated(&prg, &a_nic(), &[]).always(), right);
    assert_eq!(super::stated(&Graph::new("none"), &a_nic(), &[]).always(), Predicate::True);
}
