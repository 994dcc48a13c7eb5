#![doc = include_str!("README.md")]

mod handle;
mod lookup;
mod timer;
mod tx;

pub use handle::HANDLE;
pub use lookup::LOOKUP;
pub use timer::TIMER;
pub use tx::SEND;

use std::net::Ipv6Addr;

use weever_block::Buffer;
use weever_net::ndp::Transmit;
use weever_packet::{Endpoints, Flags, NO_IFACE};

use crate::host::{At, At6, V6};
use crate::neighbour::Protocol;

/// Bytes of the longest message that is sent: a solicitation with link address and nonce.
const LONGEST: usize = 40;
/// RFC 4861: what every message is sent with, so that its receiver knows that no router passed it on.
const HOP_LIMIT: u8 = 255;

impl Protocol for V6 {
    const WHAT: &'static str = "the IPv6 neighbours";

    #[inline(always)]
    fn next_hop(packet: &Buffer) -> At6 {
        let meta = packet.meta();
        debug_assert!(meta.iface != NO_IFACE);
        At6::new(meta.iface, Ipv6Addr::from_octets(meta.endpoints.next_hop))
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

    /// Announcements answer somebody; time makes none.
    fn is_announcement(_: &Transmit) -> bool {
        false
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
