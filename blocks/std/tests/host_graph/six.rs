use std::net::Ipv6Addr;

use weever_blocks_std::host::provide;
use weever_blocks_std::testing::{HostBox, env, frames::*, frames6::*, host::host_state6};
use weever_engine::{CounterKind, Limits};
use weever_models::{HostConfig, Service, host};
use weever_packet::Flags;
use weever_wire::MacAddr;
use weever_wire::icmpv6::{Icmpv6Repr, Icmpv6View, checksum_ok};
use weever_wire::ipv6::{Ipv6Header, Ipv6View};
use weever_wire::ndp::{NdpOption, NdpOptions, NdpRepr, PrefixInfo, RouterAdvert};

const SECOND: u64 = 1_000_000_000;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The group in which HOST6 and HOST_LL are asked for.
fn asked() -> Ipv6Addr {
    "ff02::1:ff00:1".parse().unwrap()
}

/// A host that speaks IPv6, with an echo on port 7, whose first words are over.
pub(super) fn quiet() -> HostBox {
    let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let mut host = HostBox::with(graph, host_state6(), Limits::default());
    host.advance(20 * SECOND);
    host.sent();
    host
}

pub(super) fn solicit(src: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let source_link = (!src.is_unspecified()).then_some(PEER_MAC);
    let message = NdpRepr::NeighbourSolicit { target, source_link, nonce: None };
    from_peer6(&ndp(src, asked(), message))
}

/// The same, and the peer's addresses are known.
pub(super) fn acquainted() -> HostBox {
    let mut host = quiet();
    host.receive(&[solicit(PEER6, HOST6), solicit(PEER_LL, HOST_LL)]);
    assert_eq!(host.sent().len(), 2);
    host
}

/// The ends and the message of a frame to the peer.
pub(super) fn message(frame: &[u8]) -> (Ipv6Addr, Ipv6Addr, Vec<u8>) {
    assert_eq!((&frame[..6], &frame[6..12]), (&PEER_MAC.0[..], &HOST_MAC.0[..]));
    assert_eq!(frame[12..14], [0x86, 0xdd]);
    let view = Ipv6View::new(&frame[14..]).unwrap();
    assert!(checksum_ok(view.payload(), &view.header().addresses()));
    (view.header().src(), view.header().dst(), view.payload().to_vec())
}

#[test]
fn solicitations_are_answered() {
    let mut host = quiet();
    for (src, target) in [(PEER6, HOST6), (PEER_LL, HOST_LL)] {
        host.receive(&[solicit(src, target)]);
        let sent = host.sent();
        let (from, to, bytes) = message(&sent[0]);
        assert_eq!((sent.len(), from, to), (1, target, src));
        let wanted = NdpRepr::NeighbourAdvert {
            target,
            router: false,
            solicited: true,
            overrides: true,
            target_link: Some(HOST_MAC),
        };
        assert_eq!(NdpRepr::parse(&bytes), Ok(wanted));
        assert_eq!(Ipv6Header::first(&sent[0][14..]).unwrap().hop_limit(), 255);
    }
    // Another station's probe for our address is answered to all nodes.
    host.receive(&[solicit(Ipv6Addr::UNSPECIFIED, HOST6)]);
    let sent = host.sent();
    assert_eq!(sent[0][..6], [0x33, 0x33, 0, 0, 0, 1]);
    host.finish();
}

