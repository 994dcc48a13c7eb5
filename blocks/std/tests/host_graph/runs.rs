use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use weever_block::{Block, BlockType, Burst, Cx, MARKS, Mask, PortDoc, Ports, Registry};
use weever_engine::{Limits, Reading, Schedule};
use weever_graph::{Graph, Node, NodeId, NodeKind, Port, verify};
use weever_models::{HostConfig, Service, host};
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetConfig;
use weever_packet::Flags;
use weever_wire::checksum::{self, Pseudo};
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::icmpv6::Icmpv6Repr;
use weever_wire::ipv4::protocol;

use weever_blocks_std::host::provide;
use weever_blocks_std::registry;
use weever_blocks_std::testing::{HostBox, env, frames::*, frames6::*, host::host_state6};

const ECHO: u16 = 7;
const VLAN: u16 = 5;

fn graph() -> Graph {
    host(&HostConfig::serving(Service::Echo, ECHO).and(Service::Discard, 9)).unwrap()
}

/// A block that no run may pass: it says that it records metadata.
static MARKER: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::new("Marker", "Passes.", &[PortDoc { name: "out", doc: "all" }], |_| {
        Ok(Box::new(Marker))
    })
};

struct Marker;

impl Block for Marker {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.enable(0, input);
    }
}

/// The types of blocks with [`MARKER`].
fn types() -> Registry {
    registry().with(&[&MARKER])
}

/// A node of this type in front of each of these.
fn spliced(mut graph: Graph, implementation: &str, before: &[&str]) -> Graph {
    for name in before {
        let target = graph.find(name).unwrap_or_else(|| panic!("no node {name}"));
        let mut added = Node::new(format!("Before{name}"), NodeKind::Function);
        added.implementation = Some(implementation.into());
        let out = Port { name: "out".into(), targets: vec![target], ..Port::default() };
        added.ports.push(out);
        let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
        let added = graph.add(added);
        for id in ids {
            let ports = graph.node_mut(id).ports.iter_mut();
            let targets = ports.flat_map(|port| &mut port.targets);
            targets.filter(|to| **to == target).for_each(|to| *to = added);
        }
    }
    graph
}

/// The ways of the runs of a graph, by the node at which each begins.
fn runs(mut graph: Graph) -> Vec<(String, usize)> {
    let registry = types();
    registry.annotate(&mut graph).unwrap();
    let env = env();
    provide(&env, host_state6(), 0);
    let schedule = Schedule::compile(&verify(graph).unwrap(), &registry, &env).unwrap();
    schedule.runs().map(|(node, ways)| (node.to_owned(), ways)).collect()
}

#[test]
fn the_receive_side_is_compiled_into_runs() {
    let whole = runs(graph());
    let first = |name: &str, ways| (name.to_owned(), ways);
    // Of both families UDP, ICMP echo, TCP and forwarded packets, and neighbour discovery by its two checks.
    assert!(whole.contains(&first("RxQueue", 11)), "{whole:?}");
    let between = ["RxL3IPv4ValidHeaderLength", "RxL4UDPValidHeaderLength"];
    let counted = runs(spliced(graph(), "Counter", &between));
    assert!(counted.contains(&first("RxQueue", 11)), "{counted:?}");
    let split = runs(spliced(graph(), "Marker", &between));
    for (name, ways) in
        [("RxQueue", 8), ("RxL3IPv4ValidHeaderLength", 4), ("RxL4UDPValidHeaderLength", 1)]
    {
        assert!(split.contains(&first(name, ways)), "{name} in {split:?}");
    }
}

#[test]
fn the_way_out_is_compiled_into_runs() {
    let whole = runs(graph());
    for start in [
        "TxL4UDPInitiateResponse",
        "TxL4UDPAllocateHeader",
        "TxL3ICMPInitiateResponse",
        "TxL3ICMP6InitiateResponse",
        "TxL3IPv4Routing",
        "TxL3IPv6Routing",
        "TxL3ARPLookup_",
    ] {
        assert!(whole.iter().any(|(name, _)| name == start), "{start} in {whole:?}");
    }
    let split = runs(spliced(graph(), "Marker", &["TxL3IPv4FillHeader", "TxQueue"]));
    for start in ["TxL4UDPInitiateResponse", "TxL3IPv4FillHeader"] {
        assert!(split.iter().any(|(name, _)| name == start), "{start} in {split:?}");
    }
}

