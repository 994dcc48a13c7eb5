//! Frames of IPv6 between a host and its peer, as tests need them.

use std::net::Ipv6Addr;

use weever_wire::MacAddr;
use weever_wire::ethernet::ethertype;
use weever_wire::icmpv6::Icmpv6Repr;
use weever_wire::ipv6::Ipv6Repr;
use weever_wire::ndp::NdpRepr;
use weever_wire::udp::UdpRepr;

use super::frames::{HOST_MAC, PEER_MAC, ethernet};

/// The host's address.
pub const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
/// The host's link-local address.
pub const HOST_LL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// The peer's address.
pub const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
/// The peer's link-local address.
pub const PEER_LL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

/// Source and destination as they lie in the header.
pub fn pair(src: Ipv6Addr, dst: Ipv6Addr) -> [u8; 32] {
    let mut both = [0; 32];
    both[..16].copy_from_slice(&src.octets());
    both[16..].copy_from_slice(&dst.octets());
    both
}

/// A packet.
pub fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let (traffic_class, flow_label, payload_len) = (0, 0, payload.len() as u16);
    let next_header = next;
    let repr =
        Ipv6Repr { traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst };
    let mut packet = vec![0; 40];
    repr.emit(&mut packet).expect("40 bytes");
    packet.extend_from_slice(payload);
    packet
}

/// A frame with an IPv6 packet from the peer to the host, or to the group that it is for.
pub fn from_peer6(packet: &[u8]) -> Vec<u8> {
    let dst = match packet[24] {
        0xff => MacAddr([0x33, 0x33, packet[36], packet[37], packet[38], packet[39]]),
        _ => HOST_MAC,
    };
    ethernet(dst, PEER_MAC, ethertype::IPV6, packet)
}

/// A UDP datagram with its checksum.
pub fn udp6(src: (Ipv6Addr, u16), dst: (Ipv6Addr, u16), hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = [&[0; 8], payload].concat();
    let repr = UdpRepr { src_port: src.1, dst_port: dst.1, payload_len: payload.len() as u16 };
    repr.emit_with_checksum_v6(&mut segment, &pair(src.0, dst.0)).expect("it fits");
    ipv6(src.0, dst.0, 17, hop_limit, &segment)
}

/// An ICMPv6 message with its checksum.
pub fn icmp6(src: Ipv6Addr, dst: Ipv6Addr, repr: Icmpv6Repr<'_>) -> Vec<u8> {
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(&mut message, &pair(src, dst)).expect("it fits");
    ipv6(src, dst, 58, 64, &message)
}

/// A neighbour discovery message with its checksum, as it is sent.
pub fn ndp(src: Ipv6Addr, dst: Ipv6Addr, repr: NdpRepr<'_>) -> Vec<u8> {
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(&mut message, &pair(src, dst)).expect("it fits");
    ipv6(src, dst, 58, 255, &message)
}
