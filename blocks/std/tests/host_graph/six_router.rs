use std::net::Ipv6Addr;

use weever_blocks_std::testing::{HostBox, frames::*, frames6::*, host::host_state6};
use weever_engine::{CounterKind, Limits};
use weever_models::{HostConfig, host};
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::Locals6;
use weever_net::route::{Route, Way};
use weever_packet::Flags;
use weever_wire::icmpv6::{Icmpv6Repr, Icmpv6View, checksum_ok};
use weever_wire::ipv6::Ipv6Header;
use weever_wire::ndp::NdpRepr;

const SECOND: u64 = 1_000_000_000;
const VLAN: u16 = 5;

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// A router between fd00::/64 and, in a VLAN of an MTU of 1,400, fd05::/64 with fd05::9, whose link
/// address is the peer's and known.
fn router() -> HostBox {
    router_whose_link(false)
}

fn router_whose_link(tx_checksum: bool) -> HostBox {
    let mut config = host_state6();
    let other = Interface::new(IfaceId(1), "other", 0, HOST_MAC).in_vlan(VLAN).with_mtu(1400);
    let locals = Locals6::new(&["fd05::1/64".parse().unwrap(), "fe80::1/64".parse().unwrap()]);
    let other = Interface { tx_checksum, ..other.with_v6(locals) };
    config.add_interface(other).unwrap();
    config.settings.forwarding = true;
    let refused = |to: &str, way: Way<Ipv6Addr>| Route::new(to.parse().unwrap(), way);
    config.add_route(refused("2001:db8:dead::/48", Way::Blackhole)).unwrap();
    config.add_route(refused("2001:db8:f::/48", Way::Prohibited)).unwrap();
    let mut host = HostBox::with(host(&HostConfig::default()).unwrap(), config, Limits::default());
    host.advance(3 * SECOND);
    let target = ip("fd05::1");
    let ask = NdpRepr::NeighbourSolicit { target, source_link: Some(PEER_MAC), nonce: None };
    let frame = from_peer6(&ndp(ip("fd05::9"), ip("ff02::1:ff00:1"), ask));
    host.receive(&[tagged(&frame, VLAN, 0)]);
    let target = HOST6;
    let ask = NdpRepr::NeighbourSolicit { target, source_link: Some(PEER_MAC), nonce: None };
    host.receive(&[from_peer6(&ndp(PEER6, ip("ff02::1:ff00:1"), ask))]);
    host.sent();
    host
}

#[test]
fn a_packet_is_passed_on_with_a_hop_less() {
    let mut host = router();
    let packet = udp6((PEER6, 1), (ip("fd05::9"), 2), 64, b"through");
    host.receive(&[[&from_peer6(&packet)[..], &[0; 8]].concat()]);
    let passed = udp6((PEER6, 1), (ip("fd05::9"), 2), 63, b"through");
    let wanted = tagged(&ethernet(PEER_MAC, HOST_MAC, 0x86dd, &passed), VLAN, 0);
    assert_eq!(host.sent(), [wanted]);
    host.finish();
}

#[test]
fn a_partial_checksum_is_completed_on_the_way() {
    let mut host = router();
    host.set_flags(Flags::MAY_BE_PARTIAL);
    let whole = udp6((PEER6, 1), (ip("fd05::9"), 2), 64, b"through");
    let mut partial = whole.clone();
    let pseudo = weever_wire::checksum::Pseudo::v6(&pair(PEER6, ip("fd05::9")), 17, 15);
    partial[46..48].copy_from_slice(&pseudo.sum().to_be_bytes());
    host.receive(&[from_peer6(&partial)]);
    assert_eq!(host.sent()[0][18 + 40..], whole[40..]);
    host.finish();
}

