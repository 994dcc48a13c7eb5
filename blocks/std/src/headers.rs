//! Headers that are put in front of a packet, and whom an answer goes to.

use weever_blocks_api::Buffer;
use weever_packet::{Endpoints, Flags};
use weever_wire::ipv4::Ipv4Header;

/// Puts `len` bytes in front of the packet; false, and nothing changed, without headroom.
#[inline]
pub(crate) fn push(packet: &mut Buffer, len: u16) -> bool {
    packet.prepend(len).is_some()
}

/// Addresses the answer to a received IPv4 packet: from where it was sent to, to its sender.
/// False without an IPv4 header.
#[inline]
pub(crate) fn answer(packet: &mut Buffer, protocol: u8) -> bool {
    let Some(ip) = packet.array_at(packet.meta().l3).map(Ipv4Header::of) else { return false };
    let (local, remote) = (ip.dst().to_bits(), ip.src().to_bits());
    let meta = packet.meta_mut();
    meta.flags = meta.flags.with(Flags::ENDPOINTS).without(Flags::PARTIAL_CHECKSUM);
    meta.endpoints = Endpoints {
        local: Endpoints::mapped(local),
        remote: Endpoints::mapped(remote),
        protocol,
        ..Endpoints::default()
    };
    true
}
