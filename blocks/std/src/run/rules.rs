//! Blocks that a run may pass without calling them: they choose a port exactly as the predicates of the text
//! say, and do nothing else but record metadata.
//!
//! A label in their predicates is decided by a tile, which uses the same functions.

use weever_block::{BY_PREDICATE, BlockType, WORKER};
use weever_graph::{Attr, ENDS, Field, Node, Predicate};
use weever_wire::ethernet::ethertype;

use super::tiles::records::{END, INTERFACE, L4, LINK, UDP_END};
use crate::{ethernet, icmp, icmp6, ipv4, ipv6, tcp, udp};

/// A block, and the metadata that it records of a packet.
type Rule = (&'static BlockType, u8);

static ETHERNET: [Rule; 10] = [
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
];

static IPV4: [Rule; 10] = [
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
];

static IPV6: [Rule; 2] = [(&ipv6::VALID_LENGTH, END), (&ipv6::VALID_EXTENSIONS, L4)];

static TRANSPORT: [Rule; 7] = [
    (&udp::VALID_HEADER_LENGTH, 0),
    (&udp::VALID_LENGTH, UDP_END),
    (&udp::VALID_CHECKSUM, 0),
    (&icmp::VALID_CHECKSUM, 0),
    (&icmp6::VALID_CHECKSUM, 0),
    (&tcp::VALID_HEADER_LENGTH, 0),
    (&tcp::VALID_CHECKSUM, 0),
];

fn find(rules: &[Rule], block: &'static BlockType) -> Option<u8> {
    rules.iter().find(|(known, _)| std::ptr::eq(*known, block)).map(|(_, records)| *records)
}

/// Whether a node has no parameter of its own.
pub(super) fn is_plain(node: &Node) -> bool {
    let is_set = |attr: &Attr| matches!(attr, Attr::Param { key, .. } if ![WORKER, ENDS].contains(&key.as_str()));
    !node.attrs.iter().any(is_set)
}

/// The metadata that a node records of packets that it lets through, if a run may pass it. A node with a parameter of
/// its own does something else than its text says, and so does a block that took the place of one here.
pub(super) fn recorded(node: &Node, block_type: &'static BlockType) -> Option<u8> {
    if block_type.is_observer() {
        return Some(0);
    }
    if !is_plain(node) {
        return None;
    }
    if block_type.name == BY_PREDICATE {
        return Some(0);
    }
    [&ETHERNET[..], &IPV4, &IPV6, &TRANSPORT].iter().find_map(|rules| find(rules, block_type))
}

/// The EtherType that a block assumes: it reads a header of its family at the usual place, while predicates
/// find none in packets of other families.
pub(super) fn family(block_type: &'static BlockType) -> Option<u16> {
    match block_type {
        four if find(&IPV4, four).is_some() => Some(ethertype::IPV4),
        six if find(&IPV6, six).is_some() => Some(ethertype::IPV6),
        _ => None,
    }
}

/// The metadata that a node's predicates read to locate fields. The same test of the same packet may have
/// different results before and after they are recorded.
pub(super) fn read(node: &Node) -> u8 {
    let mut read = 0;
    for port in &node.ports {
        port.predicate.for_each_test(&mut |test| read |= read_by(test));
    }
    read
}

fn read_by(test: &Predicate) -> u8 {
    match test {
        Predicate::Match { field, .. } | Predicate::Range { field, .. } => read_for(*field),
        Predicate::Compare { left, right, .. } => read_for(*left) | read_for(*right),
        Predicate::Member { field, .. } => read_for(*field) | INTERFACE,
        Predicate::Atom { .. } => LINK | INTERFACE | L4 | END | UDP_END,
        _ => 0,
    }
}

/// The metadata that locate a field: offsets, and the ends of readable parts.
fn read_for(field: Field) -> u8 {
    use Field::*;
    match field {
        FrameLen => 0,
        Ip6Alert | IpUpper => LINK | END,
        L4Src | L4Dst | L4Len | TcpFlags | IcmpType | IcmpCode | Icmp6Type | Icmp6Code | UdpLen => {
            LINK | L4 | END
        }
        _ => LINK,
    }
}
