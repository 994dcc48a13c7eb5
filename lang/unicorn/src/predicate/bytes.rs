//! Which field the bytes `proto[offset:size]` of pcap-filter are.

use weever_graph::{Field, Predicate};

use super::labels;

pub(super) const KNOWN: &str = "known are ether[12:2], arp[6:2], ip[0], ip[6:2], ip[8], ip[9], \
    ip[12:4], ip[16:4], ip6[6], icmp[0], icmp[1], \
    icmp6[0], icmp6[1], tcp[13], and [0:2] and [2:2] of tcp, udp and sctp";

/// The field at a byte offset.
pub(super) enum ByteField {
    /// A field and nothing else.
    Whole(Field),
    /// A field of `bits` bits, `shift` bits from the right.
    Part { field: Field, shift: u32, bits: u32 },
}

pub(super) fn field_at(proto: &str, place: &str) -> Option<ByteField> {
    let field = match (proto, place) {
        ("ip", "0") => return Some(ByteField::Part { field: Field::IpVersion, shift: 4, bits: 4 }),
        ("ip", "6:2") => {
            return Some(ByteField::Part { field: Field::Ip4Frag, shift: 0, bits: 14 });
        }
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
