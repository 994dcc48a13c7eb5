#![doc = include_str!("README.md")]

mod handle;

pub use handle::HANDLE;

use std::net::Ipv6Addr;

use weever_block::{BlockType, Buffer, PortDoc, StateKind, validator};
use weever_graph::Effects;
use weever_net::ndp::Transmit;
use weever_packet::{Endpoints, Flags, NO_IFACE};
use weever_wire::ndp::NdpRepr;

use crate::host::{Key6, NeighbourKey, V6};
use crate::neighbour::lookup::{lookup, ports};
use crate::neighbour::{Protocol, timer};
use crate::periodic::period;

/// Bytes of the longest message that is sent: a solicitation with link address and nonce.
const LONGEST: usize = 40;
/// RFC 4861: the hop limit of every message, by which its receiver knows that no router forwarded it.
const HOP_LIMIT: u8 = 255;

const PORTS: [PortDoc; 4] = ports("the interface is down, gone or does not speak IPv6");

/// Finds the next hop's link address; packets wait here until it is known.
pub static LOOKUP: BlockType = lookup::<V6>("TxL3NDLookup_", &PORTS);

/// Repeats solicitations, probes addresses, solicits routers, and wakes packets that wait.
pub static TIMER: BlockType = BlockType {
    spawns: &["again", "send", "announce"],
    notifies: &["resolved"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("10", "milliseconds between two looks at the IPv6 neighbours")],
    counters: &["solicitations", "announcements"],
    ..BlockType::new(
        "TxL3NDTimer",
        "Asks for neighbours in use, for our own addresses before we use them, and for routers; \
         announces our addresses; ages what they said, and wakes packets whose neighbour was resolved or given up.",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        timer::make::<V6>,
    )
};

/// Where messages start: whole, with their checksum, and with their addresses in the metadata.
pub static SEND: BlockType =
    BlockType::validator("TxL3NDPSend", "Where neighbour discovery's own messages start.", |_| {
        validator(|p| p.meta().flags.has(Flags::ENDPOINTS))
    });

impl Protocol for V6 {
    const WHAT: &'static str = "the IPv6 neighbours";

    #[inline(always)]
    fn next_hop(packet: &Buffer) -> Key6 {
        let meta = packet.meta();
        debug_assert!(meta.iface != NO_IFACE);
        Key6::new(meta.iface, Ipv6Addr::from_octets(meta.endpoints.next_hop))
    }

    fn write(buffer: &mut Buffer, iface: u16, sent: &Transmit) -> bool {
        if !message(buffer, sent) {
            return false;
        }
        let meta = buffer.meta_mut();
        let station = sent.mac.map_or(Flags::NONE, |_| Flags::NEXT_MAC);
        (meta.iface, meta.flags) = (iface, meta.flags.with(Flags::ENDPOINTS).with(station));
        meta.endpoints = Endpoints {
            local: sent.src.octets(),
            remote: sent.dst.octets(),
            next_hop: sent.dst.octets(),
            next_mac: sent.mac.unwrap_or_default().0,
            protocol: weever_wire::ipv6::next_header::ICMPV6,
            ttl: HOP_LIMIT,
            ..Endpoints::default()
        };
        true
    }

    /// RFC 4861 §7.2.6: the timer sends no other advertisements.
    fn is_announcement(sent: &Transmit) -> bool {
        matches!(sent.message, NdpRepr::NeighbourAdvert { .. })
    }
}

fn message(buffer: &mut Buffer, transmit: &Transmit) -> bool {
    let len = transmit.message.buffer_len();
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&transmit.src.octets());
    addresses[16..].copy_from_slice(&transmit.dst.octets());
    len <= LONGEST
        && buffer.append(&[0; LONGEST][..len])
        && transmit.message.emit(buffer.data_mut(), &addresses).is_ok()
}
