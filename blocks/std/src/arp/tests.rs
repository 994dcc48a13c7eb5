use std::net::Ipv4Addr;

use weever_block::{BlockType, Buffer, Burst, Claim, Mask, Priority};
use weever_net::state::NetConfig;
use weever_packet::{Endpoints, Flags};
use weever_wire::MacAddr;
use weever_wire::arp::{ArpRepr, ArpView};

use super::*;
use crate::bench::{Bench, Ran};
use crate::host::provide;
use crate::testing::frames::{self, HOST, HOST_MAC, PEER, PEER_MAC};

const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

fn bench() -> Bench {
    let bench = Bench::new();
    provide(&bench.env, NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]), 0);
    bench
}

/// An ARP packet without its Ethernet header, as it looks behind that header's validators.
fn received(bench: &mut Bench, frame: &[u8]) -> Buffer {
    let mut packet = bench.packet(&frame[14..]);
    let l3 = packet.head();
    (packet.meta_mut().l3, packet.meta_mut().ethertype) = (l3, 0x0806);
    packet
}

fn run(bench: &mut Bench, block: &'static BlockType, frames: &[Vec<u8>]) -> Ran {
    let mut burst = Burst::new();
    for (task, frame) in frames.iter().enumerate() {
        let packet = received(bench, frame);
        burst.put(task, packet);
    }
    bench.run(block, burst, (1 << frames.len()) - 1)
}

/// The tasks that leave by each port of a node which the text defines.
fn stated(node: &str, frames: &[Vec<u8>]) -> Vec<Mask> {
    let mut bench = bench();
    let mut burst = Burst::new();
    for (task, frame) in frames.iter().enumerate() {
        let packet = received(&mut bench, frame);
        burst.put(task, packet);
    }
    bench.run_stated(node, burst, (1 << frames.len()) - 1).ports
}

fn ports(block: &'static BlockType, frames: &[Vec<u8>]) -> Vec<Mask> {
    run(&mut bench(), block, frames).ports
}

fn arp(op: u16, sha: MacAddr, spa: Ipv4Addr, tpa: Ipv4Addr) -> Vec<u8> {
    frames::arp(op, (sha, spa), (MacAddr::ZERO, tpa))
}

#[test]
fn shapes_and_operations() {
    let good = frames::arp_request(HOST);
    let short = good[..41].to_vec();
    let mut other = good.clone();
    other[14] = 6;
    assert_eq!(stated("RxL3ARPValidHeaderLength", &[good.clone(), short, other]), [0b110, 0b001]);
    let frames = [good, frames::arp_reply(), arp(3, PEER_MAC, PEER, HOST)];
    assert_eq!(stated("RxL3ARPClassify", &frames), [0b001, 0b010, 0b100]);
    let targets = [HOST, OTHER].map(|tpa| arp(1, PEER_MAC, PEER, tpa));
    assert_eq!(stated("RxL3ARPLocalIPDest", &targets), [0b10, 0b01]);
}

#[test]
fn senders() {
    let frames = [
        arp(1, PEER_MAC, PEER, HOST),
        arp(1, PEER_MAC, Ipv4Addr::UNSPECIFIED, HOST),
        arp(1, PEER_MAC, HOST, HOST),
        arp(1, HOST_MAC, PEER, HOST),
        arp(1, MacAddr::BROADCAST, PEER, HOST),
        arp(1, PEER_MAC, Ipv4Addr::BROADCAST, HOST),
    ];
    assert_eq!(stated("RxL3ARPValidRequest", &frames), [0b111000, 0b000111]);
    assert_eq!(stated("RxL3ARPValidResponse", &frames), [0b111010, 0b000101]);
}

#[test]
fn a_request_is_answered_and_its_sender_learned() {
    let mut bench = bench();
    let ran = run(&mut bench, &INIT_RESPONSE, &[frames::arp_request(HOST)]);
    assert_eq!(ran.requests.claims, [(Claim::Spawn { edge: 0, priority: Priority::High }, 1)]);
    assert_eq!(ran.requests.counts, [(1, 1), (0, 1)]);
    let sent = transmit(&mut bench, &INITIATE_RESPONSE, ran.burst);
    assert_eq!((sent.op, sent.sha, sent.spa), (2, HOST_MAC, HOST));
    assert_eq!((sent.tha, sent.tpa), (PEER_MAC, PEER));
    assert_eq!(run(&mut bench, &IS_PENDING, &[frames::arp_reply()]).ports, [0, 1]);
}

/// Runs a packet through the transmit side, from `from` on.
fn transmit(bench: &mut Bench, from: &'static BlockType, burst: Burst) -> ArpRepr {
    let burst = bench.run(from, burst, 1).burst;
    let burst = bench.run(&ALLOCATE_HEADER, burst, 1).burst;
    let ran = bench.run(&FILL_HEADER, burst, 1);
    assert_eq!(ran.ports, [0, 1]);
    ArpRepr::parse(ArpView::new(ran.packet(0).data()).unwrap())
}

