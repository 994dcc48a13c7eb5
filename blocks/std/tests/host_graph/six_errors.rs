//! Errors about fragments and about packets that are too long.

use std::net::Ipv6Addr;

use weever_blocks_std::testing::{HostBox, frames6::*};
use weever_engine::CounterKind;
use weever_wire::icmpv6::{Icmpv6Repr, Icmpv6View};

use super::six::{acquainted, message};

const SECOND: u64 = 1_000_000_000;

/// A fragment of UDP: offset in bytes, whether more follow, and its payload.
fn fragment(to: Ipv6Addr, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let [high, low] = (offset | u16::from(more)).to_be_bytes();
    ipv6(PEER6, to, 44, 64, &[&[17, 0, high, low, 0, 0, 0, 9][..], data].concat())
}

/// The error that goes to the peer, about this packet.
fn said(host: &mut HostBox, about: &[u8], wanted: Icmpv6Repr<'_>) {
    let sent = host.sent();
    assert_eq!(sent.len(), 1, "{about:?}");
    let (from, to, bytes) = message(&sent[0]);
    assert_eq!((from, to), (HOST6, PEER6));
    assert_eq!(Icmpv6Repr::parse(Icmpv6View::new(&bytes).unwrap()), Ok(wanted));
}

/// RFC 8200 §4.5, RFC 7112 §5.
#[test]
fn impossible_fragments_are_reported() {
    let mut host = acquainted();
    let uneven = fragment(HOST6, 0, true, &[7; 12]);
    let far = fragment(HOST6, 65_528, false, &[7; 8]);
    let headless = fragment(HOST6, 0, true, &[]);
    let options = [&[60, 0, 0, 1, 0, 0, 0, 8][..], &[17, 1, 1, 4, 0, 0, 0, 0]].concat();
    let cut = ipv6(PEER6, HOST6, 44, 64, &options);
    let problem = |code, pointer, quote| Icmpv6Repr::ParameterProblem { code, pointer, quote };
    for (bad, code, pointer) in [(&uneven, 0, 4), (&far, 0, 42), (&cut, 3, 0), (&headless, 3, 0)] {
        host.receive(&[from_peer6(bad)]);
        said(&mut host, bad, problem(code, pointer, bad));
    }
    // One that we cannot hold is not the sender's fault, and packets to a group are not reported.
    host.receive(&[from_peer6(&fragment(HOST6, 65_496, false, &[7; 8]))]);
    let all: Ipv6Addr = "ff02::1".parse().unwrap();
    host.receive(&[from_peer6(&fragment(all, 0, true, &[7; 12]))]);
    assert!(host.sent().is_empty());
    assert_eq!(host.count("RxL3IPv6Reassemble", CounterKind::Port, "full"), 1);
    assert_eq!(host.count("RxL3IPv6BadFragment", CounterKind::Port, "silent"), 1);
    host.finish();
}

#[test]
fn a_packet_that_is_never_whole_is_reported_if_its_first_fragment_came() {
    let mut host = acquainted();
    let first = fragment(HOST6, 0, true, &[7; 48]);
    host.receive(&[from_peer6(&first)]);
    let mut second = fragment(HOST6, 48, true, &[7; 8]);
    second[47] = 8;
    host.receive(&[from_peer6(&second)]);
    // Neighbours are made sure of meanwhile.
    let mut errors = Vec::new();
    for _ in 0..70 {
        host.advance(SECOND);
        errors.extend(host.sent().into_iter().filter(|frame| frame[54] < 128));
    }
    let [error] = &errors[..] else { panic!("{} errors", errors.len()) };
    let (from, to, bytes) = message(error);
    assert_eq!((from, to), (HOST6, PEER6));
    let wanted = Icmpv6Repr::TimeExceeded { code: 1, quote: &first };
    assert_eq!(Icmpv6Repr::parse(Icmpv6View::new(&bytes).unwrap()), Ok(wanted));
    host.finish();
}

/// RFC 8201 §4: of two routers, only the one is believed whose error quotes a packet that was sent.
#[test]
fn a_path_is_learned_from_what_was_sent() {
    let mut host = acquainted();
    let echo = |len| from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, &vec![9; len]));
    let answer = udp6((HOST6, 7), (PEER6, 5000), 64, &[9; 1400]);
    let mtu = 1280;
    let too_big =
        from_peer6(&icmp6(PEER6, HOST6, Icmpv6Repr::PacketTooBig { mtu, quote: &answer[..1200] }));
    let learned = |host: &HostBox| host.count("RxL3ICMP6Error", CounterKind::Own, "learned");
    host.receive(&[&too_big]);
    assert_eq!(learned(&host), 0, "nothing so long was sent");
    host.receive(&[echo(1400)]);
    assert_eq!(host.sent().len(), 1, "whole");
    host.receive(&[&too_big]);
    assert_eq!(learned(&host), 1);
    host.receive(&[echo(1400)]);
    let sent = host.sent();
    assert_eq!((sent.len(), sent[0][20]), (2, 44), "in fragments");
    assert!(sent.iter().all(|frame| frame.len() <= 14 + 1280));
    // Ten minutes later a whole one is tried.
    host.advance(620 * SECOND);
    host.sent();
    host.receive(&[super::six::solicit(PEER6, HOST6), echo(1400)]);
    assert!(host.sent().iter().any(|frame| frame.len() == 14 + 1448));
    host.finish();
}
