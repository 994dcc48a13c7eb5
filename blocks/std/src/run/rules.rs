//! Blocks that a run may pass without calling them: they choose a port exactly as the predicates of the text
//! say, and do nothing else but record metadata.
//!
//! A label in their predicates is decided by a tile, which uses the same functions.

use weever_block::{BY_PREDICATE, BlockType, WORKER};
use weever_graph::{Attr, ENDS, Node};

use super::tiles::records::{END, INTERFACE, L4, LINK, UDP_END};
use crate::{ethernet, icmp, icmp6, ipv4, ipv6, tcp, udp};

/// A block, and the metadata that it records of a packet.
type Rule = (&'static BlockType, u8);

static RULES: [Rule; 27] = [
    (&ethernet::CLASSIFIED, LINK),
    (&ethernet::VALID_LENGTH, 0),
    (&ethernet::VALID_VLAN, INTERFACE),
    (&ethernet::VALID_UNICAST, 0),
    (&ethernet::VALID_MULTICAST, 0),
    (&ethernet::VALID_BROADCAST, 0),
    (&ethernet::VALID_LOCAL_MAC, 0),
    (&ethernet::VALID_SRC, 0),
    (&ethernet::VALID_TYPE, 0),
    (&ethernet::CLASSIFY_L3, 0),
    (&ipv4::VALID_HEADER_LENGTH, L4),
    (&ipv4::VALID_VERSION, 0),
    (&ipv4::VALID_LENGTH, END),
    (&ipv4::VALID_CHECKSUM, 0),
    (&ipv4::VALID_SOURCE, 0),
    (&ipv4::VALID_OPTIONS, 0),
    (&ipv4::DESTINATION, 0),
    (&ipv4::VALID_TTL, 0),
    (&ipv4::VALID_REASSEMBLY, 0),
    (&ipv4::CLASSIFY, 0),
    (&ipv6::VALID_LENGTH, END),
    (&ipv6::VALID_EXTENSIONS, L4),
    (&udp::VALID_HEADER_LENGTH, 0),
    (&udp::VALID_LENGTH, UDP_END),
    (&udp::VALID_CHECKSUM, 0),
    (&icmp::VALID_CHECKSUM, 0),
    (&icmp6::VALID_CHECKSUM, 0),
];

static TCP: [Rule; 2] = [(&tcp::VALID_HEADER_LENGTH, 0), (&tcp::VALID_CHECKSUM, 0)];

/// Whether a node has no parameter of its own.
pub(super) fn is_plain(node: &Node) -> bool {
    let is_set = |attr: &Attr| matches!(attr, Attr::Param { key, .. } if ![WORKER, ENDS].contains(&key.as_str()));
    !node.attrs.iter().any(is_set)
}

/// The metadata that a node records of packets that it lets through, if a run may pass it. A node with a parameter of
/// its own does something else than its text says, and so does a block that took the place of one here.
pub(super) fn recorded(node: &Node, block_type: &'static BlockType) -> Option<u8> {
    if !is_plain(node) {
        return None;
    }
    if block_type.name == BY_PREDICATE {
        return Some(0);
    }
    let rule = RULES.iter().chain(&TCP).find(|(known, _)| std::ptr::eq(*known, block_type));
    rule.map(|(_, records)| *records)
}
