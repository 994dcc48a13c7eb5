//! Frames between a host and its peer on one subnet, as tests need them.

use std::net::{Ipv4Addr, SocketAddrV4};

use weever_wire::MacAddr;
use weever_wire::arp::ArpRepr;
use weever_wire::dhcp4::{CLIENT_PORT, DhcpOption, DhcpRepr, MessageType, SERVER_PORT, option};
use weever_wire::ethernet::{EthernetRepr, ethertype};
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::{FLAG_DF, Ipv4Repr, protocol};
use weever_wire::udp::UdpRepr;
use weever_wire::vlan::VlanRepr;

/// The host's link address.
pub const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The peer's link address.
pub const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The host's address.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The peer's address.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The broadcast address of their subnet, 10.0.0.0/24.
pub const SUBNET_BROADCAST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 255);

/// A frame.
pub fn ethernet(dst: MacAddr, src: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    EthernetRepr { dst, src, ethertype }.emit(&mut frame).expect("14 bytes");
    frame.extend_from_slice(payload);
    frame
}

/// A frame with an IPv4 payload from the peer to the host.
pub fn from_peer(datagram: &[u8]) -> Vec<u8> {
    ethernet(HOST_MAC, PEER_MAC, ethertype::IPV4, datagram)
}

/// The frame with an 802.1Q tag put in.
pub fn tagged(frame: &[u8], vid: u16, pcp: u8) -> Vec<u8> {
    let inner = u16::from_be_bytes([frame[12], frame[13]]);
    let mut tag = [0; 4];
    VlanRepr { vid, pcp, dei: false, ethertype: inner }.emit(&mut tag).expect("4 bytes");
    [&frame[..12], &ethertype::VLAN.to_be_bytes(), &tag, &frame[14..]].concat()
}

/// An ARP packet in a frame from its sender, to all if it is a request.
pub fn arp(op: u16, sender: (MacAddr, Ipv4Addr), target: (MacAddr, Ipv4Addr)) -> Vec<u8> {
    let mut packet = vec![0; 28];
    let (sha, spa, tha, tpa) = (sender.0, sender.1, target.0, target.1);
    ArpRepr { op, sha, spa, tha, tpa }.emit(&mut packet).expect("28 bytes");
    let to = if op == 1 { MacAddr::BROADCAST } else { tha };
    ethernet(to, sha, ethertype::ARP, &packet)
}

/// The peer's ARP request for `wanted`.
pub fn arp_request(wanted: Ipv4Addr) -> Vec<u8> {
    arp(1, (PEER_MAC, PEER), (MacAddr::ZERO, wanted))
}

/// The peer answers the host.
pub fn arp_reply() -> Vec<u8> {
    arp(2, (PEER_MAC, PEER), (HOST_MAC, HOST))
}

/// The values of an IPv4 header.
pub fn ipv4_repr(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8) -> Ipv4Repr {
    let (tos, ident, flags_frag, ttl, payload_len) = (0, 7, FLAG_DF, 64, 0);
    Ipv4Repr { tos, ident, flags_frag, ttl, protocol, src, dst, payload_len }
}

/// A datagram with this header; its length is set here.
pub fn ipv4(repr: Ipv4Repr, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; 20];
    let payload_len = payload.len() as u16;
    Ipv4Repr { payload_len, ..repr }.emit(&mut datagram).expect("20 bytes");
    datagram.extend_from_slice(payload);
    datagram
}

/// The datagram with a byte of its IPv4 header changed and the header checksum repaired.
pub fn patched(datagram: &[u8], at: usize, value: u8) -> Vec<u8> {
    let mut datagram = datagram.to_vec();
    datagram[at] = value;
    let header = datagram.first_chunk_mut().expect("a header");
    weever_wire::ipv4::fill_checksum(header);
    datagram
}

/// A UDP datagram with its checksum, without an IPv4 header.
pub fn udp_segment(src: SocketAddrV4, dst: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let mut segment = [&[0; 8], payload].concat();
    let (src_port, dst_port, payload_len) = (src.port(), dst.port(), payload.len() as u16);
    let repr = UdpRepr { src_port, dst_port, payload_len };
    repr.emit_with_checksum(&mut segment, *src.ip(), *dst.ip()).expect("room was made");
    segment
}

/// A UDP datagram in IPv4.
pub fn udp_datagram(src: SocketAddrV4, dst: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let segment = udp_segment(src, dst, payload);
    ipv4(ipv4_repr(*src.ip(), *dst.ip(), protocol::UDP), &segment)
}

/// A frame with a UDP datagram from the peer's port to the host's.
pub fn udp(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (SocketAddrV4::new(PEER, src_port), SocketAddrV4::new(HOST, dst_port));
    from_peer(&udp_datagram(src, dst, payload))
}

/// An ICMP message, without an IPv4 header.
pub fn icmp_message(repr: IcmpRepr<'_>) -> Vec<u8> {
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(&mut message).expect("room was made");
    message
}

/// A frame with an ICMP message from the peer to `dst`.
pub fn icmp(dst: Ipv4Addr, repr: IcmpRepr<'_>) -> Vec<u8> {
    from_peer(&ipv4(ipv4_repr(PEER, dst, protocol::ICMP), &icmp_message(repr)))
}

/// A frame with an echo request from the peer.
pub fn echo_request(ident: u16, seq: u16, data: &[u8]) -> Vec<u8> {
    icmp(HOST, IcmpRepr::EchoRequest { ident, seq, data })
}

/// A frame with the answer of a DHCP server, the peer: `your_ip` for ten minutes, with an MTU of 1400.
pub fn dhcp_answer(kind: MessageType, xid: u32, your_ip: Ipv4Addr, mask: [u8; 4]) -> Vec<u8> {
    let options = [
        DhcpOption { code: option::SERVER_ID, data: &PEER.octets() },
        DhcpOption { code: option::SUBNET_MASK, data: &mask },
        DhcpOption { code: option::ROUTER, data: &PEER.octets() },
        DhcpOption { code: option::LEASE_TIME, data: &600u32.to_be_bytes() },
        DhcpOption { code: option::MTU, data: &1400u16.to_be_bytes() },
    ];
    let (secs, broadcast, client_ip) = (0, true, Ipv4Addr::UNSPECIFIED);
    let (mac, options) = (HOST_MAC, &options);
    let repr = DhcpRepr { kind, xid, secs, broadcast, client_ip, your_ip, mac, options };
    let mut payload = vec![0; repr.buffer_len()];
    repr.emit(&mut payload).expect("room was made");
    let src = SocketAddrV4::new(PEER, SERVER_PORT);
    let dst = SocketAddrV4::new(Ipv4Addr::BROADCAST, CLIENT_PORT);
    ethernet(MacAddr::BROADCAST, PEER_MAC, ethertype::IPV4, &udp_datagram(src, dst, &payload))
}
