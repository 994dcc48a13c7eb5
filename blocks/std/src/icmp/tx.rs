//! Transmit: echo replies, made of the request, and errors, which quote their packets.

use weever_block::{BlockType, Buffer, MARKS, PortDoc, READS, rewriter};
use weever_graph::Effects;
use weever_net::icmp::{Cause, INTERNETWORK_CONTROL, quote_len};
use weever_net::state::NetState;
use weever_packet::Endpoints;
use weever_wire::checksum;
use weever_wire::icmpv4::{HEADER_LEN, IcmpHeader, make_echo_reply};
use weever_wire::ipv4::{Ipv4Header, protocol};

use crate::headers::{address_reply, push};
use crate::kinds::network_rewriter;

/// Turns a received echo request into a message to its sender.
pub static INITIATE_RESPONSE: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::new(
        "TxL3ICMPInitiateResponse",
        "Cuts a received datagram down to its ICMP message and addresses it to its sender.",
        &[
            PortDoc { name: "out", doc: "the message, with endpoints" },
            PortDoc { name: "drop", doc: "not a received ICMP message" },
        ],
        |_| rewriter(respond),
    )
};

pub(crate) fn respond(packet: &mut Buffer) -> bool {
    let meta = *packet.meta();
    let message = IcmpHeader::first(packet.at(meta.l4)).is_some();
    message && address_reply(packet, protocol::ICMP) && packet.set_bounds(meta.l4, meta.end)
}

/// Makes an echo reply of the request.
pub static FILL_HEADER: BlockType = BlockType {
    effects: READS.union(Effects::WRITES),
    ..BlockType::new(
        "TxL3ICMPFillHeader",
        "Makes the request a reply and repairs its checksum (RFC 1624); the data stay in place.",
        &[
            PortDoc { name: "out", doc: "the reply" },
            PortDoc { name: "drop", doc: "shorter than a header" },
        ],
        |_| rewriter(reply),
    )
};

pub(crate) fn reply(message: &mut Buffer) -> bool {
    message.data_mut().first_chunk_mut().map(make_echo_reply).is_some()
}

/// Turns a received datagram into the quotation of an error to its sender.
pub static INITIATE_ERROR: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::new(
        "TxL3ICMPInitiateError",
        "Cuts a received datagram down to the part that an error quotes, and addresses it to its sender.",
        &[
            PortDoc { name: "out", doc: "the quotation, with endpoints" },
            PortDoc { name: "drop", doc: "not a received IPv4 datagram" },
        ],
        |build| network_rewriter(build, quote),
    )
};

/// For a datagram to another host, the source of the error is an address of the interface that it
/// leaves by: RFC 1812 §4.3.2.4.
fn quote(state: &NetState, packet: &mut Buffer) -> bool {
    let l3 = packet.meta().l3;
    let bytes = packet.at(l3);
    let Some(ip) = Ipv4Header::first(bytes) else { return false };
    let (len, ours) = (quote_len(bytes), state.is_ours(ip.dst()));
    if !address_reply(packet, protocol::ICMP) || !packet.set_bounds(l3, l3 + len as u16) {
        return false;
    }
    let ends = &mut packet.meta_mut().endpoints;
    ends.tos = INTERNETWORK_CONTROL;
    if !ours {
        ends.local = Endpoints::mapped(0);
    }
    true
}

/// Makes room for an ICMP header.
pub static ALLOCATE_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::new(
        "TxL3ICMPAllocateHeader",
        "Makes room for the ICMP header.",
        &[
            PortDoc { name: "out", doc: "there is room" },
            PortDoc { name: "drop", doc: "no headroom" },
        ],
        |_| rewriter(|p| push(p, HEADER_LEN as u16)),
    )
};

/// Writes the header of an error.
pub static FILL_ERROR: BlockType = BlockType {
    effects: READS.union(Effects::WRITES),
    ..BlockType::new(
        "TxL3ICMPFillError",
        "Writes the header of an error, as recorded as the packet's entry, in front of its \
         quotation.",
        &[
            PortDoc { name: "out", doc: "the message" },
            PortDoc { name: "drop", doc: "no room was made, or nothing to report" },
        ],
        |_| rewriter(fill_error),
    )
};

fn fill_error(packet: &mut Buffer) -> bool {
    let Some(cause) = Cause::from_bits(packet.meta().entry) else { return false };
    let message = packet.data_mut();
    let Some(header) = message.first_chunk_mut::<HEADER_LEN>() else { return false };
    *header = cause.header();
    let check = checksum::finish(checksum::sum(message));
    message[2..4].copy_from_slice(&check.to_be_bytes());
    true
}
