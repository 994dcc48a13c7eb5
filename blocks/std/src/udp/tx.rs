//! Transmit: from a received datagram or a payload with endpoints to a UDP datagram.

use std::net::Ipv4Addr;

use weever_blocks_api::{BlockType, Buffer, PortDoc};
use weever_graph::Effects;
use weever_packet::Endpoints;
use weever_wire::WireError;
use weever_wire::ipv4::{Ipv4Header, protocol};
use weever_wire::udp::{HEADER_LEN, UdpHeader, UdpRepr};

use crate::check::{Change, MARKS, READS, reader};
use crate::headers::{answer, push};

/// Turns a received datagram into its answer.
pub static INITIATE_RESPONSE: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..reader(
        "TxL4UDPInitiateResponse",
        "Cuts a received datagram down to its payload and addresses it to its sender.",
        &[
            PortDoc { name: "out", doc: "the payload, with endpoints" },
            PortDoc { name: "drop", doc: "not a received UDP datagram" },
        ],
        |_| Ok(Box::new(Change(respond))),
    )
};

/// The longest that a response lives.
const TTL: u8 = 64;

/// A response lives shorter than what it answers, so that two services which a forged datagram sets
/// on each other do not go on for ever.
#[inline]
fn respond(packet: &mut Buffer) -> bool {
    let meta = *packet.meta();
    let Some(header) = packet.array_at(meta.l4).map(UdpHeader::of) else { return false };
    let Some(ip) = packet.array_at(meta.l3).map(Ipv4Header::of) else { return false };
    let ttl = ip.ttl().saturating_sub(1).clamp(1, TTL);
    let (local, remote) = (header.dst_port(), header.src_port());
    if !answer(packet, protocol::UDP) {
        return false;
    }
    let ends = &mut packet.meta_mut().endpoints;
    (ends.local_port, ends.remote_port, ends.ttl) = (local, remote, ttl);
    packet.set_bounds(meta.l4 + HEADER_LEN as u16, meta.end)
}

/// Makes room for the header.
pub static ALLOCATE_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..reader(
        "TxL4UDPAllocateHeader",
        "Makes room for the UDP header.",
        &[
            PortDoc { name: "out", doc: "there is room" },
            PortDoc { name: "drop", doc: "no headroom" },
        ],
        |_| Ok(Box::new(Change(|p: &mut Buffer| push(p, HEADER_LEN as u16)))),
    )
};

/// Writes the header.
pub static FILL_HEADER: BlockType = BlockType {
    effects: READS.union(Effects::WRITES),
    ..reader(
        "TxL4UDPFillHeader",
        "Writes the UDP header from the metadata, with its checksum over the payload.",
        &[
            PortDoc { name: "out", doc: "written" },
            PortDoc { name: "drop", doc: "no room was made" },
        ],
        |_| Ok(Box::new(Change(|p: &mut Buffer| fill(p).is_ok()))),
    )
};

#[inline]
fn fill(packet: &mut Buffer) -> Result<(), WireError> {
    let ends = &packet.meta().endpoints;
    let (src_port, dst_port) = (ends.local_port, ends.remote_port);
    let src = Ipv4Addr::from_bits(Endpoints::v4(&ends.local));
    let dst = Ipv4Addr::from_bits(Endpoints::v4(&ends.remote));
    let payload_len = packet.len().saturating_sub(HEADER_LEN) as u16;
    UdpRepr { src_port, dst_port, payload_len }.emit_with_checksum(packet.data_mut(), src, dst)
}
