#![doc = include_str!("README.md")]

mod handle;
mod lookup;
mod timer;
mod tx;

pub use handle::HANDLE;
pub use lookup::LOOKUP;
pub use timer::TIMER;
pub use tx::SEND;

use weever_blocks_api::{Cx, Priority};
use weever_net::ndp::Transmit;
use weever_packet::{Buffer, Endpoints, Flags};

/// Bytes of the longest message that is sent: a solicitation with link address and nonce.
const LONGEST: usize = 40;
/// RFC 4861: what every message is sent with, so that its receiver knows that no router passed it on.
const HOP_LIMIT: u8 = 255;

/// Has a message sent along spawn edge `edge`, on this device queue; false without a buffer, when it
/// counts as lost and whoever sent it repeats it.
fn send(cx: &mut Cx<'_>, edge: usize, iface: u16, queue: u16, transmit: &Transmit) -> bool {
    let Some(mut buffer) = cx.alloc() else { return false };
    if !write(&mut buffer, transmit) {
        cx.free(buffer);
        return false;
    }
    let meta = buffer.meta_mut();
    (meta.iface, meta.queue) = (iface, queue);
    meta.flags = meta.flags.with(Flags::ENDPOINTS);
    meta.endpoints = Endpoints {
        local: transmit.src.octets(),
        remote: transmit.dst.octets(),
        next_hop: transmit.dst.octets(),
        next_mac: transmit.mac.unwrap_or_default().0,
        protocol: weever_wire::ipv6::next_header::ICMPV6,
        ttl: HOP_LIMIT,
        ..Endpoints::default()
    };
    cx.spawn_new(edge, Some(buffer), 0, Priority::High);
    true
}

fn write(buffer: &mut Buffer, transmit: &Transmit) -> bool {
    let len = transmit.message.buffer_len();
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&transmit.src.octets());
    addresses[16..].copy_from_slice(&transmit.dst.octets());
    len <= LONGEST
        && buffer.append(&[0; LONGEST][..len])
        && transmit.message.emit(buffer.data_mut(), &addresses).is_ok()
}
