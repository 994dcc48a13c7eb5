//! Floods of messages that any station of a link may send.

use std::net::Ipv6Addr;

use weever_blocks_std::testing::{frames::*, frames6::*};
use weever_engine::CounterKind;
use weever_wire::MacAddr;
use weever_wire::ndp::{NdpOption, NdpOptions, NdpRepr, PrefixInfo, RouterAdvert};

use super::six::{acquainted, quiet, solicit};

const SECOND: u64 = 1_000_000_000;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A router of its own, with a prefix of its own.
fn advertisement(number: u16) -> Vec<u8> {
    let prefix = PrefixInfo {
        prefix: Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0),
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid: 1000,
        preferred: 1000,
    };
    let mut area = vec![0; NdpOption::Prefix(prefix).buffer_len()];
    NdpOption::Prefix(prefix).emit(&mut area).unwrap();
    let advert = RouterAdvert { lifetime: 1800, ..RouterAdvert::default() };
    let options = NdpOptions::new(&area).unwrap();
    let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, number);
    from_peer6(&ndp(router, ALL_NODES, NdpRepr::RouterAdvert { advert, options }))
}

fn echoes(host: &mut weever_blocks_std::testing::HostBox) {
    host.receive(&[from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, b"still there"))]);
    let back = udp6((HOST6, 7), (PEER6, 5000), 63, b"still there");
    assert!(host.sent().contains(&ethernet(PEER_MAC, HOST_MAC, 0x86dd, &back)));
}

/// Many are not looked at, and of those that are, few are kept.
#[test]
fn routers_without_number_are_bounded() {
    let mut host = acquainted();
    for second in 0..60 {
        let burst: Vec<_> = (0..50).map(|n| advertisement(second * 50 + n)).collect();
        host.receive(&burst);
        host.advance(SECOND);
        host.sent();
    }
    let handle = |port| host.count("RxL3NDPHandle", CounterKind::Port, port);
    let (taken, limited, full) = (handle("out"), handle("limited"), handle("full"));
    assert!(limited > 2000, "{limited} of 3,000 not looked at");
    assert!(full > 100, "{full} that were have no room");
    assert!(taken < 100, "{taken}");
    host.receive(&[solicit(PEER6, HOST6)]);
    host.sent();
    echoes(&mut host);
    host.finish();
}

/// Every neighbour there could be asks for us: some are remembered, each is answered or counted.
#[test]
fn neighbours_without_number_are_bounded() {
    let mut host = quiet();
    for round in 0..200u16 {
        let asks = (0..32u16).map(|n| {
            let src = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 7, round, n);
            solicit(src, HOST6)
        });
        host.receive(&asks.collect::<Vec<_>>());
        host.sent();
    }
    assert!(host.count("RxL3NDPHandle", CounterKind::Port, "limited") > 3500);
    // A second later the peer is heard again.
    host.advance(SECOND);
    host.receive(&[solicit(PEER6, HOST6)]);
    host.sent();
    echoes(&mut host);
    host.finish();
}

/// No station takes over a neighbour's traffic by an unsolicited answer, unless it says that it
/// overrides (RFC 4861 §7.2.5); and a claim to our own address changes nothing.
#[test]
fn advertisements_that_nobody_asked_for_change_what_the_protocol_lets_them() {
    let mut host = acquainted();
    let thief = MacAddr([2, 0, 0, 0, 0, 0x66]);
    let claim = |target, overrides| {
        let advert = NdpRepr::NeighbourAdvert {
            target,
            router: false,
            solicited: false,
            overrides,
            target_link: Some(thief),
        };
        let message = ndp("fe80::66".parse().unwrap(), ALL_NODES, advert);
        ethernet(MacAddr([0x33, 0x33, 0, 0, 0, 1]), thief, 0x86dd, &message)
    };
    host.receive(&[claim(PEER6, false), claim(HOST6, true)]);
    host.sent();
    echoes(&mut host);
    assert_eq!(host.count("RxL3NDPHandle", CounterKind::Port, "conflict"), 1);
    // A station that no packet went to is not entered by its own announcement.
    let stranger: Ipv6Addr = "fd00::66".parse().unwrap();
    host.receive(&[claim(stranger, true)]);
    host.receive(&[from_peer6(&udp6((stranger, 5000), (HOST6, 7), 64, b"x"))]);
    let asked = host.sent();
    let question = NdpRepr::parse(&asked[0][54..]).unwrap();
    assert!(matches!(question, NdpRepr::NeighbourSolicit { target, .. } if target == stranger));
    host.finish();
}

/// As long a chain as fits, and no processing without end: it is a drop, or found harmless.
#[test]
fn chains_of_extension_headers_end() {
    let mut host = acquainted();
    let mut packets = Vec::new();
    for count in 0..40 {
        for (kind, len) in [(60u8, 0u8), (60, 7), (43, 0), (44, 0)] {
            let mut payload = Vec::new();
            for n in 0..count {
                let next = if n + 1 == count { 17 } else { kind };
                let mut header = vec![0; 8 + 8 * usize::from(len)];
                (header[0], header[1]) = (next, len);
                payload.extend(header);
            }
            let datagram = udp6((PEER6, 5000), (HOST6, 7), 64, b"deep");
            payload.extend(&datagram[40..]);
            let first = if count == 0 { 17 } else { kind };
            packets.push(from_peer6(&ipv6(PEER6, HOST6, first, 64, &payload)));
        }
    }
    packets.chunks(32).for_each(|burst| host.receive(burst));
    let echoed = host.sent();
    assert!(echoed.len() >= 4 && echoed.len() < packets.len(), "{}", echoed.len());
    let (from, to, _) = message_of_udp(&echoed[0]);
    assert_eq!((from, to), (HOST6, PEER6));
    host.finish();
}

fn message_of_udp(frame: &[u8]) -> (Ipv6Addr, Ipv6Addr, usize) {
    let header = weever_wire::ipv6::Ipv6Header::first(&frame[14..]).unwrap();
    (header.src(), header.dst(), frame.len())
}

/// Errors about packets that were never sent change nothing, with any source address.
#[test]
fn errors_about_what_was_never_sent_change_nothing() {
    use weever_wire::icmpv6::Icmpv6Repr;
    let mut host = acquainted();
    let said: Vec<_> = (0..200u32)
        .map(|n| {
            let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n as u16);
            let quote = udp6((HOST6, 7), (far, 5000), 64, &[0; 1200]);
            let mtu = 1280 + n;
            from_peer6(&icmp6(PEER6, HOST6, Icmpv6Repr::PacketTooBig { mtu, quote: &quote }))
        })
        .collect();
    said.chunks(32).for_each(|burst| host.receive(burst));
    assert_eq!(host.count("RxL3ICMP6Error", CounterKind::Own, "toobig"), 200);
    assert_eq!(host.count("RxL3ICMP6Error", CounterKind::Own, "learned"), 0);
    echoes(&mut host);
    // And an error is not answered by an error.
    host.receive(&said[..1]);
    assert!(host.sent().is_empty());
    host.finish();
}
