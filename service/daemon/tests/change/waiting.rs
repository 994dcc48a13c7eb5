//! Packets and fragments that wait while the graph is changed.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use weever_blocks_std::testing::frames::{HOST, PEER, PEER_MAC};
use weever_blocks_std::testing::frames6::{HOST6, PEER6};
use weever_blocks_std::testing::{frames, frames6};
use weever_daemon::config::Prefix;
use weever_service_api::{ApplyRequest, GraphFormat, GraphRequest};
use weever_wire::MacAddr;
use weever_wire::arp::ArpView;
use weever_wire::ipv4::Ipv4Repr;
use weever_wire::ndp::NdpRepr;

use super::operator::{client, counted, lost, set, unprobed};
use crate::common::peer::{ECHO, PATIENCE, Peer, start};

/// A neighbour that nobody has told the stack of.
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

const STRANGER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// The graph with other names for the nodes at which packets wait for their neighbours.
fn renamed(text: &str) -> String {
    let named = |text: String, implementation: &str| {
        let node = format!("node Find{implementation} {{\nimplementation {implementation}");
        text.replacen("node Find {", &node, 1)
    };
    let text = named(named(text.replace("Lookup_", "Find"), "TxL3NDLookup_"), "TxL3ARPLookup_");
    text.replace("node FindTxL3NDLookup_", "node Find")
        .replace("node FindTxL3ARPLookup_", "node Find")
}

/// A stack whose answers to the stranger wait for its address, so many for each family.
fn waiting(answers: u8) -> (weever_daemon::Stack, Peer) {
    let mut config = unprobed();
    config.neighbours = vec![(PEER.into(), PEER_MAC)];
    config.interfaces[0].addresses.push(Prefix::new(HOST6.into(), 64).unwrap());
    let (stack, mut peer) = start(config);
    let used = |stack: &weever_daemon::Stack| stack.status().interfaces[0].addresses.clone();
    let deadline = Instant::now() + PATIENCE;
    while !used(&stack).contains(&format!("{HOST6}/64")) {
        assert!(Instant::now() < deadline, "{:?}", used(&stack));
        std::thread::sleep(Duration::from_millis(10));
    }
    for number in 0..answers {
        let from = SocketAddrV4::new(STRANGER, 4000);
        let four = frames::udp_datagram(from, SocketAddrV4::new(HOST, ECHO), &[4, number]);
        peer.send(&frames::from_peer(&four));
        let six = frames6::udp6((PEER6, 4000), (HOST6, ECHO), 64, &[6, number]);
        peer.send(&frames6::from_peer6(&six));
    }
    (stack, peer)
}

/// Waits until the stack has asked for both neighbours, without an answer.
fn asked(peer: &mut Peer) {
    let (mut four, mut six) = (false, false);
    while !four || !six {
        let frame = peer.receive_any(PATIENCE).expect("it asks for both");
        let arp = ArpView::new(&frame[14..]);
        four |= arp.is_ok_and(|arp| arp.header().tpa() == STRANGER);
        // A solicitation (RFC 4861 §4.3) for the peer.
        six |= frame[12..14] == [0x86, 0xdd]
            && frame.get(54) == Some(&135)
            && frame.get(62..78) == Some(&PEER6.octets());
    }
}

fn tell(peer: &mut Peer) {
    peer.send(&frames::arp(2, (STRANGER_MAC, STRANGER), (frames::HOST_MAC, HOST)));
    let (router, solicited, overrides, target_link) = (false, true, true, Some(PEER_MAC));
    let advert =
        NdpRepr::NeighbourAdvert { target: PEER6, router, solicited, overrides, target_link };
    peer.send(&frames6::from_peer6(&frames6::ndp(PEER6, HOST6, advert)));
}