#[test]
fn echoes_and_datagrams_come_back_from_both_addresses() {
    let mut host = acquainted();
    for (us, them) in [(HOST6, PEER6), (HOST_LL, PEER_LL)] {
        let data = b"data";
        let request = icmp6(them, us, Icmpv6Repr::EchoRequest { ident: 3, seq: 4, data });
        host.receive(&[from_peer6(&request)]);
        let sent = host.sent();
        let (from, to, bytes) = message(&sent[0]);
        assert_eq!((from, to), (us, them));
        let reply = Icmpv6Repr::parse(Icmpv6View::new(&bytes).unwrap());
        assert_eq!(reply, Ok(Icmpv6Repr::EchoReply { ident: 3, seq: 4, data }));
        host.receive(&[from_peer6(&udp6((them, 5000), (us, 7), 64, b"payload"))]);
        let back = udp6((us, 7), (them, 5000), 63, b"payload");
        assert_eq!(host.sent(), [ethernet(PEER_MAC, HOST_MAC, 0x86dd, &back)]);
    }
    host.finish();
}

#[test]
fn a_checksum_may_be_partial_but_not_absent() {
    let mut host = acquainted();
    let mut datagram = udp6((PEER6, 5000), (HOST6, 7), 64, b"payload");
    datagram[46..48].fill(0);
    host.receive(&[from_peer6(&datagram)]);
    assert!(host.sent().is_empty());
    let partial = weever_wire::checksum::Pseudo::v6(&pair(PEER6, HOST6), 17, 15).sum();
    datagram[46..48].copy_from_slice(&partial.to_be_bytes());
    host.receive(&[from_peer6(&datagram)]);
    assert!(host.sent().is_empty(), "not from this link");
    host.set_flags(Flags::MAY_BE_PARTIAL);
    host.receive(&[from_peer6(&datagram)]);
    assert_eq!(host.sent().len(), 1);
    assert_eq!(host.count("RxL4UDPValidChecksum", CounterKind::Port, "false"), 2);
    host.finish();
}

#[test]
fn an_unknown_neighbour_is_asked_for_and_nothing_that_waited_is_lost() {
    let mut host = quiet();
    let datagrams: Vec<_> =
        (0..3u8).map(|n| from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, &[n]))).collect();
    host.receive(&datagrams);
    let sent = host.sent();
    let question = NdpRepr::parse(&sent[0][54..]).unwrap();
    let wanted =
        NdpRepr::NeighbourSolicit { target: PEER6, source_link: Some(HOST_MAC), nonce: None };
    assert_eq!((sent.len(), question), (1, wanted));
    assert_eq!(sent[0][..6], [0x33, 0x33, 0xff, 0, 0, 2]);
    let answer = NdpRepr::NeighbourAdvert {
        target: PEER6,
        router: false,
        solicited: true,
        overrides: true,
        target_link: Some(PEER_MAC),
    };
    host.receive(&[from_peer6(&ndp(PEER6, HOST6, answer))]);
    let back: Vec<_> = host.sent().iter().map(|frame| frame[62]).collect();
    assert_eq!(back, [0, 1, 2]);
    host.finish();
}

/// Another worker hears the neighbour first: packets that come here before the waiting ones are
/// woken join them.
#[test]
fn who_waited_is_not_overtaken() {
    let env = env();
    provide(&env, host_state6(), 0);
    let graph = || host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let [mut first, mut second] =
        [(); 2].map(|()| HostBox::in_env(graph(), &env, Limits::default()));
    for worker in [&mut first, &mut second] {
        worker.advance(20 * SECOND);
        worker.sent();
    }
    let numbered = |range: std::ops::Range<u8>| -> Vec<Vec<u8>> {
        let datagram = |n| from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, &[n]));
        range.map(datagram).collect()
    };
    first.receive(&numbered(0..5));
    assert_eq!(first.sent().len(), 1, "a question");
    second.receive(&[solicit(PEER6, HOST6)]);
    first.receive(&numbered(5..10));
    let order: Vec<u8> = first.sent().iter().map(|frame| frame[62]).collect();
    assert_eq!(order, (0..10).collect::<Vec<u8>>());
    first.finish();
    second.finish();
}

