//! Room for headers, and the addresses of an answer.

use std::net::IpAddr;

use weever_block::Buffer;
use weever_net::iface::IfaceId;
use weever_net::state::NetState;
use weever_packet::{Endpoints, Flags};
use weever_wire::ethernet::ethertype;
use weever_wire::ipv4::{self, Ipv4Header};
use weever_wire::ipv6::{self, Ipv6Header};

/// Below this many bytes of payload summing them up costs less than asking whether the link does it.
pub(crate) const WORTH_LEAVING: usize = 256;

/// Whether the link by which a transport header and its payload of `len` bytes leave for `remote` completes their
/// checksum: not that of a packet that will be cut up, for it sees only pieces. `via` is the interface that leads
/// to link-local addresses.
#[inline]
pub(crate) fn link_completes(state: &NetState, remote: IpAddr, via: IfaceId, len: usize) -> bool {
    let (iface, header) = match remote {
        IpAddr::V4(v4) => (state.route4(v4).map(|hop| hop.iface), ipv4::HEADER_LEN),
        IpAddr::V6(v6) => (state.hop6(via, v6).map(|hop| hop.iface), ipv6::HEADER_LEN),
    };
    let iface = iface.and_then(|iface| state.interface(iface));
    iface.is_some_and(|iface| iface.tx_checksum && len + header <= usize::from(iface.mtu))
}

/// Puts `len` bytes in front of the packet; false, and nothing changed, without headroom.
#[inline]
pub(crate) fn push(packet: &mut Buffer, len: u16) -> bool {
    packet.prepend(len).is_some()
}

/// Whether a received packet is IPv6, by the EtherType that was recorded.
#[inline(always)]
pub(crate) fn is_v6(packet: &Buffer) -> bool {
    packet.meta().ethertype == ethertype::IPV6
}

/// The time to live or hop limit of a received packet of either family.
#[inline(always)]
pub(crate) fn hop_limit(packet: &Buffer) -> Option<u8> {
    match is_v6(packet) {
        true => packet.array_at(packet.meta().l3).map(|h| Ipv6Header::of(h).hop_limit()),
        false => packet.array_at(packet.meta().l3).map(|h| Ipv4Header::of(h).ttl()),
    }
}

/// Type of service or traffic class of a received packet of either family.
#[inline(always)]
pub(crate) fn traffic_class(packet: &Buffer) -> Option<u8> {
    match is_v6(packet) {
        true => packet.array_at(packet.meta().l3).map(|h| Ipv6Header::of(h).traffic_class()),
        false => packet.array_at(packet.meta().l3).map(|h| Ipv4Header::of(h).tos()),
    }
}

/// The flow label of a received packet of IPv6; 0 for IPv4.
#[inline(always)]
pub(crate) fn flow_label(packet: &Buffer) -> u32 {
    let header = is_v6(packet).then(|| packet.array_at(packet.meta().l3)).flatten();
    header.map_or(0, |h| Ipv6Header::of(h).flow_label())
}

/// Destination and source of a received packet of either family, in the form of [`Endpoints`].
#[inline(always)]
pub(crate) fn reversed(packet: &Buffer) -> Option<([u8; 16], [u8; 16])> {
    let l3 = packet.meta().l3;
    if is_v6(packet) {
        let ip = packet.array_at(l3).map(Ipv6Header::of)?;
        return Some((ip.dst().octets(), ip.src().octets()));
    }
    let ip = packet.array_at(l3).map(Ipv4Header::of)?;
    Some((Endpoints::mapped(ip.dst().to_bits()), Endpoints::mapped(ip.src().to_bits())))
}

/// Addresses the answer to a received packet: from where it was sent to, to its sender. False
/// without an IP header.
#[inline]
pub(crate) fn address_reply(packet: &mut Buffer, protocol: u8) -> bool {
    let Some((local, remote)) = reversed(packet) else { return false };
    let meta = packet.meta_mut();
    meta.flags = meta.flags.with(Flags::ENDPOINTS).with(Flags::PROVOKED);
    meta.flags = meta.flags.without(Flags::PARTIAL_CHECKSUM);
    meta.endpoints = Endpoints { local, remote, protocol, ..Endpoints::default() };
    true
}
