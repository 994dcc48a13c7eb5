//! Transmit: echo replies, made of the request, and errors, which quote what they are about.

use weever_blocks_api::{BlockType, Buffer, ParamDoc, PortDoc};
use weever_graph::Effects;
use weever_net::icmp::{MAX_ERROR_LEN, kind};
use weever_wire::checksum;
use weever_wire::icmpv4::{HEADER_LEN, IcmpHeader, make_echo_reply};
use weever_wire::ipv4::{self, Ipv4Header, protocol};

use crate::check::{Change, MARKS, READS, reader};
use crate::headers::{answer, push};

/// Turns a received echo request into a message to its sender.
pub static INITIATE_RESPONSE: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..reader(
        "TxL3ICMPInitiateResponse",
        "Cuts a received datagram down to its ICMP message and addresses it to its sender.",
        &[
            PortDoc { name: "out", doc: "the message, with endpoints" },
            PortDoc { name: "drop", doc: "not a received ICMP message" },
        ],
        |_| Ok(Box::new(Change(respond))),
    )
};

fn respond(packet: &mut Buffer) -> bool {
    let meta = *packet.meta();
    let message = IcmpHeader::first(packet.at(meta.l4)).is_some();
    message && answer(packet, protocol::ICMP) && packet.set_bounds(meta.l4, meta.end)
}

/// Makes an echo reply of the request.
pub static FILL_HEADER: BlockType = BlockType {
    effects: READS.union(Effects::WRITES),
    ..reader(
        "TxL3ICMPFillHeader",
        "Makes the request a reply and repairs its checksum (RFC 1624); the data stay in place.",
        &[
            PortDoc { name: "out", doc: "the reply" },
            PortDoc { name: "drop", doc: "shorter than a header" },
        ],
        |_| {
            let fill = |p: &mut Buffer| p.data_mut().first_chunk_mut().map(make_echo_reply);
            Ok(Box::new(Change(move |p: &mut Buffer| fill(p).is_some())))
        },
    )
};

/// Turns a received datagram into the quotation of an error to its sender.
pub static INITIATE_UNREACHABLE: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..reader(
        "TxL3ICMPInitiateUnreachable",
        "Cuts a received datagram down to what an error quotes, and addresses it to its sender.",
        &[
            PortDoc { name: "out", doc: "the quotation, with endpoints" },
            PortDoc { name: "drop", doc: "not a received IPv4 datagram" },
        ],
        |_| Ok(Box::new(Change(quote))),
    )
};

/// RFC 1812 §4.3.2.3: as much as fits the longest error.
const MAX_QUOTE: usize = MAX_ERROR_LEN - ipv4::HEADER_LEN - HEADER_LEN;

fn quote(packet: &mut Buffer) -> bool {
    let l3 = packet.meta().l3;
    let bytes = packet.at(l3);
    let Some(ip) = Ipv4Header::first(bytes) else { return false };
    let len = ip.total_len().min(bytes.len()).min(MAX_QUOTE);
    answer(packet, protocol::ICMP) && packet.set_bounds(l3, l3 + len as u16)
}

/// Makes room for an ICMP header.
pub static ALLOCATE_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..reader(
        "TxL3ICMPAllocateHeader",
        "Makes room for the ICMP header.",
        &[
            PortDoc { name: "out", doc: "there is room" },
            PortDoc { name: "drop", doc: "no headroom" },
        ],
        |_| Ok(Box::new(Change(|p: &mut Buffer| push(p, HEADER_LEN as u16)))),
    )
};

/// Writes the header of an error.
pub static FILL_UNREACHABLE: BlockType = BlockType {
    effects: READS.union(Effects::WRITES),
    params: &[ParamDoc {
        name: "code",
        default: "3",
        doc: "why it is unreachable, as RFC 792 numbers it: 2 protocol, 3 port, 1 host",
    }],
    ..reader(
        "TxL3ICMPFillUnreachable",
        "Writes the header of a \"destination unreachable\" in front of its quotation.",
        &[
            PortDoc { name: "out", doc: "the message" },
            PortDoc { name: "drop", doc: "no room was made" },
        ],
        |build| {
            let code = build.param("code")?;
            Ok(Box::new(Change(move |p: &mut Buffer| fill_unreachable(p, code))))
        },
    )
};

fn fill_unreachable(packet: &mut Buffer, code: u8) -> bool {
    let message = packet.data_mut();
    let Some(header) = message.first_chunk_mut::<HEADER_LEN>() else { return false };
    *header = [kind::UNREACHABLE, code, 0, 0, 0, 0, 0, 0];
    let check = checksum::finish(checksum::sum(message));
    message[2..4].copy_from_slice(&check.to_be_bytes());
    true
}
