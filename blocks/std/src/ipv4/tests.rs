use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_block::{BlockType, Burst, Mask};
use weever_net::addr::Cidr;
use weever_net::icmp::Cause;
use weever_net::route::Route;
use weever_net::state::NetConfig;
use weever_packet::{Endpoints, Flags, Fragment};
use weever_wire::ipv4::{Ipv4View, protocol};

use super::*;
use crate::bench::Bench;
use crate::host::Network;
use crate::testing::frames::*;

fn host() -> NetConfig {
    NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()])
}

fn bench() -> Bench {
    Bench::new().providing(Arc::new(Network::new(host())))
}

/// Datagrams at the front of their buffers, up to the header's validation.
fn received(bench: &mut Bench, datagrams: &[&[u8]]) -> Burst {
    let mut burst = bench.burst(datagrams);
    for task in 0..datagrams.len() {
        let packet = burst.get_mut(task).unwrap();
        packet.meta_mut().l3 = packet.head();
    }
    bench.run(&VALID_HEADER_LENGTH, burst, (1 << datagrams.len()) - 1).burst
}

fn passed(block: &'static BlockType, datagrams: &[&[u8]]) -> Mask {
    let mut bench = bench();
    let burst = received(&mut bench, datagrams);
    bench.run(block, burst, (1 << datagrams.len()) - 1).ports[1]
}

fn datagram() -> Vec<u8> {
    ipv4(ipv4_repr(PEER, HOST, protocol::UDP), b"payload")
}

fn between(src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    ipv4(ipv4_repr(src, dst, protocol::UDP), b"payload")
}

#[test]
fn headers_and_lengths() {
    let good = datagram();
    let short = patched(&good, 0, 0x44);
    let long = patched(&good, 0, 0x47);
    let mut bench = bench();
    let mut burst = bench.burst(&[&good, &good[..19], &short, &long]);
    for task in 0..4 {
        let packet = burst.get_mut(task).unwrap();
        packet.meta_mut().l3 = packet.head();
    }
    let ran = bench.run(&VALID_HEADER_LENGTH, burst, 0b1111);
    assert_eq!(ran.ports, [0b1110, 0b0001]);
    let meta = ran.packet(0).meta();
    assert_eq!(meta.l4 - meta.l3, 20);

    let padded = [&good[..], &[0; 19]].concat();
    let [below, above] = [19, 28].map(|len| patched(&good, 3, len));
    assert_eq!(passed(&VALID_LENGTH, &[&good, &padded, &below, &above]), 0b0011);
}

#[test]
fn the_end_leaves_padding_out() {
    let mut bench = bench();
    let padded = [&datagram()[..], &[0; 19]].concat();
    let burst = received(&mut bench, &[&padded]);
    let ran = bench.run(&VALID_LENGTH, burst, 1);
    let meta = ran.packet(0).meta();
    assert_eq!(meta.end - meta.l3, 27);
}

#[test]
fn checksums_options() {
    let good = datagram();
    let mut bad = good.clone();
    bad[8] ^= 1;
    assert_eq!(passed(&VALID_CHECKSUM, &[&good, &bad]), 0b01);
    let routed = [&patched(&good, 0, 0x46)[..20], &[131, 3, 4, 0], &good[20..]].concat();
    let bad = [&patched(&good, 0, 0x46)[..20], &[1, 148, 9, 0], &good[20..]].concat();
    let mut bench = bench();
    let burst = received(&mut bench, &[&good, &routed, &bad]);
    let ran = bench.run(&VALID_OPTIONS, burst, 0b111);
    assert_eq!(ran.ports, [0b001, 0b010, 0b100]);
    let cause = Cause::from_bits(ran.packet(2).meta().entry);
    assert_eq!(cause, Some(Cause::ParameterProblem { pointer: 21 }));
}

#[test]
fn addresses() {
    let to = [HOST, PEER, SUBNET_BROADCAST, Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)]
        .map(|dst| between(PEER, dst));
    let mut bench = bench();
    let burst = received(&mut bench, &to.each_ref().map(Vec::as_slice));
    let ran = bench.run(&DESTINATION, burst, 0b11111);
    assert_eq!(ran.ports, [0b11101, 0, 0, 0, 0, 0b00010]);
    let from = [PEER, HOST, SUBNET_BROADCAST, Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED]
        .map(|src| between(src, HOST));
    assert_eq!(passed(&VALID_SOURCE, &from.each_ref().map(Vec::as_slice)), 0b00001);
}

#[test]
fn time_to_live_counts_only_if_asked() {
    let [zero, low] = [0, 254].map(|ttl| patched(&datagram(), 8, ttl));
    assert_eq!(passed(&VALID_TTL, &[&zero, &low]), 0b11);
    let mut bench = bench().with_param("min", "255");
    let high = patched(&datagram(), 8, 255);
    let burst = received(&mut bench, &[&zero, &low, &high]);
    assert_eq!(bench.run(&VALID_TTL, burst, 0b111).ports[1], 0b100);
}