#[test]
fn a_neighbour_that_does_not_answer_is_given_up() {
    let mut host = quiet();
    host.receive(&[from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, b"x"))]);
    host.advance(5 * SECOND);
    // Reports of groups, at random times, may come between.
    let is_question = |frame: &&Vec<u8>| frame.get(54) == Some(&135);
    let sent = host.sent();
    let questions = sent.iter().filter(is_question).count();
    assert_eq!(questions, 3, "three questions, a second apart");
    let lost = host.count("TxL3NDUnreachable", CounterKind::Port, "silent");
    assert_eq!(lost, 1, "only we are concerned");
    host.finish();
}

/// The errors, their causes, and their fields.
#[test]
fn errors_are_reported_with_what_they_are_about() {
    let mut host = acquainted();
    let option = |kind| ipv6(PEER6, HOST6, 60, 64, &[17, 0, kind, 4, 0, 0, 0, 0]);
    let closed = udp6((PEER6, 5000), (HOST6, 9), 64, b"x");
    let hop_by_hop = [&[0, 0, 1, 4, 0, 0, 0, 0][..], &[17, 0, 1, 4, 0, 0, 0, 0]].concat();
    let cases = [
        (closed.clone(), Icmpv6Repr::Unreachable { code: 4, quote: &closed }),
        (option(0x80), Icmpv6Repr::ParameterProblem { code: 2, pointer: 42, quote: &option(0x80) }),
        (
            ipv6(PEER6, HOST6, 0, 64, &hop_by_hop),
            Icmpv6Repr::ParameterProblem {
                code: 1,
                pointer: 40,
                quote: &ipv6(PEER6, HOST6, 0, 64, &hop_by_hop),
            },
        ),
        (
            ipv6(PEER6, HOST6, 43, 64, &[17, 0, 0, 1, 0, 0, 0, 0]),
            Icmpv6Repr::ParameterProblem {
                code: 0,
                pointer: 42,
                quote: &ipv6(PEER6, HOST6, 43, 64, &[17, 0, 0, 1, 0, 0, 0, 0]),
            },
        ),
        (
            ipv6(PEER6, HOST6, 132, 64, b"sctp"),
            Icmpv6Repr::ParameterProblem {
                code: 1,
                pointer: 6,
                quote: &ipv6(PEER6, HOST6, 132, 64, b"sctp"),
            },
        ),
    ];
    for (bad, wanted) in cases {
        let padded = [&from_peer6(&bad)[..], &[0; 6]].concat();
        host.receive(&[padded]);
        let sent = host.sent();
        let (from, to, bytes) = message(&sent[0]);
        assert_eq!((from, to), (HOST6, PEER6));
        assert_eq!(Icmpv6Repr::parse(Icmpv6View::new(&bytes).unwrap()), Ok(wanted));
    }
    host.receive(&[from_peer6(&option(0x40))]);
    host.receive(&[from_peer6(&ipv6(PEER6, HOST6, 60, 64, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(9)))]);
    assert!(host.sent().is_empty());
    assert_eq!(host.count("RxL3IPv6BadExtensions", CounterKind::Port, "silent"), 2);
    host.finish();
}

