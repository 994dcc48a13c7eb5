//! Receive: one block per rule (RFC 8200 §3, §4, RFC 4291).

use weever_block::{BlockType, Buffer, MARKS, validator};
use weever_net::iface::IfaceId;
use weever_net::ipv6::{self, Chain};
use weever_net::state::NetState;
use weever_wire::icmpv6::kind;
use weever_wire::ipv6::{Ipv6Header, next_header};

use super::{header, whole};

/// Is the payload length possible? Records where the packet ends.
pub static VALID_LENGTH: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::validator(
        "RxL3IPv6ValidLength",
        "Is the payload that the header announces there? Records the end.",
        |_| validator(valid_length),
    )
};

#[inline]
fn valid_length(packet: &mut Buffer) -> bool {
    let l3 = packet.meta().l3;
    let available = packet.at(l3).len();
    let Some(header) = header(packet) else { return false };
    let (possible, len) = (ipv6::payload_len_ok(header, available), header.payload_len());
    packet.meta_mut().end = l3.saturating_add((ipv6::HEADER_LEN + len) as u16);
    possible
}

/// Whether an interface wants a packet to a group. Queries go to the group's own address, for any wanted
/// sources.
#[inline]
pub(crate) fn accepts(
    state: &NetState,
    iface: IfaceId,
    packet: &Buffer,
    header: Ipv6Header<'_>,
) -> bool {
    state.accepts6(iface, header.dst(), header.src()) || is_mld(packet)
}

/// Whether it is a message of multicast listener discovery, behind any extension headers.
#[cold]
fn is_mld(packet: &Buffer) -> bool {
    let packet = whole(packet);
    let Ok(chain) = Chain::walk(packet) else { return false };
    let message = packet.get(chain.offset..).unwrap_or_default();
    let kinds = [kind::MLD_QUERY, kind::MLDV1_REPORT, kind::MLDV1_DONE, kind::MLDV2_REPORT];
    chain.protocol == next_header::ICMPV6 && message.first().is_some_and(|k| kinds.contains(k))
}

/// Can the extension headers be followed? Records l4.
pub static VALID_EXTENSIONS: BlockType = BlockType {
    effects: MARKS,
    ..BlockType::validator(
        "RxL3IPv6ValidExtensions",
        "Can the chain of extension headers be followed to its end (RFC 8200 §4)? Records l4, where \
         what they precede begins.",
        |_| validator(valid_extensions),
    )
};

#[inline]
fn valid_extensions(packet: &mut Buffer) -> bool {
    let l3 = packet.meta().l3;
    let Ok(chain) = Chain::walk(whole(packet)) else { return false };
    packet.meta_mut().l4 = l3 + chain.offset as u16;
    true
}
