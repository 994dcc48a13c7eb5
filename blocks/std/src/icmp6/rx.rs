//! Receive: is it a sound message, and which?

use weever_block::{BlockType, Buffer, PortDoc, classifier, validator};
use weever_wire::icmpv6::{self, Icmpv6Header, kind};
use weever_wire::ipv6::Ipv6Header;

use crate::kinds::between;

/// The message, as far as it is there.
#[inline(always)]
pub(super) fn message(packet: &Buffer) -> &[u8] {
    between(packet, packet.meta().l4, packet.meta().end)
}

/// Is the header whole?
pub static VALID_HEADER_LENGTH: BlockType = BlockType::validator(
    "RxL3ICMP6ValidHeaderLength",
    "Are the first eight bytes of the message there?",
    |_| validator(|p| Icmpv6Header::first(message(p)).is_some()),
);

/// Is the checksum right?
pub static VALID_CHECKSUM: BlockType = BlockType::validator(
    "RxL3ICMP6ValidChecksum",
    "Is the message's checksum right (RFC 4443 §2.3)?",
    |_| validator(|p| checksum_ok(p)),
);

#[inline]
fn checksum_ok(packet: &Buffer) -> bool {
    let ip = packet.array_at(packet.meta().l3).map(Ipv6Header::of);
    ip.is_some_and(|ip| icmpv6::checksum_ok(message(packet), &ip.addresses()))
}

/// Which message is it?
pub static CLASSIFY: BlockType = BlockType::new(
    "RxL3ICMP6Classify",
    "Which message is it?",
    &[
        PortDoc { name: "echo", doc: "an echo request" },
        PortDoc { name: "neighbour", doc: "neighbour discovery" },
        PortDoc { name: "group", doc: "multicast listener discovery" },
        PortDoc { name: "error", doc: "an error" },
        PortDoc { name: "drop", doc: "any other, echo replies among them" },
    ],
    |_| classifier::<5>(|p| message_kind(p)),
);

#[inline]
fn message_kind(packet: &Buffer) -> usize {
    match Icmpv6Header::first(message(packet)).map(|h| (h.kind(), h.code())) {
        Some((kind::ECHO_REQUEST, 0)) => 0,
        Some((kind::ROUTER_SOLICIT..=kind::REDIRECT, _)) => 1,
        Some((kind::MLD_QUERY..=kind::MLDV1_DONE | kind::MLDV2_REPORT, _)) => 2,
        Some((said, _)) if kind::is_error(said) => 3,
        _ => 4,
    }
}