/// The payloads of the echoes that come, of either family.
fn echoes(peer: &mut Peer, count: usize) -> Vec<[u8; 2]> {
    let (mut all, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while all.len() < count {
        assert!(Instant::now() < deadline, "of {count} there came {all:?}");
        let Some(frame) = peer.receive_any(Duration::from_millis(100)) else { continue };
        let udp = match frame[12..14] {
            [8, 0] if frame[23] == 17 => &frame[34..],
            [0x86, 0xdd] if frame[20] == 17 => &frame[54..],
            _ => continue,
        };
        all.push([udp[8], udp[9]]);
    }
    all
}

fn of_family(all: &[[u8; 2]], family: u8) -> Vec<u8> {
    all.iter().filter(|echo| echo[0] == family).map(|echo| echo[1]).collect()
}

/// \"All without losing a packet\": packets that wait for a neighbour while others are changed, or while
/// their node is renamed, are sent in order when the neighbour is known; packets to known neighbours are
/// served all along.
#[test]
fn packets_that_wait_for_a_neighbour_outlive_changes() {
    const WAITING: u8 = 20;
    let (stack, mut peer) = waiting(WAITING);
    asked(&mut peer);
    let mut client = client(&stack);
    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
    let renamed = renamed(&text);
    let later = |peer: &mut Peer| {
        let from = SocketAddrV4::new(PEER, 4000);
        let to = SocketAddrV4::new(HOST, ECHO);
        peer.send(&frames::from_peer(&frames::udp_datagram(from, to, &[0, 0])));
        assert_eq!(echoes(peer, 1), [[0, 0]], "waiting packets hold up no others");
    };
    for (name, wanted) in [
        ("counted.unicorn", counted(&text)),
        ("renamed.unicorn", renamed.clone()),
        ("both.unicorn", counted(&renamed)),
        ("host.unicorn", text),
    ] {
        let changed = client.call(&ApplyRequest::new(name, &wanted)).unwrap();
        assert!(changed.steps > 0 && changed.notes.is_empty(), "{name}: {changed:?}");
        later(&mut peer);
    }
    tell(&mut peer);
    let all = echoes(&mut peer, 2 * usize::from(WAITING));
    let in_order: Vec<u8> = (0..WAITING).collect();
    assert_eq!((of_family(&all, 4), of_family(&all, 6)), (in_order.clone(), in_order));
    assert_eq!(lost(&stack), []);
    assert_eq!(stack.stop().failure, None);
}

/// A node without a successor is gone, and so are the packets that wait there; they are counted, and the
/// rest goes on.
#[test]
fn packets_that_wait_at_a_node_without_a_successor_are_counted_drops() {
    let (stack, mut peer) = waiting(3);
    asked(&mut peer);
    let mut client = client(&stack);
    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
    // Two that would do for IPv4: nobody knows which one is meant.
    let renamed = renamed(&text);
    let (before, node) = renamed.rsplit_once("node Find {").unwrap();
    let (node, after) = node.split_once("\n            }").unwrap();
    let other = node.replace("waiting Find", "waiting Other");
    let doubled =
        format!("{before}node Find {{{node}\n}}\nnode Other {{{other}\n            }}{after}");
    let doubled = doubled.replace("spawn fragment .L3ARPFind", "spawn fragment .L3ARPOther");
    client.call(&ApplyRequest::new("doubled.unicorn", &doubled)).unwrap();
    let removed = || {
        let drops = lost(&stack).into_iter();
        drops.filter(|d| d.reason == "node was removed").map(|d| d.packets).sum::<u64>()
    };
    let deadline = Instant::now() + PATIENCE;
    while removed() < 3 {
        assert!(Instant::now() < deadline, "{:?}", lost(&stack));
    }
    tell(&mut peer);
    assert_eq!(of_family(&echoes(&mut peer, 3), 6), [0, 1, 2]);
    assert_eq!(removed(), 3);
}

/// Half of a datagram is here when the node that keeps it gets another parameter.
#[test]
fn fragments_outlive_the_change_of_the_node_that_keeps_them() {
    let mut config = unprobed();
    config.neighbours = vec![(PEER.into(), PEER_MAC)];
    let (stack, mut peer) = start(config);
    let (from, to) = (SocketAddrV4::new(PEER, 4000), SocketAddrV4::new(HOST, ECHO));
    let payload: Vec<u8> = (0..64).collect();
    let segment = frames::udp_segment(from, to, &payload);
    let piece = |offset: usize, more: bool, bytes: &[u8]| {
        let repr = frames::ipv4_repr(PEER, HOST, 17);
        let flags_frag = u16::from(more) << 13 | (offset / 8) as u16;
        let repr = Ipv4Repr { flags_frag, ..repr };
        frames::from_peer(&frames::ipv4(repr, bytes))
    };
    peer.send(&piece(0, true, &segment[..32]));
    let mut client = client(&stack);
    assert!(set(&mut client, "node.RxL3IPv4Reassemble.period=50").unwrap() > 0);
    peer.send(&piece(32, false, &segment[32..]));
    let answer = peer.receive();
    assert_eq!(answer[42..], payload);
    assert_eq!(lost(&stack), []);
}