fn addressed(bench: &mut Bench, local: Ipv4Addr, remote: Ipv4Addr, payload: &[u8]) -> Burst {
    let mut packet = bench.packet(payload);
    let meta = packet.meta_mut();
    meta.flags = meta.flags.with(Flags::ENDPOINTS);
    meta.endpoints = Endpoints {
        local: Endpoints::mapped(local.to_bits()),
        remote: Endpoints::mapped(remote.to_bits()),
        protocol: protocol::UDP,
        ..Endpoints::default()
    };
    bench.single(packet)
}

#[test]
fn routes() {
    let any = Ipv4Addr::UNSPECIFIED;
    for (remote, wanted) in [
        (PEER, [0, 1, 0]),
        (Ipv4Addr::new(8, 8, 8, 8), [1, 0, 0]),
        (HOST, [0, 0, 1]),
        (Ipv4Addr::LOCALHOST, [1, 0, 0]),
    ] {
        let mut bench = bench();
        let burst = addressed(&mut bench, any, remote, b"");
        let ran = bench.run(&ROUTING, burst, 1);
        assert_eq!(ran.ports, wanted, "{remote}");
        if wanted == [0, 1, 0] {
            let ends = ran.packet(0).meta().endpoints;
            assert_eq!(Endpoints::v4(&ends.local), HOST.to_bits());
            assert_eq!(Endpoints::v4(&ends.next_hop), PEER.to_bits());
        }
    }
}

#[test]
fn groups_and_broadcasts_need_no_neighbour() {
    let group = Ipv4Addr::new(239, 129, 2, 3);
    for (remote, mac, ttl) in [
        (SUBNET_BROADCAST, [0xff; 6], 0),
        (Ipv4Addr::BROADCAST, [0xff; 6], 0),
        (group, [1, 0, 0x5e, 1, 2, 3], 1),
    ] {
        let mut bench = bench();
        let burst = addressed(&mut bench, Ipv4Addr::UNSPECIFIED, remote, b"");
        let ran = bench.run(&ROUTING, burst, 1);
        let meta = ran.packet(0).meta();
        assert_eq!((&ran.ports[..], meta.iface), (&[0, 1, 0][..], 0), "{remote}");
        assert!(meta.flags.has(Flags::NEXT_MAC));
        assert_eq!((meta.endpoints.next_mac, meta.endpoints.ttl), (mac, ttl), "{remote}");
        assert_eq!(Endpoints::v4(&meta.endpoints.local), HOST.to_bits());
    }
}

#[test]
fn a_gateway_is_the_next_hop() {
    let mut host = host();
    host.add_route(Route::via(Cidr::ALL, PEER)).unwrap();
    let mut bench = Bench::new().providing(Arc::new(Network::new(host)));
    let burst = addressed(&mut bench, HOST, Ipv4Addr::new(8, 8, 8, 8), b"");
    let ran = bench.run(&ROUTING, burst, 1);
    assert_eq!(Endpoints::v4(&ran.packet(0).meta().endpoints.next_hop), PEER.to_bits());
}

#[test]
fn a_header_is_written() {
    let mut bench = bench();
    let burst = addressed(&mut bench, HOST, PEER, b"payload");
    let burst = bench.run(&ALLOCATE_HEADER, burst, 1).burst;
    let ran = bench.run(&FILL_HEADER, burst, 1);
    let view = Ipv4View::new(ran.packet(0).data()).unwrap();
    let header = view.header();
    assert!(view.checksum_ok() && header.dont_fragment());
    assert_eq!((header.src(), header.dst(), header.ttl()), (HOST, PEER, 64));
    assert_eq!(view.payload(), b"payload");
    assert_eq!(ran.packet(0).meta().ethertype, 0x0800);
}

#[test]
fn what_exceeds_the_mtu_is_to_be_cut() {
    let (out, toolong, refused) = ([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]);
    for (fragment, len, wanted) in [
        (Fragment::Want, 1480, out),
        (Fragment::Want, 1481, toolong),
        (Fragment::Allow, 1, toolong),
        (Fragment::Never, 1480, out),
        (Fragment::Never, 1481, refused),
        (Fragment::Probe, 1481, refused),
    ] {
        let mut bench = bench();
        let mut burst = addressed(&mut bench, HOST, PEER, &vec![0; len]);
        burst.get_mut(0).unwrap().meta_mut().endpoints.fragment = fragment;
        let ran = bench.run(&ALLOCATE_HEADER, burst, 1);
        assert_eq!(ran.ports, wanted, "{fragment:?} {len}");
        if wanted == refused {
            assert_eq!(ran.packet(0).meta().segment, 1500, "the path's MTU");
        }
    }
}