/// One packet each, and the node and port at which it ends.
#[test]
fn every_drop_has_its_reason() {
    let mut host = acquainted();
    let echo = |src, dst| icmp6(src, dst, Icmpv6Repr::EchoRequest { ident: 1, seq: 1, data: b"" });
    let nobody: Ipv6Addr = "fd00::99".parse().unwrap();
    let good = echo(PEER6, HOST6);
    let changed = |at: usize, to: u8| {
        let mut packet = good.clone();
        packet[at] = to;
        packet
    };
    let quote = udp6((nobody, 1), (PEER6, 2), 64, b"never sent");
    let lie = icmp6(PEER6, HOST6, Icmpv6Repr::PacketTooBig { mtu: 1400, quote: &quote });
    let ours = udp6((HOST6, 1), (PEER6, 2), 64, b"sent");
    let tiny = icmp6(PEER6, HOST6, Icmpv6Repr::PacketTooBig { mtu: 600, quote: &ours });
    let short = icmp6(PEER6, HOST6, Icmpv6Repr::PacketTooBig { mtu: 1400, quote: &ours[..39] });
    let far = NdpRepr::NeighbourSolicit { target: HOST6, source_link: Some(PEER_MAC), nonce: None };
    let mut routed = ndp(PEER6, asked(), far);
    routed[7] = 254;
    let empty = ipv6(PEER6, HOST6, 44, 64, &[58, 0, 0, 9, 0, 0, 0, 9]);
    let advert = |target, link| NdpRepr::NeighbourAdvert {
        target,
        router: false,
        solicited: false,
        overrides: true,
        target_link: Some(link),
    };
    let cases: Vec<(Vec<u8>, &str, &str)> = vec![
        (good[..39].to_vec(), "RxL3IPv6ValidHeaderLength", "false"),
        (changed(0, 0x40), "RxL3IPv6ValidVersion", "false"),
        (changed(5, 200), "RxL3IPv6ValidLength", "false"),
        (echo(Ipv6Addr::LOCALHOST, HOST6), "RxL3IPv6ValidSource", "false"),
        (echo(HOST6, HOST6), "RxL3IPv6ValidSource", "false"),
        (echo(Ipv6Addr::UNSPECIFIED, HOST6), "RxL3IPv6ValidSource", "false"),
        (echo(PEER6, nobody), "RxL3IPv6Destination", "other"),
        (echo(PEER6, Ipv6Addr::LOCALHOST), "RxL3IPv6Destination", "martian"),
        (empty, "RxL3IPv6BadFragment", "silent"),
        (ipv6(PEER6, HOST6, 59, 64, &[]), "RxL3IPv6Classify", "none"),
        (changed(47, 9), "RxL3ICMP6ValidChecksum", "false"),
        (ipv6(PEER6, HOST6, 58, 64, &[128, 0, 0]), "RxL3ICMP6ValidHeaderLength", "false"),
        (echo(PEER6, ALL_NODES), "RxL3ICMP6NeedsResponse", "drop"),
        (lie, "RxL3ICMP6Error", "foreign"),
        (tiny, "RxL3ICMP6Error", "tiny"),
        (short, "RxL3ICMP6Error", "quote"),
        (routed, "RxL3NDPValidHopLimit", "false"),
        (ndp(PEER6, ALL_NODES, advert(nobody, PEER_MAC)), "RxL3NDPHandle", "notours"),
        (ndp(PEER6, ALL_NODES, advert(HOST6, PEER_MAC)), "RxL3NDPHandle", "conflict"),
        (ndp(PEER6, ALL_NODES, advert(PEER6, MacAddr::BROADCAST)), "RxL3NDPHandle", "addresses"),
        (udp6((PEER6, 7), (HOST6, 7), 64, b"loop"), "RxL4UDPEcho", "drop"),
    ];
    // A frame for our station, with a packet for a group.
    let to_group = echo(PEER6, "ff02::77".parse().unwrap());
    host.receive(&[ethernet(HOST_MAC, PEER_MAC, 0x86dd, &to_group)]);
    assert_eq!(host.count("RxL3IPv6Destination", CounterKind::Port, "group"), 1);
    for (packet, node, port) in cases {
        let before = host.count(node, CounterKind::Port, port);
        host.receive(&[from_peer6(&packet)]);
        assert_eq!(host.count(node, CounterKind::Port, port), before + 1, "{node}.{port}");
        assert!(host.sent().is_empty(), "{node}.{port}");
        assert!(host.drops().iter().any(|(of, _, _)| of.starts_with(node)), "{node}.{port}");
    }
    host.finish();
}