#[test]
fn a_partial_checksum_is_left_to_a_link_that_completes_it() {
    let mut host = router_whose_link(true);
    host.set_flags(Flags::MAY_BE_PARTIAL);
    let whole = udp6((PEER6, 1), (ip("fd05::9"), 2), 64, b"through");
    let mut partial = whole.clone();
    let pseudo = weever_wire::checksum::Pseudo::v6(&pair(PEER6, ip("fd05::9")), 17, 15);
    partial[46..48].copy_from_slice(&pseudo.sum().to_be_bytes());
    host.receive(&[from_peer6(&partial), from_peer6(&whole)]);
    let sent = host.sent();
    assert_eq!((&sent[0][18 + 40..], &sent[1][18 + 40..]), (&partial[40..], &whole[40..]));
    // Behind another header the link need not find it.
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    partial.splice(40..40, options);
    (partial[5], partial[6]) = (partial[5] + 8, 60);
    host.receive(&[from_peer6(&partial)]);
    assert_eq!(host.sent()[0][18 + 48..], whole[40..]);
    host.finish();
}

#[test]
fn what_cannot_be_passed_on_is_reported() {
    let mut host = router();
    let to = |dst: &str, hop_limit, len| udp6((PEER6, 1), (ip(dst), 2), hop_limit, &vec![0; len]);
    for (packet, wanted) in [
        (to("fd05::9", 1, 4), (3, 0, 0)),
        (to("fd05::9", 0, 4), (3, 0, 0)),
        (to("fd05::9", 64, 1353), (2, 0, 1400)),
        (to("2600::1", 64, 4), (1, 0, 0)),
        (to("2001:db8:f::1", 64, 4), (1, 1, 0)),
    ] {
        host.receive(&[from_peer6(&packet)]);
        let sent = host.sent();
        let header = Ipv6Header::first(&sent[0][14..]).unwrap();
        assert_eq!((header.src(), header.dst()), (HOST6, PEER6));
        let view = Icmpv6View::new(&sent[0][54..]).unwrap();
        let said = view.header();
        assert_eq!((said.kind(), said.code(), said.value()), wanted);
        assert!(packet.starts_with(view.data()));
    }
    host.finish();
}

/// RFC 4443 §3.1: a neighbour that does not answer.
#[test]
fn a_silent_neighbour_is_reported_to_who_wants_it() {
    let mut host = router();
    let packet = udp6((PEER6, 1), (ip("fd05::77"), 2), 64, b"anybody?");
    host.receive(&[from_peer6(&packet)]);
    host.advance(5 * SECOND);
    let error = host.sent().into_iter().find(|frame| frame[..6] == PEER_MAC.0 && frame[20] == 58);
    let error = error.expect("an error to the sender");
    let said = Icmpv6Repr::parse(Icmpv6View::new(&error[54..]).unwrap()).unwrap();
    let Icmpv6Repr::Unreachable { code: 3, quote } = said else { panic!("{said:?}") };
    assert_eq!(quote[8..], packet[8..], "as it was passed on");
    let header = Ipv6Header::first(&error[14..]).unwrap();
    assert_eq!(header.src(), HOST6, "the address that the sender knows its router by");
    host.finish();
}

#[test]
fn what_is_dropped_without_a_word() {
    let mut host = router();
    let away = ip("fd05::9");
    let error = icmp6(PEER6, away, Icmpv6Repr::TimeExceeded { code: 0, quote: &[] });
    let mut spent = error;
    spent[7] = 1;
    for (packet, port) in [
        (udp6((PEER_LL, 1), (away, 2), 64, b"x"), "scope"),
        (udp6((PEER6, 1), (ip("2001:db8:dead::1"), 2), 64, b"x"), "blackhole"),
        (spent, "silent"),
    ] {
        host.receive(&[from_peer6(&packet)]);
        assert!(host.sent().is_empty(), "{port}");
        assert_eq!(host.count("RxL3IPv6Forward", CounterKind::Port, port), 1);
    }
    for _ in 0..60 {
        host.receive(&[from_peer6(&udp6((PEER6, 1), (away, 2), 1, b"x"))]);
    }
    assert_eq!(host.sent().len(), 10);
    assert_eq!(host.count("RxL3IPv6Forward", CounterKind::Port, "limited"), 50);
    // A link-local destination means nothing beyond its link.
    host.receive(&[from_peer6(&udp6((PEER6, 1), (ip("fe80::99"), 2), 64, b"x"))]);
    assert_eq!(host.count("RxL3IPv6Forward", CounterKind::Port, "scope"), 2);
    host.finish();
}

