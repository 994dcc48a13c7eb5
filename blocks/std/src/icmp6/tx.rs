//! Transmit: echo replies, made of the request, and errors, which quote their packets.

use std::net::Ipv6Addr;

use weever_block::{BlockType, Buffer, MARKS, PortDoc, READS, rewriter};
use weever_graph::Effects;
use weever_net::icmp6::quote_len;
use weever_wire::icmpv6::{HEADER_LEN, Icmpv6Header, fill_checksum, make_echo_reply};
use weever_wire::ipv6::next_header;

use super::message;
use super::report::unpack;
use crate::headers::{address_reply, push};
use crate::kinds::{between, network_rewriter};
use weever_net::iface::IfaceId;
use weever_net::state::NetState;

const OUT_OR_DROP: &[PortDoc] = &[
    PortDoc { name: "out", doc: "done" },
    PortDoc { name: "drop", doc: "malformed, or no room for the message" },
];

/// Turns a received echo request into a message to its sender.
pub static INITIATE_RESPONSE: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::new(
        "TxL3ICMP6InitiateResponse",
        "Cuts a received packet down to its ICMPv6 message and addresses it to its sender.",
        OUT_OR_DROP,
        |_| rewriter(respond),
    )
};

pub(crate) fn respond(packet: &mut Buffer) -> bool {
    let meta = *packet.meta();
    let whole = Icmpv6Header::first(message(packet)).is_some();
    whole && address_reply(packet, next_header::ICMPV6) && packet.set_bounds(meta.l4, meta.end)
}

/// Makes an echo reply of the request.
pub static FILL_HEADER: BlockType = BlockType {
    effects: READS.union(Effects::WRITES),
    ..BlockType::new(
        "TxL3ICMP6FillHeader",
        "Makes the request a reply and repairs its checksum (RFC 1624); the data stay in place.",
        OUT_OR_DROP,
        |_| rewriter(reply),
    )
};

pub(crate) fn reply(message: &mut Buffer) -> bool {
    message.data_mut().first_chunk_mut().map(make_echo_reply).is_some()
}

/// Turns a received packet into the quotation of an error to its sender.
pub static INITIATE_ERROR: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::new(
        "TxL3ICMP6InitiateError",
        "Cuts a received packet down to the part that an error quotes, and addresses it to its sender, from \
         our address that it was for or the best that we have.",
        OUT_OR_DROP,
        |build| network_rewriter(build, quote),
    )
};

fn quote(state: &NetState, packet: &mut Buffer) -> bool {
    let (l3, end, iface) = (packet.meta().l3, packet.meta().end, packet.meta().iface);
    let len = quote_len(between(packet, l3, end)) as u16;
    if !address_reply(packet, next_header::ICMPV6) || !packet.set_bounds(l3, l3 + len) {
        return false;
    }
    let ends = &mut packet.meta_mut().endpoints;
    let (asked, remote) = (Ipv6Addr::from_octets(ends.local), Ipv6Addr::from_octets(ends.remote));
    // RFC 4443 §2.2: one of ours, where the packet was for another or for a group.
    if !state.is_ours6(IfaceId(iface), asked) {
        // The interface of a packet that was being forwarded is the one that it was to leave by. The
        // sender knows the address of the one that leads back to it.
        let back = state.hop6(IfaceId(iface), remote).map_or(IfaceId(iface), |hop| hop.iface);
        let source = state.source6(back, remote).unwrap_or(Ipv6Addr::UNSPECIFIED);
        ends.local = source.octets();
        return !source.is_unspecified();
    }
    true
}

/// Makes room for an error's header.
pub static ALLOCATE_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::new(
        "TxL3ICMP6AllocateHeader",
        "Makes room for the header of an error.",
        OUT_OR_DROP,
        |_| rewriter(|p| push(p, HEADER_LEN as u16)),
    )
};

/// Writes an error in front of the packet it quotes.
pub static FILL_ERROR: BlockType = BlockType {
    effects: READS.union(Effects::WRITES),
    ..BlockType::new(
        "TxL3ICMP6FillError",
        "Writes the header of the error that the metadata name, with its checksum.",
        OUT_OR_DROP,
        |_| rewriter(fill),
    )
};

fn fill(packet: &mut Buffer) -> bool {
    let Some(repr) = unpack(packet.meta().entry, &[]) else { return false };
    let ends = packet.meta().endpoints;
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&ends.local);
    addresses[16..].copy_from_slice(&ends.remote);
    let Some(header) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else { return false };
    repr.emit_header(header);
    fill_checksum(packet.data_mut(), &addresses);
    true
}
