#![doc = include_str!("README.md")]

mod forward;
mod report;
mod rx;
mod tx;

pub use forward::FORWARD;
pub use report::REPORT;
pub(crate) use rx::accepts;
pub use rx::{VALID_EXTENSIONS, VALID_LENGTH};
pub use tx::{ALLOCATE_HEADER, FILL_HEADER, FORWARDED, ROUTING};
pub(crate) use tx::{V6, fill, forwarded, is_routed};

use weever_block::Buffer;
use weever_wire::ipv6::Ipv6Header;

/// The fixed header, or `None` when the packet is shorter.
#[inline(always)]
fn header(packet: &Buffer) -> Option<Ipv6Header<'_>> {
    packet.array_at(packet.meta().l3).map(Ipv6Header::of)
}

/// The packet from its IPv6 header to its end.
#[inline(always)]
fn whole(packet: &Buffer) -> &[u8] {
    crate::kinds::between(packet, packet.meta().l3, packet.meta().end)
}
