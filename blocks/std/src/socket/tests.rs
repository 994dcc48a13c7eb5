use std::net::SocketAddrV4;

use weever_block::{Buffer, Claim};
use weever_net::demux::{Binding, Sharing, SocketRef};
use weever_net::state::NetConfig;
use weever_packet::{Endpoints, Flags};
use weever_wire::ethernet::ethertype;

use super::*;
use crate::bench::{Bench, Ran};
use crate::host::Network;
use crate::testing::frames::*;

const CLIENT: SocketAddrV4 = SocketAddrV4::new(PEER, 5000);
const SERVER: SocketAddrV4 = SocketAddrV4::new(HOST, 53);
const LINK: u16 = 3;

/// A bench whose worker has these sockets on port 53.
fn bench(sockets: &[u32]) -> Bench {
    let mut table = SocketTable::new([1, 2, 3, 4], 100);
    for id in sockets {
        let binding = Binding { local_port: Some(53), ..Binding::default() };
        table.insert(&binding, SocketRef { id: *id, worker: 0 }, Sharing::Latest).unwrap();
    }
    let tables = vec![Arc::new(AtomicRefCell::new(table))];
    let config = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
    Bench::new().providing(Arc::new(Network::new(config))).providing(Arc::new(Applications {
        ephemeral: Default::default(),
        link: LINK,
        tables,
        streams: Vec::new(),
    }))
}

fn received(bench: &mut Bench, to: SocketAddrV4) -> Buffer {
    let mut packet = bench.packet(&udp_datagram(CLIENT, to, b"question"));
    let (head, len) = (packet.head(), packet.len() as u16);
    let meta = packet.meta_mut();
    (meta.l2, meta.l3, meta.l4, meta.end) = (head, head, head + 20, head + len);
    meta.ethertype = ethertype::IPV4;
    packet
}

#[test]
fn a_datagram_finds_its_socket_or_is_a_miss() {
    let mut bench = bench(&[7]);
    let mut burst = weever_block::Burst::new();
    let other = SocketAddrV4::new(HOST, 54);
    for (task, to) in [SERVER, other, SERVER].into_iter().enumerate() {
        let packet = received(&mut bench, to);
        burst.put(task, packet);
    }
    let ran = bench.run(&DEMUX, burst, 0b111);
    assert_eq!(ran.ports, [0b101, 0b010]);
    assert_eq!((ran.packet(0).meta().entry, ran.packet(2).meta().entry), (7, 7));
}

#[test]
fn without_applications_everything_is_a_miss() {
    let config = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
    let mut bench = Bench::new().providing(Arc::new(Network::new(config)));
    let packet = received(&mut bench, SERVER);
    let burst = bench.single(packet);
    assert_eq!(bench.run(&DEMUX, burst, 1).ports, [0, 1]);
    let packet = received(&mut bench, SERVER);
    let burst = bench.single(packet);
    assert_eq!(bench.run(&DELIVER, burst, 1).ports, [1], "no socket can be meant");
}

#[test]
fn what_comes_to_everybody_reaches_every_socket() {
    let mut bench = bench(&[7, 8, 9]);
    let mut packet = received(&mut bench, SERVER);
    packet.meta_mut().flags = Flags::LINK_BROADCAST;
    let burst = bench.single(packet);
    let ran = bench.run(&DEMUX, burst, 1);
    assert_eq!(ran.ports, [1, 0]);
    let copies: Vec<u32> = ran
        .requests
        .spawns
        .iter()
        .filter_map(|s| s.buffer.as_ref())
        .map(|b| b.meta().entry)
        .collect();
    assert_eq!((ran.packet(0).meta().entry, copies.as_slice()), (7, &[8, 9][..]));
    assert_eq!(ran.requests.counts, [(0, 2)]);
}

#[test]
fn an_application_gets_the_payload_and_learns_both_ends() {
    let mut bench = bench(&[7]);
    let packet = received(&mut bench, SERVER);
    let burst = bench.single(packet);
    let ran = bench.run(&DELIVER, burst, 1);
    assert_eq!(ran.requests.claims, [(Claim::Transmit { link: LINK }, 1)]);
    assert_eq!(ran.packet(0).at(ran.packet(0).meta().l4), b"question");
    let ends = ran.packet(0).meta().endpoints;
    assert_eq!((ends.local_port, ends.remote_port, ends.ttl), (53, 5000, 64));
    assert_eq!(ends.remote, Endpoints::mapped(PEER.to_bits()));
    assert_eq!(ends.local, Endpoints::mapped(HOST.to_bits()));
}

/// Sends a datagram of an application from `local` to `remote`.
fn send(local: [u8; 16], remote: [u8; 16]) -> Ran {
    let mut bench = bench(&[7]);
    let mut packet = bench.packet(b"answer");
    packet.meta_mut().endpoints = Endpoints { local, remote, ..Endpoints::default() };
    let burst = bench.single(packet);
    bench.run(&SEND, burst, 1)
}

#[test]
fn the_source_address_is_one_of_ours() {
    let (host, peer) = (Endpoints::mapped(HOST.to_bits()), Endpoints::mapped(PEER.to_bits()));
    let chosen = send(Endpoints::mapped(0), peer);
    assert_eq!(chosen.ports, [1, 0, 0, 0]);
    assert_eq!(chosen.packet(0).meta().endpoints.local, host);
    assert_eq!(send(host, peer).ports, [1, 0, 0, 0]);
    assert_eq!(send(peer, peer).ports, [0, 1, 0, 0], "another host's address");
    assert_eq!(send(Endpoints::mapped(0), Endpoints::mapped(0x0808_0808)).ports, [0, 0, 1, 0]);
}
