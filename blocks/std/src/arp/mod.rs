#![doc = include_str!("README.md")]

mod handle;
mod lookup;
mod rx;
#[cfg(test)]
mod tests;
mod timer;
mod tx;

pub use handle::{INIT_RESPONSE, PROCESS_PENDING_RESPONSE};
pub use lookup::LOOKUP;
pub use rx::{
    CLASSIFY, IS_PENDING, LOCAL_IP_DEST, VALID_HEADER_LENGTH, VALID_REQUEST, VALID_RESPONSE,
};
pub use timer::TIMER;
pub use tx::{ALLOCATE_HEADER, FILL_HEADER, INITIATE_RESPONSE, SEND_GRATUITOUS, SEND_REQUEST};

use weever_blocks_api::Buffer;
use weever_net::arp::Transmit;
use weever_packet::{Endpoints, Flags};

/// Records in the metadata what the transmit side shall send, and by which interface. The operation
/// takes the place of the IP protocol.
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
