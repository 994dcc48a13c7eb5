#![doc = include_str!("README.md")]

mod handle;
#[cfg(test)]
mod tests;

pub use handle::{INIT_RESPONSE, PROCESS_PENDING_RESPONSE};

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Burst, Cx, MARKS, Mask, PortDoc, Ports, READS, StateKind, rewriter,
    tasks_where, validator,
};
use weever_graph::Effects;
use weever_net::arp::Transmit;
use weever_packet::{Endpoints, Flags};
use weever_wire::arp::{ArpHeader, ArpRepr, PACKET_LEN, op};
use weever_wire::ethernet::ethertype;
use weever_wire::{MacAddr, WireError};

use crate::headers::push;
use crate::host::{Key4, NeighbourKey, Neighbours, V4};
use crate::kinds::{interface, network_validator, period};
use crate::neighbour::lookup::{lookup, ports};
use crate::neighbour::{Protocol, make, neighbours};

const PORTS: [PortDoc; 4] = ports("the interface is down or gone");

/// Finds the next hop's link address; packets wait here until it is known.
pub static LOOKUP: BlockType = lookup::<V4>("TxL3ARPLookup_", &PORTS);

/// Repeats requests, announces addresses, and wakes packets that wait for a neighbour.
pub static TIMER: BlockType = BlockType {
    spawns: &["again", "request", "announce"],
    notifies: &["resolved"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("10", "milliseconds between two looks at the neighbour cache")],
    counters: &["requests", "announcements"],
    ..BlockType::new(
        "TxL3ARPTimer",
        "Repeats ARP requests, asks neighbours in use, announces our addresses, and wakes packets \
         whose neighbour was resolved or given up.",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make::<V4>,
    )
};

impl Protocol for V4 {
    const WHAT: &'static str = "the neighbour cache";

    #[inline(always)]
    fn next_hop(packet: &Buffer) -> Key4 {
        let meta = packet.meta();
        Key4::new(meta.iface, Ipv4Addr::from_bits(Endpoints::v4(&meta.endpoints.next_hop)))
    }

    fn write(buffer: &mut Buffer, iface: u16, sent: &Transmit) -> bool {
        address(buffer, iface, sent);
        true
    }

    /// RFC 5227 §3: an announcement asks for its sender's own address.
    fn is_announcement(sent: &Transmit) -> bool {
        sent.arp.spa == sent.arp.tpa
    }
}

/// Records in the metadata the packet that the transmit side shall send, and its interface. The
/// operation takes the place of the IP protocol.
pub(crate) fn address(packet: &mut Buffer, iface: u16, transmit: &Transmit) {
    let meta = packet.meta_mut();
    meta.iface = iface;
    meta.flags = meta.flags.with(Flags::ENDPOINTS);
    meta.endpoints = Endpoints {
        local: Endpoints::mapped(transmit.arp.spa.to_bits()),
        remote: Endpoints::mapped(transmit.arp.tpa.to_bits()),
        next_mac: transmit.dst.0,
        protocol: transmit.arp.op as u8,
        ..Endpoints::default()
    };
}

/// The packet, or `None` when it is cut short.
#[inline(always)]
fn header(packet: &Buffer) -> Option<ArpHeader<'_>> {
    ArpHeader::first(packet.at(packet.meta().l3))
}

/// Is the sender a neighbour of ours?
pub static IS_PENDING: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    ..BlockType::validator(
        "RxL3ARPIsPending",
        "Is the sender a neighbour that we know or ask for, or does it claim our address?",
        |build| {
            let neighbours = neighbours::<V4>(build)?;
            Ok(Box::new(IsPending { neighbours }))
        },
    )
};

struct IsPending {
    neighbours: Arc<Neighbours>,
}

impl Block for IsPending {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        // While another worker has access, all go on: who handles them makes no entry of a stranger, either.
        let Some(session) = self.neighbours.try_session(cx.now) else {
            return ports.decide(input, input);
        };
        let known = |p: &Buffer, arp: ArpHeader<'_>| session.knows(p.meta().iface, arp.spa());
        let yes = tasks_where(burst, input, |p| header(p).is_some_and(|arp| known(p, arp)));
        ports.decide(input, yes);
    }
}

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
