//! A host, two clients, and frames of attackers, each with other random addresses and numbers. The attackers are on the host's link, so
//! nothing in front of it has sorted them out.

use std::net::{Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use weever_wire::MacAddr;
use weever_wire::arp::ArpRepr;
use weever_wire::checksum::Pseudo;
use weever_wire::ethernet::{EthernetRepr, ethertype};
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::{Ipv4Repr, protocol};
use weever_wire::ipv6::Ipv6Repr;
use weever_wire::ndp::NdpRepr;
use weever_wire::udp::UdpRepr;

pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub(super) const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub(super) const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 9, 1]);
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
pub(super) const CLIENT6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
pub(super) const CLIENT_MAC: MacAddr = MacAddr([2, 0, 0, 0, 9, 2]);
/// A port that takes everything and answers nothing.
pub(super) const SERVED: u16 = 9;

/// Frames of one kind.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// The node of the host's graph at which they arrive.
    pub(super) node: &'static str,
    pub(super) frame: fn(&mut Rng) -> Vec<u8>,
}

const fn attack(name: &'static str, node: &'static str, frame: fn(&mut Rng) -> Vec<u8>) -> Attack {
    Attack { name, node, frame }
}

pub(super) const ATTACKS: [Attack; 13] = [
    attack("ARP requests", "RxL3ARPInitResponse", |rng| arp(rng, 1)),
    attack("ARP replies", "RxL3ARPIsPending", |rng| arp(rng, 2)),
    attack("neighbour solicitations", "RxL3NDPHandle", |rng| {
        let (source, mac) = (on_link6(rng), mac(rng));
        let source_link = Some(mac);
        ndp(source, HOST6, NdpRepr::NeighbourSolicit { target: HOST6, source_link, nonce: None })
    }),
    attack("neighbour advertisements", "RxL3NDPHandle", |rng| {
        let (target, target_link) = (on_link6(rng), Some(mac(rng)));
        let (router, solicited, overrides) = (false, true, true);
        ndp(
            target,
            HOST6,
            NdpRepr::NeighbourAdvert { target, router, solicited, overrides, target_link },
        )
    }),
    attack("router advertisements", "RxL3NDPHandle", router_advertisement),
    attack("fragments, IPv4", "RxL3IPv4Reassemble", |rng| {
        // The first of two, whose second never comes.
        let header = Ipv4Repr { flags_frag: 0x2000, ident: rng.u16(..), ..v4(on_link(rng)) };
        ipv4(rng, header, &[0x2a; 64])
    }),
    attack("fragments, IPv6", "RxL3IPv6Reassemble", |rng| {
        let fragment = [&[17, 0, 0, 1][..], &rng.u32(..).to_be_bytes(), &[0x2a; 64]].concat();
        ipv6(on_link6(rng), HOST6, 44, 64, &fragment)
    }),
    attack("closed port, IPv4", "RxL4UDPClosedPortAction", |rng| udp(rng, 999)),
    attack("closed port, IPv6", "RxL4UDPClosedPortAction6", |rng| {
        let mut segment = [0; 26];
        let (source, repr) =
            (on_link6(rng), UdpRepr { src_port: 5000, dst_port: 999, payload_len: 18 });
        repr.emit_with_checksum_v6(&mut segment, &pair(source, HOST6)).expect("room was made");
        ipv6(source, HOST6, 17, 64, &segment)
    }),
    attack("served port, random sources", "RxL4UDPDiscard", |rng| udp(rng, SERVED)),
    attack("echo requests, random sources", "RxL3ICMPNeedsResponse", |rng| {
        let header = v4(on_link(rng));
        icmp(rng, header, IcmpRepr::EchoRequest { ident: 1, seq: 1, data: &[0x2a; 32] })
    }),
    attack("IGMP queries", "RxL3IGMPValidQuery", |rng| {
        let mut query = [0; 8];
        let group = Ipv4Addr::from_bits(0xef00_0000 | rng.u32(..) & 0xff_ffff);
        weever_wire::igmp::emit_v2(0x11, 1, group, &mut query).expect("room was made");
        let header = Ipv4Repr { protocol: protocol::IGMP, ttl: 1, ..v4(on_link(rng)) };
        ipv4(rng, header, &query)
    }),
    attack("path MTUs, forged", "RxL3ICMPPathMtu", |rng| {
        let mut quote = vec![0; 28];
        let quoted = Ipv4Repr { src: HOST, dst: CLIENT, payload_len: 100, ..v4(HOST) };
        quoted.emit(&mut quote).expect("room was made");
        UdpRepr { src_port: 7, dst_port: 5000, payload_len: 92 }
            .emit(&mut quote[20..])
            .expect("room was made");
        let header = v4(on_link(rng));
        icmp(rng, header, IcmpRepr::Unreachable { code: 4, mtu: 68, quote: &quote })
    }),
];

