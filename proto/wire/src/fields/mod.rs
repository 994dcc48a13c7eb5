//! One slow, obvious and tolerant walk over a frame: the reference for faster classifiers.
//!
//! A field is present if the frame holds all its bytes and the headers before it lead there. No
//! checksum is looked at, and no length but those which say where the next header begins. The
//! walk never looks beyond the frame, nor beyond the end of the IP packet within it. [`Fields`] reads the same
//! fields one by one.

mod lazy;

pub use lazy::Fields;

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::ethernet::{self, EthernetHeader, ethertype};
use crate::ipv4::{self, Ipv4Header, protocol};
use crate::ipv6::{self, Ipv6Header};
use crate::{MacAddr, arp::ArpHeader, tcp, vlan};

/// Tags that are walked over; the type after the last one is reported as it is.
pub const MAX_VLAN_TAGS: usize = 2;

/// The fields found by a walk over a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes of the frame.
    pub frame_len: usize,
    /// Where the Ethernet header begins: 0, if there is one.
    pub l2: Option<usize>,
    /// Where the header after Ethernet and its tags begins.
    pub l3: Option<usize>,
    /// Where the transport header begins; never in a later fragment.
    pub l4: Option<usize>,
    /// Destination station.
    pub eth_dst: Option<MacAddr>,
    /// Source station.
    pub eth_src: Option<MacAddr>,
    /// Type after all tags.
    pub ethertype: Option<u16>,
    /// VLAN identifier of the outer tag.
    pub vlan: Option<u16>,
    /// ARP operation, of IPv4 over Ethernet.
    pub arp_op: Option<u16>,
    /// ARP target protocol address.
    pub arp_tpa: Option<Ipv4Addr>,
    /// Version field of a packet that is IPv4 or IPv6 by its ethertype.
    pub ip_version: Option<u8>,
    /// IPv4 source.
    pub ip4_src: Option<Ipv4Addr>,
    /// IPv4 destination.
    pub ip4_dst: Option<Ipv4Addr>,
    /// IPv4 protocol.
    pub ip4_proto: Option<u8>,
    /// IPv4 time to live.
    pub ip4_ttl: Option<u8>,
    /// IPv4 more-fragments flag and offset, 14 bits.
    pub ip4_frag: Option<u16>,
    /// IPv6 source.
    pub ip6_src: Option<Ipv6Addr>,
    /// IPv6 destination.
    pub ip6_dst: Option<Ipv6Addr>,
    /// IPv6 next header, as in the fixed header.
    pub ip6_next: Option<u8>,
    /// Type of an ICMP message over IPv4.
    pub icmp_type: Option<u8>,
    /// Code of an ICMP message over IPv4.
    pub icmp_code: Option<u8>,
    /// Source port of TCP, UDP or SCTP.
    pub l4_src: Option<u16>,
    /// Destination port of TCP, UDP or SCTP.
    pub l4_dst: Option<u16>,
    /// TCP control bits.
    pub tcp_flags: Option<u8>,
    /// Type field of the Ethernet header itself.
    pub outer_type: Option<u16>,
    /// Type field of the outer tag.
    pub tag_type: Option<u16>,
    /// VLAN identifier of the second tag.
    pub inner_vlan: Option<u16>,
    /// ARP sender hardware address.
    pub arp_sha: Option<MacAddr>,
    /// ARP sender protocol address.
    pub arp_spa: Option<Ipv4Addr>,
    /// Bytes of the IPv4 header by its own account, whatever version it claims.
    pub ip4_header_len: Option<usize>,
    /// Type of service of an IPv4 header: DSCP and ECN.
    pub ip4_tos: Option<u8>,
    /// Bytes of the IPv4 datagram by its own account.
    pub ip4_total_len: Option<usize>,
    /// Whether an IPv4 option asks routers to look at the datagram.
    pub ip4_alert: Option<bool>,
    /// Bytes of the IPv6 packet by its own account, its fixed header among them.
    pub ip6_total_len: Option<usize>,
    /// IPv6 hop limit, whatever version the header claims.
    pub ip6_hops: Option<u8>,
    /// Whether hop-by-hop options ask routers to look at the packet.
    pub ip6_alert: Option<bool>,
    /// The protocol that an IP packet carries, behind extension headers too.
    pub upper: Option<u8>,
    /// Bytes that are there of an IP packet's payload, behind extension headers.
    pub payload_len: Option<usize>,
    /// IGMP type.
    pub igmp_type: Option<u8>,
    /// IGMP code.
    pub igmp_code: Option<u8>,
    /// Group that an IGMP message is about.
    pub igmp_group: Option<Ipv4Addr>,
    /// ICMPv6 type, behind extension headers too.
    pub icmp6_type: Option<u8>,
    /// ICMPv6 code.
    pub icmp6_code: Option<u8>,
    /// Length field of UDP, behind extension headers too.
    pub udp_len: Option<u16>,
}

/// Walks over `frame`.
pub fn summarize(frame: &[u8]) -> Parsed {
    let mut parsed = Parsed { frame_len: frame.len(), ..Parsed::default() };
    let Some(l3) = walk_l2(frame, &mut parsed) else { return parsed };
    parsed.l3 = Some(l3);
    match parsed.ethertype {
        Some(ethertype::ARP) => walk_arp(&frame[l3..], &mut parsed),
        Some(ethertype::IPV4) => walk_ipv4(frame, l3, &mut parsed),
        Some(ethertype::IPV6) => walk_ipv6(frame, l3, &mut parsed),
        _ => {}
    }
    parsed
}