fn waiting(bench: &mut Bench) -> Burst {
    let mut packet = bench.packet(b"datagram");
    let meta = packet.meta_mut();
    meta.flags = Flags::ENDPOINTS;
    meta.endpoints.next_hop = Endpoints::mapped(PEER.to_bits());
    bench.single(packet)
}

#[test]
fn a_packet_waits_for_its_neighbour() {
    let mut bench = bench();
    let key = Key4::new(0, PEER).wait_key([0; 2]);
    let burst = waiting(&mut bench);
    let mut ran = bench.run(&LOOKUP, burst, 1);
    assert_eq!(ran.requests.claims, [(Claim::Block { key }, 1)]);
    let request = ran.requests.spawns.pop().unwrap();
    let burst = bench.single(request.buffer.unwrap());
    let asked = transmit(&mut bench, &SEND_REQUEST, burst);
    assert_eq!((asked.op, asked.spa, asked.tpa, asked.tha), (1, HOST, PEER, MacAddr::ZERO));

    let burst = waiting(&mut bench);
    let again = bench.run(&LOOKUP, burst, 1);
    assert!(again.requests.spawns.is_empty(), "one question at a time");

    let answer = run(&mut bench, &PROCESS_PENDING_RESPONSE, &[frames::arp_reply()]);
    assert_eq!(answer.requests.notifies, [(0, Some(key))]);
    let burst = waiting(&mut bench);
    let found = bench.run(&LOOKUP, burst, 1);
    assert_eq!(found.ports, [1, 0, 0, 0]);
    assert_eq!(found.packet(0).meta().endpoints.next_mac, PEER_MAC.0);
}

#[test]
fn a_neighbour_that_is_silent_is_given_up() {
    let mut bench = bench();
    let burst = waiting(&mut bench);
    let mut lookup = bench.make(&LOOKUP);
    bench.run_block(lookup.as_mut(), &LOOKUP, burst, 1);
    let mut timer = bench.make(&TIMER);
    let (mut requests, mut woken) = (0, Vec::new());
    for _ in 0..40 {
        bench.now += 100_000_000;
        let ran = bench.run_block(timer.as_mut(), &TIMER, Burst::new(), 1);
        assert_eq!(ran.requests.spawns.iter().filter(|s| s.edge == 0).count(), 1);
        requests += ran.requests.spawns.iter().filter(|s| s.edge == 1).count();
        woken.extend(ran.requests.notifies.iter().copied());
    }
    assert_eq!((requests, woken), (2, vec![(0, Some(u64::from(PEER.to_bits())))]));
    let mut burst = waiting(&mut bench);
    let woken = burst.get_mut(0).unwrap().meta_mut();
    woken.flags = woken.flags.with(Flags::WAITED);
    let ran = bench.run_block(lookup.as_mut(), &LOOKUP, burst, 1);
    assert_eq!(ran.ports, [0, 1, 0, 0]);
}

#[test]
fn addresses_are_announced_and_defended() {
    let mut bench = bench();
    let mut timer = bench.make(&TIMER);
    let mut ran = bench.run_block(timer.as_mut(), &TIMER, Burst::new(), 1);
    let announcement = ran.requests.spawns.iter_mut().find(|s| s.edge == 2).unwrap();
    let burst = bench.single(announcement.buffer.take().unwrap());
    let sent = transmit(&mut bench, &SEND_GRATUITOUS, burst);
    assert_eq!((sent.op, sent.spa, sent.tpa), (1, HOST, HOST));

    let claim = arp(2, PEER_MAC, HOST, HOST);
    let ran = run(&mut bench, &PROCESS_PENDING_RESPONSE, &[claim.clone(), claim]);
    assert_eq!(ran.requests.claims, [(Claim::Spawn { edge: 0, priority: Priority::High }, 1)]);
    assert_eq!(ran.ports, [0, 0b10, 0, 0]);
}

#[test]
fn strangers_are_none_of_our_business() {
    let frames = [arp(1, PEER_MAC, PEER, OTHER), arp(1, PEER_MAC, HOST, OTHER)];
    assert_eq!(ports(&IS_PENDING, &frames), [0b01, 0b10]);
}

#[test]
fn an_impossible_period_is_refused() {
    let bench = bench();
    let mut node = weever_graph::Node::new("Timer", weever_graph::NodeKind::Function);
    node.attrs.push(weever_graph::Attr::parse("period=0"));
    let build = weever_block::Build { node: &node, block_type: &TIMER, env: &bench.env };
    let error = (TIMER.make)(&build).err().unwrap().to_string();
    assert!(error.contains("period=0") && error.contains("1 to 1000"), "{error}");
}
