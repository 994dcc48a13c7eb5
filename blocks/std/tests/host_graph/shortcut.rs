use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use weever_block::{Env, Registry};
use weever_engine::{Limits, Reading, Schedule};
use weever_graph::{Graph, verify};
use weever_models::{HostConfig, Service, host};
use weever_net::state::NetConfig;
use weever_packet::Flags;
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::protocol;

use weever_blocks_std::host::provide;
use weever_blocks_std::registry;
use weever_blocks_std::shortcut::RECEIVE;
use weever_blocks_std::testing::{HostBox, frames::*, host::host_state6};

const ECHO: u16 = 7;

fn graph() -> Graph {
    host(&HostConfig::serving(Service::Echo, ECHO).and(Service::Discard, 9)).unwrap()
}

#[test]
fn the_host_graph_has_every_way() {
    let registry = registry();
    let mut graph = graph();
    registry.annotate(&mut graph).unwrap();
    let env = Env::new();
    provide(&env, host_state6(), 0);
    let schedule = Schedule::compile(&verify(graph).unwrap(), &registry, &env).unwrap();
    let shortcuts: Vec<_> = schedule.shortcuts().collect();
    assert_eq!(shortcuts, [("RxL2EtherClassified", "Receive", RECEIVE.ways.len())]);
}

/// Usual frames, and frames that are unusual in one way or another.
fn frames() -> Vec<Vec<u8>> {
    let elsewhere = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9);
    let peer = SocketAddrV4::new(PEER, 5000);
    let datagram = udp_datagram(peer, SocketAddrV4::new(HOST, ECHO), b"to be changed");
    let mut without_checksum = datagram.clone();
    without_checksum[26..28].fill(0);
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
        from_peer(&options),
    ];
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

fn network(forwarding: bool) -> NetConfig {
    let mut network = host_state6();
    network.settings.forwarding = forwarding;
    network
}

/// The answers and counters of a host that receives these frames in bursts of `batch`.
fn run(
    registry: &Registry,
    forwarding: bool,
    flags: Flags,
    frames: &[Vec<u8>],
    batch: usize,
) -> (Vec<Vec<u8>>, Vec<Reading>) {
    let env = Env::new();
    provide(&env, network(forwarding), 0);
    let mut host = HostBox::of(graph(), registry, &env, Limits::default());
    host.set_flags(flags);
    host.receive(&[arp_reply()]);
    frames.chunks(batch).for_each(|frames| host.receive(frames));
    let result = (host.sent(), host.readings());
    host.finish();
    result
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(64)
    ))]

    /// The shortcut changes nothing but the time that a packet takes.
    #[test]
    fn with_it_a_host_does_what_it_does_without_it(
        frames in prop::collection::vec(frame(), 1..64),
        forwarding in any::<bool>(),
        partial in any::<bool>(),
        batch in prop_oneof![Just(1usize), Just(64)],
    ) {
        let flags = if partial { Flags::MAY_BE_PARTIAL } else { Flags::NONE };
        let all = registry();
        let (sent, counted) = run(&all, forwarding, flags, &frames, batch);
        let (expected, counts) = run(&all.without_shortcuts(), forwarding, flags, &frames, batch);
        prop_assert_eq!(sent, expected);
        for (ours, theirs) in counted.iter().zip(&counts) {
            prop_assert_eq!(ours, theirs);
        }
    }
}