/// Ethernet and tags; where they end.
fn walk_l2(frame: &[u8], parsed: &mut Parsed) -> Option<usize> {
    let header = EthernetHeader::first(frame)?;
    parsed.l2 = Some(0);
    parsed.eth_dst = Some(header.dst());
    parsed.eth_src = Some(header.src());
    let (mut at, mut next) = (ethernet::HEADER_LEN, header.ethertype());
    parsed.outer_type = Some(next);
    for _ in 0..MAX_VLAN_TAGS {
        if !vlan::is_tag(next) {
            break;
        }
        let tag = vlan::VlanHeader::at(frame, at)?;
        if parsed.vlan.is_some() {
            parsed.inner_vlan = Some(tag.vid());
        }
        parsed.vlan.get_or_insert(tag.vid());
        parsed.tag_type.get_or_insert(tag.ethertype());
        (at, next) = (at + vlan::TAG_LEN, tag.ethertype());
    }
    parsed.ethertype = Some(next);
    Some(at)
}

fn walk_arp(packet: &[u8], parsed: &mut Parsed) {
    let Some(header) = ArpHeader::first(packet).filter(|h| h.is_ethernet_ipv4()) else { return };
    parsed.arp_op = Some(header.op());
    parsed.arp_tpa = Some(header.tpa());
    (parsed.arp_sha, parsed.arp_spa) = (Some(header.sha()), Some(header.spa()));
}

fn walk_ipv4(frame: &[u8], l3: usize, parsed: &mut Parsed) {
    parsed.ip_version = frame.get(l3).map(|byte| byte >> 4);
    let Some(header) = Ipv4Header::at(frame, l3) else { return };
    parsed.ip4_header_len = Some(header.header_len());
    parsed.ip4_total_len = Some(header.total_len());
    parsed.ip4_tos = Some(header.tos());
    parsed.upper = Some(header.protocol());
    if header.version() != 4 {
        return;
    }
    parsed.ip4_src = Some(header.src());
    parsed.ip4_dst = Some(header.dst());
    parsed.ip4_proto = Some(header.protocol());
    parsed.ip4_ttl = Some(header.ttl());
    parsed.ip4_frag = Some(header.frag());
    let (header_len, total_len) = (header.header_len(), header.total_len());
    let lying = header_len < ipv4::HEADER_LEN || total_len < header_len;
    if lying || l3 + header_len > frame.len() {
        return;
    }
    parsed.ip4_alert = Some(ipv4::asks_routers(&frame[l3 + ipv4::HEADER_LEN..l3 + header_len]));
    let end = frame.len().min(l3 + total_len);
    parsed.payload_len = Some(end - l3 - header_len);
    if header.is_later_fragment() {
        return;
    }
    if header.protocol() == protocol::UDP {
        parsed.udp_len = word(&frame[..end], l3 + header_len + 4);
    }
    walk_l4(&frame[..end], l3 + header_len, header.protocol(), parsed);
    if header.protocol() == protocol::ICMP {
        parsed.icmp_type = frame[..end].get(l3 + header_len).copied();
        parsed.icmp_code = frame[..end].get(l3 + header_len + 1).copied();
    }
    if header.protocol() == protocol::IGMP {
        let message = frame[..end].get(l3 + header_len..).unwrap_or_default();
        (parsed.igmp_type, parsed.igmp_code) = (byte(message, 0), byte(message, 1));
        parsed.igmp_group = address(message, 4);
    }
}

fn walk_ipv6(frame: &[u8], l3: usize, parsed: &mut Parsed) {
    parsed.ip_version = frame.get(l3).map(|byte| byte >> 4);
    let Some(header) = Ipv6Header::at(frame, l3) else { return };
    parsed.ip6_total_len = Some(ipv6::HEADER_LEN + header.payload_len());
    parsed.ip6_hops = Some(header.hop_limit());
    walk_chain(&frame[l3..], parsed);
    if header.version() != 6 {
        return;
    }
    parsed.ip6_src = Some(header.src());
    parsed.ip6_dst = Some(header.dst());
    parsed.ip6_next = Some(header.next_header());
    let l4 = l3 + ipv6::HEADER_LEN;
    let end = frame.len().min(l4 + header.payload_len());
    walk_l4(&frame[..end], l4, header.next_header(), parsed);
}

/// Behind the extension headers of an IPv6 packet, if they can be followed.
fn walk_chain(packet: &[u8], parsed: &mut Parsed) {
    let end = packet.len().min(parsed.ip6_total_len.unwrap_or(0));
    let Ok(chain) = ipv6::Chain::walk(&packet[..end]) else { return };
    let payload = packet[..end].get(chain.offset..).unwrap_or_default();
    (parsed.upper, parsed.payload_len) = (Some(chain.protocol), Some(payload.len()));
    parsed.ip6_alert = Some(chain.router_alert);
    match chain.protocol {
        ipv6::next_header::ICMPV6 => {
            (parsed.icmp6_type, parsed.icmp6_code) = (byte(payload, 0), byte(payload, 1));
        }
        protocol::UDP => parsed.udp_len = word(payload, 4),
        _ => {}
    }
}

#[inline]
fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// `packet` is the frame up to the end of the IP packet.
fn walk_l4(packet: &[u8], l4: usize, protocol: u8, parsed: &mut Parsed) {
    parsed.l4 = Some(l4);
    if matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP) {
        parsed.l4_src = word(packet, l4);
        parsed.l4_dst = word(packet, l4 + 2);
    }
    if protocol == protocol::TCP {
        parsed.tcp_flags = packet.get(l4 + tcp::FLAGS_AT).copied();
    }
}

#[inline]
fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from_octets(*octets))
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

#[cfg(test)]
mod tests;
