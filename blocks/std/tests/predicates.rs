//! Holds the blocks of the host's graph to the predicates on their ports: whatever the packet, it
//! leaves by the port whose predicate holds of it, by a walk over the frame that shares nothing
//! with the blocks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;
use weever_blocks_std::testing::{HostBox, fields::holds, frames::*};
use weever_engine::CounterKind;
use weever_graph::{Graph, Node, NodeKind, Predicate};
use weever_models::{HostConfig, Service, host};
use weever_wire::MacAddr;
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::Ipv4Repr;

fn graph() -> Graph {
    host(&HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9)).unwrap()
}

/// The receive side's nodes that state what holds at each of their ports.
fn stated(graph: &Graph) -> Vec<&Node> {
    let states = |node: &&Node| {
        let says = |p: &weever_graph::Port| p.predicate != Predicate::True;
        matches!(node.kind, NodeKind::Function) && node.ports.iter().any(says)
    };
    graph.iter().map(|(_, node)| node).filter(states).collect()
}

thread_local! {
    /// What a predicate says does not depend on what was received before, so one host serves all.
    static HOST_AND_GRAPH: RefCell<(HostBox, Graph)> =
        RefCell::new((HostBox::new(graph()), graph()));
}

/// Runs one frame and compares each node that it reached; returns their names.
fn check(frame: &[u8]) -> Result<Vec<String>, TestCaseError> {
    HOST_AND_GRAPH.with_borrow_mut(|(host, graph)| {
        let before = counts(host);
        host.receive(&[frame]);
        host.sent();
        let after = counts(host);
        let rose = |node: &Node, kind, label: &str| {
            let key = (node.name.clone(), kind, label.to_string());
            after[&key] - before[&key] > 0
        };
        let mut reached = Vec::new();
        let is_reached = |node: &&Node| rose(node, CounterKind::Packets, "");
        for node in stated(graph).into_iter().filter(is_reached) {
            for port in &node.ports {
                let taken = rose(node, CounterKind::Port, &port.name);
                let holds = holds(&port.predicate, frame);
                prop_assert_eq!(taken, holds, "{}.{} of {:02x?}", node.name, port.name, frame);
            }
            reached.push(node.name.clone());
        }
        Ok(reached)
    })
}

fn counts(host: &HostBox) -> HashMap<(String, CounterKind, String), u64> {
    let readings = host.readings().into_iter();
    readings.map(|r| ((r.node.to_string(), r.kind, r.label.to_string()), r.value)).collect()
}

fn macs() -> impl Strategy<Value = MacAddr> {
    let group = MacAddr([1, 0, 0x5e, 0, 0, 1]);
    prop_oneof![
        4 => Just(HOST_MAC),
        2 => Just(PEER_MAC),
        2 => Just(MacAddr::BROADCAST),
        1 => Just(group),
        1 => any::<[u8; 6]>().prop_map(MacAddr),
    ]
}

fn addresses() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        4 => Just(HOST),
        4 => Just(PEER),
        1 => Just(SUBNET_BROADCAST),
        1 => any::<u32>().prop_map(Ipv4Addr::from_bits),
    ]
}

fn datagrams() -> impl Strategy<Value = Vec<u8>> {
    let protocols = prop_oneof![2 => Just(17u8), 2 => Just(1u8), 1 => any::<u8>()];
    let fragments = prop_oneof![3 => Just(0x4000u16), 1 => any::<u16>()];
    let payloads = prop_oneof![
        vec(any::<u8>(), 0..40),
        (any::<u16>(), prop_oneof![Just(7), Just(9), Just(11)], vec(any::<u8>(), 0..20)).prop_map(
            |(from, to, data)| {
                let socket = std::net::SocketAddrV4::new;
                udp_segment(socket(PEER, from), socket(HOST, to), &data)
            }
        ),
        (any::<bool>(), vec(any::<u8>(), 0..20)).prop_map(|(ask, data)| {
            let (ident, seq, data) = (1, 2, data.as_slice());
            icmp_message(match ask {
                true => IcmpRepr::EchoRequest { ident, seq, data },
                false => IcmpRepr::EchoReply { ident, seq, data },
            })
        }),
    ];
    (addresses(), addresses(), protocols, fragments, payloads).prop_map(
        |(src, dst, protocol, flags_frag, payload)| {
            let repr = Ipv4Repr { flags_frag, ..ipv4_repr(src, dst, protocol) };
            ipv4(repr, &payload)
        },
    )
}

fn arps() -> impl Strategy<Value = Vec<u8>> {
    (
        prop_oneof![2 => Just(1u16), 2 => Just(2), 1 => any::<u16>()],
        macs(),
        addresses(),
        addresses(),
    )
        .prop_map(|(op, sha, spa, tpa)| arp(op, (sha, spa), (HOST_MAC, tpa))[14..].to_vec())
}

/// Frames that look like what a host receives, some of them tagged, cut short or damaged.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let typed = prop_oneof![
        4 => datagrams().prop_map(|d| (0x0800u16, d)),
        2 => arps().prop_map(|a| (0x0806, a)),
        1 => (any::<u16>(), vec(any::<u8>(), 0..60)),
    ];
    let damage = vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let tag = prop::option::weighted(0.2, (0u16..3, 0u8..8));
    (macs(), macs(), typed, tag, damage, prop::option::weighted(0.2, any::<prop::sample::Index>()))
        .prop_map(|(dst, src, (ethertype, payload), tag, damage, cut)| {
            let mut frame = ethernet(dst, src, ethertype, &payload);
            if let Some((vid, pcp)) = tag {
                frame = tagged(&frame, vid, pcp);
            }
            for (at, value) in damage {
                let at = at.index(frame.len());
                frame[at] = value;
            }
            if let Some(cut) = cut {
                frame.truncate(cut.index(frame.len()));
            }
            frame
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn packets_leave_by_the_port_whose_predicate_holds(frame in frames()) {
        check(&frame)?;
    }

    #[test]
    fn so_do_random_bytes(frame in vec(any::<u8>(), 0..100)) {
        check(&frame)?;
    }
}

/// The frames that the properties rest on do reach the nodes that state something.
#[test]
fn every_node_with_a_predicate_is_reached() {
    let graph = graph();
    let mut wanted: Vec<&str> = stated(&graph).iter().map(|n| n.name.as_str()).collect();
    assert!(wanted.len() >= 10, "{wanted:?}");
    for frame in [udp(5000, 7, b"x"), echo_request(1, 2, b"x"), arp_request(HOST)] {
        let reached = check(&frame).unwrap();
        wanted.retain(|name| !reached.iter().any(|r| r == name));
    }
    assert_eq!(wanted, Vec::<&str>::new());
}
