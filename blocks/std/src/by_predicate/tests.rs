use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use weever_block::{Buffer, Build};
use weever_graph::{Node, NodeKind, OpenTest, Port, Relation, Set};
use weever_net::state::{NetConfig, NetState};
use weever_packet::{Flags, NOWHERE};
use weever_wire::fields::summarize;

use super::sets::members;
use super::*;
use crate::bench::Bench;
use crate::host::Network;
use crate::testing::frames::*;
use crate::testing::frames6::*;

fn network() -> NetConfig {
    let mut config = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
    config.settings.forwarding = true;
    config
}

/// A packet as the receive side's blocks hand it on: its headers recorded.
fn received(bench: &mut Bench, frame: &[u8]) -> Buffer {
    let mut packet = bench.packet(frame);
    let parsed = summarize(frame);
    let head = packet.head();
    let at = |at: Option<usize>| at.map_or(NOWHERE, |at| head.saturating_add(at as u16));
    let length = parsed.ip4_total_len.or(parsed.ip6_total_len);
    let meta = packet.meta_mut();
    (meta.l2, meta.l3, meta.l4) = (at(parsed.l2), at(parsed.l3), at(parsed.l4));
    meta.end = at(parsed.l3.zip(length).map(|(l3, length)| l3 + length));
    (meta.ethertype, meta.vlan) = (parsed.ethertype.unwrap_or(0), parsed.vlan.unwrap_or(0));
    if parsed.eth_dst.is_some_and(|dst| dst.is_multicast()) {
        meta.flags = meta.flags.with(Flags::LINK_BROADCAST);
    }
    packet
}

/// Frames of all protocols, some with a byte that is another.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let known = vec![
        udp(5, 7, b"a"),
        echo_request(1, 2, b"data"),
        arp_request(HOST),
        arp_reply(),
        tagged(&udp(5, 7, b"a"), 77, 3),
        ethernet(weever_wire::MacAddr::BROADCAST, PEER_MAC, 0x0800, &[0x45; 40]),
        from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, b"six")),
        ethernet(HOST_MAC, PEER_MAC, 0x88cc, b"other"),
    ];
    let change = prop::option::of((0usize..60, any::<u8>()));
    (prop::sample::select(known), change).prop_map(|(mut frame, change)| {
        if let Some((at, byte)) = change
            && let Some(changed) = frame.get_mut(at)
        {
            *changed = byte;
        }
        frame
    })
}

fn field() -> impl Strategy<Value = Field> {
    let all: Vec<Field> = Field::ALL.into_iter().chain(Field::DERIVED).collect();
    prop::sample::select(all)
}

fn leaf() -> impl Strategy<Value = Predicate> {
    let values = prop_oneof![
        prop::sample::select(vec![0u128, 1, 4, 6, 7, 8, 17, 20, 28, 40, 58, 64, 77, 0x800, 0x86dd]),
        prop::sample::select(vec![HOST.to_bits().into(), HOST_MAC.to_bits().into()]),
    ];
    let masks = prop_oneof![3 => Just(u128::MAX), 1 => 0u128..256];
    let matches = (field(), masks, values.clone()).prop_map(|(field, mask, value)| {
        let mask = mask & field.full_mask();
        Predicate::Match { field, mask, value: value & mask }
    });
    let ranges = (field(), values.clone(), values).prop_map(|(field, a, b)| Predicate::Range {
        field,
        lo: a.min(b),
        hi: a.max(b),
    });
    let relations = vec![Relation::Equal, Relation::Less, Relation::AtMost];
    let compared = (field(), prop::sample::select(relations), field())
        .prop_map(|(left, relation, right)| Predicate::Compare { left, relation, right });
    let known = |(field, set): &(Field, Set)| members(*field, *set).is_some();
    let member = (field(), prop::sample::select(Set::ALL.to_vec()))
        .prop_filter("a set of other things", known)
        .prop_map(|(field, set)| Predicate::Member { field, set });
    prop_oneof![
        4 => matches, 2 => ranges, 2 => compared, 1 => member, 1 => Just(Predicate::True)
    ]
}

fn predicate() -> impl Strategy<Value = Predicate> {
    leaf().prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|p| Predicate::Not(Box::new(p))),
            vec(inner.clone(), 0..4).prop_map(Predicate::And),
            vec(inner, 0..4).prop_map(Predicate::Or),
        ]
    })
}