/// Usual frames, and frames that are unusual in one way or another.
fn frames() -> Vec<Vec<u8>> {
    let elsewhere = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9);
    let peer = SocketAddrV4::new(PEER, 5000);
    let datagram = udp_datagram(peer, SocketAddrV4::new(HOST, ECHO), b"to be changed");
    let mut without_checksum = datagram.clone();
    without_checksum[26..28].fill(0);
    let mut partial = datagram.clone();
    let pseudo = checksum::pseudo_v4(PEER, HOST, protocol::UDP, datagram.len() as u16 - 20);
    partial[26..28].copy_from_slice(&pseudo.to_be_bytes());
    let mut partial6 = udp6((PEER6, 5000), (HOST6, ECHO), 64, b"six");
    let pseudo = Pseudo::v6(&pair(PEER6, HOST6), protocol::UDP, partial6.len() as u32 - 40).sum();
    partial6[46..48].copy_from_slice(&pseudo.to_be_bytes());
    let mut options =
        ipv4(ipv4_repr(PEER, HOST, protocol::UDP), &[&[1; 4], &datagram[20..]].concat());
    options = patched(&options, 0, 0x46);
    let odd =
        [(0, 0x55), (6, 0x20), (7, 1), (8, 0), (8, 1), (9, 2), (12, 127), (12, 224), (16, 255)];
    let odd = odd.map(|(at, value)| from_peer(&patched(&datagram, at, value)));
    let mut frames = vec![
        udp(5000, ECHO, b"hello"),
        udp(5000, 9, b""),
        udp(5000, 99, b"closed"),
        echo_request(1, 1, b"ping"),
        icmp(HOST, IcmpRepr::EchoReply { ident: 1, seq: 1, data: b"pong" }),
        arp_reply(),
        from_peer(&udp_datagram(peer, elsewhere, b"on its way")),
        from_peer(&udp_datagram(elsewhere, peer, b"elsewhere's")),
        from_peer(&without_checksum),
        from_peer(&partial),
        from_peer6(&partial6),
        from_peer(&options),
        tagged(&udp(5000, ECHO, b"hello"), 0, 3),
        tagged(&udp(5000, ECHO, b"in a VLAN of ours"), VLAN, 3),
        tagged(&udp(5000, ECHO, b"in another one"), VLAN + 1, 0),
        tagged(&tagged(&udp(5000, ECHO, b"in two"), VLAN, 0), VLAN, 0),
        tagged(&from_peer6(&udp6((PEER6, 5000), (HOST6, ECHO), 64, b"six in a VLAN")), VLAN, 0),
        tagged(&from_peer(&udp_datagram(peer, elsewhere, b"on its way")), VLAN, 0),
        from_peer6(&udp6((PEER6, 5000), (HOST6, ECHO), 64, b"six")),
        from_peer6(&udp6((PEER6, 5000), (HOST6, 99), 64, b"closed")),
        from_peer6(&udp6((HOST6, 5000), (HOST6, ECHO), 64, b"from us")),
        from_peer6(&ipv6(PEER6, HOST6, 0, 64, &[17, 0, 1, 4, 0, 0, 0, 0, 0, 7, 0, 7, 0, 8, 0, 0])),
        icmp6(PEER6, HOST6, Icmpv6Repr::EchoRequest { ident: 1, seq: 2, data: b"ping" }),
    ];
    let segment = ipv4_repr(PEER, HOST, protocol::TCP);
    frames.push(from_peer(&ipv4(
        segment,
        &[0x13, 0x88, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0],
    )));
    frames.extend(odd);
    frames
}

/// A frame with some bytes changed, or cut.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((0usize..64, any::<u8>()), 0..3);
    (prop::sample::select(frames()), changes, prop_oneof![4 => Just(0usize), 1 => 0usize..60])
        .prop_map(|(mut frame, changes, cut)| {
            let len = frame.len();
            changes.into_iter().for_each(|(at, value)| frame[at % len] = value);
            frame.truncate(len - cut.min(len - 1));
            frame
        })
}

/// Of two interfaces, one of which is in a VLAN.
fn network(forwarding: bool) -> NetConfig {
    let mut network = host_state6();
    let other = NetConfig::single(HOST_MAC, &["10.5.0.1/24".parse().unwrap()]);
    let (id, name) = (IfaceId(1), "tagged".into());
    let other = Interface { id, name, vlan: Some(VLAN), ..other.interfaces()[0].clone() };
    network.add_interface(other).unwrap();
    network.settings.forwarding = forwarding;
    network
}

/// The answers and counters of a host that receives these frames in bursts of `batch`.
fn run(
    graph: Graph,
    registry: &Registry,
    forwarding: bool,
    (flags, resolved): (Flags, bool),
    frames: &[Vec<u8>],
    batch: usize,
) -> (Vec<Vec<u8>>, Vec<Reading>) {
    let env = env();
    provide(&env, network(forwarding), 0);
    let mut host = HostBox::of(graph, registry, &env, Limits::default());
    host.set_flags(flags);
    if resolved {
        host.receive(&[arp_reply()]);
    }
    frames.chunks(batch).for_each(|frames| host.receive(frames));
    let result = (host.sent(), host.readings());
    host.finish();
    result
}

/// Nodes in front of which something may be put in between.
const SPLITS: [&str; 16] = [
    "TxL4UDPAllocateHeader",
    "TxL4UDPFillHeader",
    "TxL3ICMPFillHeader",
    "TxL3IPv4Routing",
    "TxL3IPv4FillHeader",
    "TxL3IPv6AllocateHeader",
    "TxL3ARPLookup_",
    "TxL2EtherAllocateHeader",
    "TxL2EtherFillHeader",
    "TxQueue",
    "RxL2EtherValidSrc",
    "RxL2EtherClassifyL3",
    "RxL3IPv4ValidVersion",
    "RxL3IPv4Destination",
    "RxL3IPv6ValidSource",
    "RxL4UDPValidLength",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(64)
    ))]

    /// Compiled runs change nothing but the time that a packet takes, whatever splits them.
    #[test]
    fn with_them_a_host_does_what_it_does_without_them(
        frames in prop::collection::vec(frame(), 1..64),
        forwarding in any::<bool>(),
        partial in any::<bool>(),
        resolved in prop::bool::weighted(0.8),
        batch in prop_oneof![Just(1usize), Just(64)],
        kind in prop::sample::select(vec!["Counter", "Marker"]),
        splits in prop::sample::subsequence(SPLITS.to_vec(), 0..4),
    ) {
        let flags = if partial { Flags::MAY_BE_PARTIAL } else { Flags::NONE };
        let graph = spliced(graph(), kind, &splits);
        let (sent, counted) = run(graph.clone(), &types(), forwarding, (flags, resolved), &frames, batch);
        let plain = types().without_runs();
        let (expected, counts) = run(graph, &plain, forwarding, (flags, resolved), &frames, batch);
        prop_assert_eq!(sent, expected);
        for (ours, theirs) in counted.iter().zip(&counts) {
            prop_assert_eq!(ours, theirs);
        }
    }
}