#[test]
fn a_host_passes_nothing_on() {
    let graph = host(&HostConfig::default()).unwrap();
    let mut host = HostBox::with(graph, host_state6(), Limits::default());
    host.receive(&[from_peer6(&udp6((PEER6, 1), (ip("fd05::9"), 2), 64, b"x"))]);
    assert_eq!(host.count("RxL3IPv6Destination", CounterKind::Port, "other"), 1);
    host.finish();
}

/// RFC 4861 §8.2: a sender that reaches a neighbour of its own through us gets a redirect, with as
/// much of the packet as 1,280 bytes hold.
#[test]
fn a_sender_is_told_of_a_better_first_hop() {
    let mut host = router();
    let on_link = ip("fd00::77");
    for len in [5, 1400] {
        let packet = udp6((PEER6, 1), (on_link, 2), 64, &vec![7; len]);
        host.advance(SECOND);
        host.receive(&[from_peer6(&packet)]);
        let sent = host.sent();
        let told = sent.iter().find(|frame| frame[54] == 137).expect("a redirect");
        assert_eq!((&told[..6], told[21]), (&PEER_MAC.0[..], 255));
        assert_eq!(told[22..38], HOST_LL.octets(), "the address by which it knows its router");
        assert_eq!(told[38..54], PEER6.octets());
        let message = &told[54..];
        assert!(message.len() <= 1240 && checksum_ok(message, &pair(HOST_LL, PEER6)));
        let redirect =
            NdpRepr::Redirect { target: on_link, destination: on_link, target_link: None };
        assert_eq!(NdpRepr::parse(message), Ok(redirect));
        assert_eq!((message[40], usize::from(message[41]) * 8), (4, message.len() - 40));
        let quoted = packet.len().min(message.len() - 48);
        assert_eq!(message[48..][..quoted], packet[..quoted]);
    }
    // No redirect for packets from elsewhere, to elsewhere, or with a spent hop limit, nor to the
    // next hop itself, nor to a sender that has just had one.
    for (src, dst, hops) in [
        ("fd00::2", on_link, 64),
        ("fd77::1", on_link, 64),
        ("fd00::2", ip("fd05::9"), 64),
        ("fd00::2", on_link, 1),
        ("fd00::2", PEER6, 64),
    ] {
        host.receive(&[from_peer6(&udp6((ip(src), 1), (dst, 2), hops, b"x"))]);
        assert!(!host.sent().iter().any(|frame| frame[54] == 137), "{src} {dst} {hops}");
    }
    assert_eq!(host.count("RxL3IPv6Forward", CounterKind::Own, "redirects"), 2);
}

/// Two routers that send a packet to each other do so until its hops are spent, and then say so.
#[test]
fn a_loop_ends() {
    let mut config = host_state6();
    config.settings.forwarding = true;
    config.settings.redirects = false;
    config.add_route(Route::via("2001:db8::/32".parse().unwrap(), PEER6)).unwrap();
    let mut host = HostBox::with(host(&HostConfig::default()).unwrap(), config, Limits::default());
    host.advance(3 * SECOND);
    let ask = NdpRepr::NeighbourSolicit { target: HOST6, source_link: Some(PEER_MAC), nonce: None };
    host.receive(&[from_peer6(&ndp(PEER6, ip("ff02::1:ff00:1"), ask))]);
    host.sent();
    let mut packet = udp6((PEER6, 1), (ip("2001:db8::9"), 2), 64, b"round and round");
    let mut rounds = 0;
    loop {
        host.receive(&[from_peer6(&packet)]);
        let sent = host.sent();
        let [frame] = &sent[..] else { panic!("{} frames", sent.len()) };
        if frame[20] == 58 {
            assert_eq!(frame[54..56], [3, 0], "hop limit exceeded");
            break;
        }
        rounds += 1;
        // The other router takes one as well.
        packet = frame[14..].to_vec();
        packet[7] -= 1;
    }
    assert_eq!(rounds, 32);
    host.finish();
}
