//! Blocks that a run may pass without calling them: they choose a port exactly as the predicates of the text
//! say, and do nothing else but record metadata.
//!
//! A label in their predicates is decided by a tile, which uses the same functions.

use weever_block::{BY_PREDICATE, BlockType, WORKER};
use weever_graph::{Attr, ENDS, Field, Node, Predicate};
use weever_wire::ethernet::ethertype;

use super::tiles::records::{END, INTERFACE, L4, LINK, UDP_END};
use crate::{ethernet, icmp, icmp6, ipv4, ipv6, queue, tcp, udp};

/// A block, and the metadata that it records of a packet.
type Rule = (&'static BlockType, u8);

static LINK_LAYER: [Rule; 3] =
    [(&queue::RX_QUEUE, 0), (&ethernet::CLASSIFIED, LINK), (&ethernet::VALID_VLAN, INTERFACE)];

static IPV4: [Rule; 7] = [
    (&ipv4::VALID_HEADER_LENGTH, L4),
    (&ipv4::VALID_LENGTH, END),
    (&ipv4::VALID_CHECKSUM, 0),
    (&ipv4::VALID_SOURCE, 0),
    (&ipv4::VALID_OPTIONS, 0),
    (&ipv4::DESTINATION, 0),
    (&ipv4::VALID_TTL, 0),
];

static IPV6: [Rule; 2] = [(&ipv6::VALID_LENGTH, END), (&ipv6::VALID_EXTENSIONS, L4)];

static TRANSPORT: [Rule; 5] = [
    (&udp::VALID_LENGTH, UDP_END),
    (&udp::VALID_CHECKSUM, 0),
    (&icmp::VALID_CHECKSUM, 0),
    (&icmp6::VALID_CHECKSUM, 0),
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
    [&LINK_LAYER[..], &IPV4, &IPV6, &TRANSPORT].iter().find_map(|rules| find(rules, block_type))
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
        L4Src | L4Dst | L4Len | TcpFlags | IcmpType | IcmpCode | IgmpType | IgmpCode
        | IgmpGroup | Icmp6Type | Icmp6Code | UdpLen => LINK | L4 | END,
        _ => LINK,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weever_packet::{Buffer, NOWHERE};

    use super::*;
    use crate::bench::Bench;
    use crate::table::fields::value_of;
    use crate::testing::frames::*;
    use crate::testing::frames6::*;

    /// Changes what is recorded of a packet: the metadata of one kind.
    fn change(packet: &mut Buffer, kind: u8, to: u16) {
        let meta = packet.meta_mut();
        match kind {
            LINK => (meta.l2, meta.l3, meta.ethertype, meta.vlan) = (to, to, to, to),
            INTERFACE => meta.iface = to,
            L4 => meta.l4 = to,
            _ => meta.end = to,
        }
    }

    proptest! {
        /// The list of what is read to locate a field is the code that reads it.
        #[test]
        fn a_field_depends_on_no_metadata_but_those_listed(
            frame in prop::sample::select(vec![
                udp(5, 7, b"a"),
                echo_request(1, 2, b"data"),
                arp_reply(),
                tagged(&udp(5, 7, b"a"), 77, 3),
                from_peer6(&udp6((PEER6, 5000), (HOST6, 7), 64, b"six")),
            ]),
            (l3, l4, end) in (prop_oneof![Just(14u16), Just(18)], 30u16..60, prop_oneof![30u16..80, Just(NOWHERE)]),
            kind in prop::sample::select(vec![LINK, INTERFACE, L4, END]),
            to in prop_oneof![0u16..200, any::<u16>()],
        ) {
            let mut packet = Bench::new().packet(&frame);
            let head = packet.head();
            let meta = packet.meta_mut();
            (meta.l2, meta.l3, meta.l4) = (head, head + l3, head + l4);
            meta.end = end.saturating_add(head);
            meta.ethertype = u16::from_be_bytes([frame[12], frame[13]]);
            let all = || Field::ALL.into_iter().chain(Field::DERIVED);
            let free: Vec<Field> = all().filter(|field| read_for(*field) & kind == 0).collect();
            let values = |packet: &Buffer| -> Vec<_> {
                free.iter().map(|field| (*field, value_of(packet, *field))).collect()
            };
            let before = values(&packet);
            change(&mut packet, kind, to);
            prop_assert_eq!(before, values(&packet));
        }
    }
}
