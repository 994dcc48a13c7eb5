#![doc = include_str!("README.md")]

mod handle;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use handle::{INIT_RESPONSE, PROCESS_PENDING_RESPONSE};
pub use rx::{
    CLASSIFY, IS_PENDING, LOCAL_IP_DEST, VALID_HEADER_LENGTH, VALID_REQUEST, VALID_RESPONSE,
};
pub use tx::{ALLOCATE_HEADER, FILL_HEADER, INITIATE_RESPONSE, SEND_GRATUITOUS, SEND_REQUEST};

use std::net::Ipv4Addr;

use weever_block::{BlockType, Buffer, PortDoc, StateKind};
use weever_graph::Effects;
use weever_net::arp::Transmit;
use weever_packet::{Endpoints, Flags};

use crate::host::{Key4, NeighbourKey, V4};
use crate::neighbour::lookup::{lookup, ports};
use crate::neighbour::{Protocol, timer};
use crate::periodic::period;

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
        timer::make::<V4>,
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
