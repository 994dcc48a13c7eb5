//! Transmit: requests, replies and announcements.

use std::net::Ipv4Addr;

use weever_block::{BlockType, Buffer, MARKS, PortDoc, rewriter, validator};
use weever_graph::Effects;
use weever_packet::{Endpoints, Flags};
use weever_wire::arp::{ArpRepr, PACKET_LEN, op};
use weever_wire::ethernet::ethertype;
use weever_wire::{MacAddr, WireError};

use crate::headers::push;
use crate::kinds::{interface, network_validator};

fn has_endpoints(packet: &Buffer) -> bool {
    packet.meta().flags.has(Flags::ENDPOINTS)
}

/// Empties a received packet, for the answer to it.
pub static INITIATE_RESPONSE: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::validator(
        "TxL3ARPInitiateResponse",
        "Empties a received ARP packet for the answer that its metadata describes.",
        |_| {
            let empty = |p: &mut Buffer| {
                let start = p.meta().l3;
                has_endpoints(p) && p.set_bounds(start, start)
            };
            validator(empty)
        },
    )
};

/// Where requests start.
pub static SEND_REQUEST: BlockType = BlockType::validator(
    "TxL3ARPSendRequest",
    "Where requests for a neighbour's link address start.",
    |_| validator(|p| has_endpoints(p)),
);

/// Where announcements start.
pub static SEND_GRATUITOUS: BlockType = BlockType::validator(
    "TxL3ARPSendGratuitous",
    "Where announcements of our own addresses start (RFC 5227 §2.3).",
    |_| validator(|p| has_endpoints(p)),
);

/// Makes room for the packet.
pub static ALLOCATE_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::MOVES_HEAD),
    ..BlockType::new(
        "TxL3ARPAllocateHeader",
        "Makes room for an ARP packet.",
        &[
            PortDoc { name: "out", doc: "there is room" },
            PortDoc { name: "drop", doc: "no headroom" },
        ],
        |_| rewriter(|p| push(p, PACKET_LEN as u16)),
    )
};

/// Writes the packet.
pub static FILL_HEADER: BlockType = BlockType {
    effects: MARKS.union(Effects::WRITES),
    ..BlockType::validator(
        "TxL3ARPFillHeader",
        "Writes the ARP packet from the metadata.",
        |build| {
            network_validator(build, |state, p| {
                let own = interface(state, p).map(|iface| iface.mac);
                own.is_some_and(|own| fill(p, own).is_ok())
            })
        },
    )
};

fn fill(packet: &mut Buffer, own: MacAddr) -> Result<(), WireError> {
    let head = packet.head();
    let meta = packet.meta_mut();
    (meta.l3, meta.ethertype) = (head, ethertype::ARP);
    let ends = &meta.endpoints;
    let operation = u16::from(ends.protocol);
    // RFC 826: a request asks for the target hardware address.
    let tha = if operation == op::REPLY { MacAddr(ends.next_mac) } else { MacAddr::ZERO };
    let spa = Ipv4Addr::from_bits(Endpoints::v4(&ends.local));
    let tpa = Ipv4Addr::from_bits(Endpoints::v4(&ends.remote));
    ArpRepr { op: operation, sha: own, spa, tha, tpa }.emit(packet.data_mut())
}