/// A router advertises itself, its link address and 2001:db8:7::/64.
pub(super) fn advertisement(lifetime: u16) -> Vec<u8> {
    let prefix = PrefixInfo {
        prefix: "2001:db8:7::".parse().unwrap(),
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid: 1000,
        preferred: 1000,
    };
    let mut area = Vec::new();
    for option in [NdpOption::SourceLink(PEER_MAC), NdpOption::Prefix(prefix)] {
        let mut bytes = vec![0; option.buffer_len()];
        option.emit(&mut bytes).unwrap();
        area.extend(bytes);
    }
    let advert = RouterAdvert { hop_limit: 77, lifetime, ..RouterAdvert::default() };
    let options = NdpOptions::new(&area).unwrap();
    from_peer6(&ndp(PEER_LL, ALL_NODES, NdpRepr::RouterAdvert { advert, options }))
}

#[test]
fn a_router_makes_a_route_and_an_address() {
    let mut host = quiet();
    let far: Ipv6Addr = "2600::1".parse().unwrap();
    let ping = icmp6(far, HOST6, Icmpv6Repr::EchoRequest { ident: 1, seq: 1, data: b"" });
    host.receive(&[from_peer6(&ping)]);
    assert!(host.sent().is_empty());
    assert_eq!(host.count("TxL3IPv6Routing", CounterKind::Port, "false"), 1);
    host.receive(&[advertisement(1800)]);
    host.receive(&[from_peer6(&ping)]);
    let sent = host.sent();
    let (from, to, _) = message(&sent[0]);
    assert_eq!((from, to), (HOST6, far), "by way of the router");
    assert_eq!(Ipv6Header::first(&sent[0][14..]).unwrap().hop_limit(), 77);
    // The address made of the prefix is asked for, and then answers.
    host.advance(3 * SECOND);
    let made: Ipv6Addr = "2001:db8:7::ff:fe00:1".parse().unwrap();
    let probes = host.sent();
    let probe = |frame: &[u8]| matches!(NdpRepr::parse(&frame[54..]), Ok(NdpRepr::NeighbourSolicit { target, .. }) if target == made);
    assert!(probes.iter().any(|frame| probe(frame)));
    host.receive(&[from_peer6(&icmp6(
        far,
        made,
        Icmpv6Repr::EchoRequest { ident: 1, seq: 1, data: b"" },
    ))]);
    assert_eq!(message(&host.sent()[0]).0, made);
    host.receive(&[advertisement(0)]);
    host.receive(&[from_peer6(&ping)]);
    assert!(host.sent().is_empty(), "the router is none any more");
    host.finish();
}

#[test]
fn long_datagrams_are_echoed_in_fragments() {
    use weever_net::fragment::{Offer, Piece, Reassembler, ReassemblyConfig, split_v6};
    let mut host = acquainted();
    for len in [1453, 9000, 65_487] {
        let payload: Vec<u8> = (0..len).map(|i| (i * 7 + (i >> 8)) as u8).collect();
        let frame = from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, &payload));
        let (mut split, mut out) = (split_v6(&frame[14..], 1280, 9).unwrap(), [0; 1280]);
        let mut frames = Vec::new();
        while let Some(len) = split.next(&mut out) {
            frames.push(from_peer6(&out[..len]));
        }
        frames.reverse();
        host.receive(&frames);
        let mut table = Reassembler::new(ReassemblyConfig::default());
        let mut whole = Vec::new();
        for frame in host.sent() {
            assert!(frame.len() <= 1514);
            let piece = Piece::v6(&frame[14..], 0).unwrap().unwrap();
            if let Offer::Whole(room, len) = table.offer(&piece, 0, || Some(vec![0; 65_535])) {
                whole.push(room[..len].to_vec());
            }
        }
        let [echo] = &whole[..] else { panic!("{} datagrams of {len} bytes", whole.len()) };
        assert_eq!(echo[48..], payload);
        let view = Ipv6View::new(echo).unwrap();
        let udp = weever_wire::checksum::Pseudo::v6(&view.header().addresses(), 17, len as u32 + 8);
        assert!(udp.verifies(view.payload()));
    }
    host.finish();
}