fn mac(rng: &mut Rng) -> MacAddr {
    let [.., a, b, c, d] = rng.u64(..).to_be_bytes();
    MacAddr([2, 0xaa, a, b, c, d])
}

/// Any address of the host's subnet but those in use.
fn on_link(rng: &mut Rng) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a09_0000 | rng.u32(256..65_000))
}

fn on_link6(rng: &mut Rng) -> Ipv6Addr {
    Ipv6Addr::from_bits(HOST6.to_bits() | u128::from(rng.u64(..) | 1 << 32))
}

fn ethernet(source: MacAddr, to: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    EthernetRepr { dst: to, src: source, ethertype }.emit(&mut frame).expect("room was made");
    frame.extend_from_slice(payload);
    frame
}

fn arp(rng: &mut Rng, op: u16) -> Vec<u8> {
    let (sha, spa, mut packet) = (mac(rng), on_link(rng), vec![0; 28]);
    ArpRepr { op, sha, spa, tha: HOST_MAC, tpa: HOST }.emit(&mut packet).expect("room was made");
    ethernet(sha, if op == 1 { MacAddr::BROADCAST } else { HOST_MAC }, ethertype::ARP, &packet)
}

/// A header of UDP from there to the host.
fn v4(src: Ipv4Addr) -> Ipv4Repr {
    let (tos, ident, flags_frag, ttl, payload_len) = (0, 7, 0, 64, 0);
    Ipv4Repr { tos, ident, flags_frag, ttl, protocol: protocol::UDP, src, dst: HOST, payload_len }
}

fn ipv4(rng: &mut Rng, header: Ipv4Repr, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    Ipv4Repr { payload_len: payload.len() as u16, ..header }
        .emit(&mut packet)
        .expect("room was made");
    packet.extend_from_slice(payload);
    ethernet(mac(rng), HOST_MAC, ethertype::IPV4, &packet)
}

fn udp(rng: &mut Rng, dst_port: u16) -> Vec<u8> {
    let (header, mut segment) = (v4(on_link(rng)), [0; 26]);
    let repr = UdpRepr { src_port: 5000, dst_port, payload_len: 18 };
    repr.emit_with_checksum(&mut segment, header.src, HOST).expect("room was made");
    ipv4(rng, header, &segment)
}

fn icmp(rng: &mut Rng, header: Ipv4Repr, repr: IcmpRepr<'_>) -> Vec<u8> {
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(&mut message).expect("room was made");
    ipv4(rng, Ipv4Repr { protocol: protocol::ICMP, ..header }, &message)
}

/// Addresses as they lie in the header.
pub(super) fn pair(src: Ipv6Addr, dst: Ipv6Addr) -> [u8; 32] {
    let mut both = [0; 32];
    both[..16].copy_from_slice(&src.octets());
    both[16..].copy_from_slice(&dst.octets());
    both
}

/// A packet to one of the host's addresses, or to all nodes.
pub(super) fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let (traffic_class, flow_label, payload_len) = (0, 0, payload.len() as u16);
    let header = Ipv6Repr {
        traffic_class,
        flow_label,
        payload_len,
        next_header: next,
        hop_limit: hops,
        src,
        dst,
    };
    let mut packet = vec![0; 40];
    header.emit(&mut packet).expect("room was made");
    packet.extend_from_slice(payload);
    let to = if dst.is_multicast() { MacAddr([0x33, 0x33, 0, 0, 0, 1]) } else { HOST_MAC };
    let [.., a, b, c, d] = src.octets();
    let source = if src == CLIENT6 { CLIENT_MAC } else { MacAddr([2, 0xbb, a, b, c, d]) };
    ethernet(source, to, ethertype::IPV6, &packet)
}

pub(super) fn ndp(src: Ipv6Addr, dst: Ipv6Addr, repr: NdpRepr<'_>) -> Vec<u8> {
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(&mut message, &pair(src, dst)).expect("room was made");
    ipv6(src, dst, 58, 255, &message)
}

/// From another router each time, with a prefix of its own and a low hop limit.
fn router_advertisement(rng: &mut Rng) -> Vec<u8> {
    let source = Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(rng.u64(..)));
    let dst = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let mut message = vec![134, 0, 0, 0, 1, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    let prefix = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(rng.u32(..)) << 64);
    message.extend([3, 4, 64, 0xc0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    message.extend(prefix.octets());
    let sum = Pseudo::v6(&pair(source, dst), 58, message.len() as u32).checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv6(source, dst, 58, 255, &message)
}