/// Ports of all kinds of choices: in turn, by the values of a field, of a boolean node.
fn ports() -> impl Strategy<Value = Vec<(&'static str, Predicate)>> {
    let named = |all: Vec<Predicate>| ["a", "b", "c", "d"].into_iter().zip(all).collect();
    let values = vec(prop::sample::select(vec![0u128, 1, 2, 6, 17, 58, 0x800, 0x806]), 1..3);
    let of = |field: Field, all: Vec<u128>| {
        Predicate::Or(
            all.into_iter().map(|v| Predicate::eq(field, v & field.full_mask())).collect(),
        )
    };
    let switches = (field(), vec(values, 2..4))
        .prop_map(move |(field, all)| all.into_iter().map(|values| of(field, values)).collect());
    prop_oneof![
        vec(predicate(), 2..5).prop_map(named),
        switches.prop_map(named),
        predicate().prop_map(|p| vec![("false", Predicate::Not(Box::new(p.clone()))), ("true", p)]),
    ]
}

/// The slow and obvious meaning: by the interpreter of predicates, from the fields of the slow walk.
fn holds(predicate: &Predicate, frame: &[u8], net: &NetState, packet: &Buffer) -> bool {
    let parsed = summarize(frame);
    let open = |test: OpenTest<'_>| match test {
        OpenTest::Member { field, set, .. } => {
            members(field, set).is_some_and(|members| members(net, packet))
        }
        OpenTest::Label { .. } => unreachable!("no predicate here has one"),
    };
    predicate.eval(&|field| crate::testing::field_of(&parsed, field), &open)
}

/// Whether the metadata agrees with the slow walk: other frames are dropped before such a node.
fn is_sound(packet: &Buffer, frame: &[u8]) -> bool {
    let parsed = summarize(frame);
    let mut all = Field::ALL.into_iter().chain(Field::DERIVED);
    let fast = |field| crate::table::fields::value_of(packet, field);
    all.all(|field| fast(field) == crate::testing::field_of(&parsed, field))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn a_block_does_as_its_text_says(ports in ports(), frames in vec(frames(), 1..8)) {
        let net = Network::new(network());
        let state = net.state();
        let mut bench = Bench::new().providing(Arc::new(net));
        let mut node = Node::new("Choice", NodeKind::Function);
        for (name, predicate) in &ports {
            let (name, predicate) = ((*name).into(), predicate.clone());
            node.ports.push(Port { name, predicate, ..Port::default() });
        }
        bench = bench.with_node(node);
        let (mut burst, mut input, mut wanted) = (Burst::new(), 0, vec![0; ports.len()]);
        let is_boolean = ports[0].0 == "false";
        for (task, frame) in frames.iter().enumerate() {
            let packet = received(&mut bench, frame);
            if !is_sound(&packet, frame) {
                continue;
            }
            let holds = |(_, p): &(&str, Predicate)| holds(p, frame, &state, &packet);
            let port = match is_boolean {
                true => usize::from(holds(&ports[1])),
                false => ports.iter().position(holds).unwrap_or(ports.len() - 1),
            };
            wanted[port] |= 1 << task;
            input |= 1 << task;
            burst.put(task, packet);
        }
        prop_assert_eq!(bench.run(&TYPE, burst, input).ports, wanted);
    }
}

#[test]
fn most_frames_of_the_property_are_sound() {
    let mut bench = Bench::new();
    for frame in [udp(5, 7, b"a"), arp_request(HOST), tagged(&udp(5, 7, b"a"), 77, 3)] {
        assert!(is_sound(&received(&mut bench, &frame), &frame), "{frame:02x?}");
    }
    let six = from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, b"six"));
    assert!(is_sound(&received(&mut bench, &six), &six));
}

#[test]
fn what_cannot_be_run_is_refused_with_its_name() {
    let bench = Bench::new();
    let label = Predicate::Atom { label: "sum".into(), value: "right".into() };
    let set = Predicate::Member { field: Field::TcpFlags, set: Set::Ours };
    for (test, said) in [(label, "pred(sum,right)"), (set, "`tcp.flags in ours`")] {
        let mut node = Node::new("Choice", NodeKind::Function);
        for (name, predicate) in [("false", Predicate::Not(Box::new(test.clone()))), ("true", test)]
        {
            node.ports.push(Port { name: name.into(), predicate, ..Port::default() });
        }
        let build = Build { node: &node, block_type: &TYPE, env: &bench.env };
        let error = make(&build).err().expect("it is refused").to_string();
        assert!(error.contains("Choice") && error.contains(said), "{error}");
    }
}
