//! Which field the bytes `proto[offset:size]` of pcap-filter are.

use weever_graph::{Field, Predicate};

use super::{fields, labels};

pub(super) const KNOWN: &str = "known are ether[12:2], arp[6:2], ip[0], ip[1], ip[2:2], ip[6], ip[7], \
    ip[6:2], ip[8], ip[9], ip[12:4], ip[16:4], ip6[6], ip6[7], icmp[0], icmp[1], \
    icmp6[0], icmp6[1], tcp[13], and [0:2] and [2:2] of tcp, udp and sctp";

/// The field at a byte offset.
pub(super) enum ByteField {
    /// A field and nothing else.
    Whole(Field),
    /// Bits of one or more fields.
    Parts(&'static [Part]),
}

/// Bits of a field among the bytes.
pub(super) struct Part {
    pub(super) field: Field,
    /// Its bits, in the bytes.
    pub(super) within: u128,
    /// How far to the left they stand in the field; to the right, if negative.
    up: i32,
}

impl Part {
    /// The test of the field that a test of the bytes is.
    pub(super) fn test(&self, mask: u128, value: u128) -> Predicate {
        let moved = |bits: u128| match self.up {
            0.. => (bits & self.within) << self.up,
            _ => (bits & self.within) >> -self.up,
        };
        fields::masked(self.field, moved(mask), moved(value))
    }
}

const VERSION: Part = Part { field: Field::IpVersion, within: 0xf0, up: -4 };
/// The header's length is in words there, and in bytes in the field.
const HEADER: Part = Part { field: Field::Ip4Hlen, within: 0x0f, up: 2 };
const FRAGMENT: Part = Part { field: Field::Ip4Frag, within: 0x3fff, up: 0 };
const FRAGMENT_HIGH: Part = Part { field: Field::Ip4Frag, within: 0x3f, up: 8 };
const FRAGMENT_LOW: Part = Part { field: Field::Ip4Frag, within: 0xff, up: 0 };

pub(super) fn field_at(proto: &str, place: &str) -> Option<ByteField> {
    let field = match (proto, place) {
        ("ip", "0") => return Some(ByteField::Parts(&[VERSION, HEADER])),
        ("ip", "6:2") => return Some(ByteField::Parts(&[FRAGMENT])),
        ("ip", "6") => return Some(ByteField::Parts(&[FRAGMENT_HIGH])),
        ("ip", "7") => return Some(ByteField::Parts(&[FRAGMENT_LOW])),
        ("ip", "1") => Field::Ip4Tos,
        ("ip", "2:2") => Field::Ip4Len,
        ("ip6", "7") => Field::Ip6Hops,
        ("ether", "12:2") => Field::EthType,
        ("arp", "6:2") => Field::ArpOp,
        ("arp", "24:4") => Field::ArpTpa,
        ("ip", "8") => Field::Ip4Ttl,
        ("ip", "9") => Field::Ip4Proto,
        ("ip", "12:4") => Field::Ip4Src,
        ("ip", "16:4") => Field::Ip4Dst,
        ("ip6", "6") => Field::Ip6Next,
        ("icmp6", "0" | "icmp6type") => Field::IcmpType,
        ("icmp6", "1" | "icmp6code") => Field::IcmpCode,
        ("icmp", "0" | "icmptype") => Field::IcmpType,
        ("icmp", "1" | "icmpcode") => Field::IcmpCode,
        ("tcp", "13" | "tcpflags") => Field::TcpFlags,
        ("tcp" | "udp" | "sctp", "0:2") => Field::L4Src,
        ("tcp" | "udp" | "sctp", "2:2") => Field::L4Dst,
        _ => return None,
    };
    Some(ByteField::Whole(field))
}

/// Restricts fields that several protocols share to this one.
pub(super) fn qualified(proto: &str, field: Field, inner: Predicate) -> Predicate {
    match field {
        Field::L4Src | Field::L4Dst => {}
        // Both families have these fields; pcap-filter has a word for each.
        Field::IcmpType | Field::IcmpCode => {
            let family = if proto == "icmp6" { (Field::Ip6Next, 58) } else { (Field::Ip4Proto, 1) };
            return Predicate::And(vec![Predicate::eq(family.0, family.1), inner]);
        }
        _ => return inner,
    }
    let number = labels::protocol(proto).unwrap_or(u128::from(u8::MAX));
    let four = Predicate::eq(Field::Ip4Proto, number);
    let six = Predicate::eq(Field::Ip6Next, number);
    Predicate::And(vec![Predicate::Or(vec![four, six]), inner])
}
