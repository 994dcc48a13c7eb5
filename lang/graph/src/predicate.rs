//! Predicates over packet fields: conditions on a packet at a place in the graph.
//!
//! Known labels become typed [`Field`] tests; unknown labels stay opaque atoms (UNICORN,
//! "Predicates"). One label has one value in a packet, so two atoms with the same label and
//! different values contradict each other.

/// A packet field with a fixed width. Its value is taken big-endian as an unsigned integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Destination MAC address, 48 bits.
    EthDst,
    /// Source MAC address, 48 bits.
    EthSrc,
    /// EtherType after VLAN tags, 16 bits.
    EthType,
    /// VLAN identifier of the outer tag, 12 bits; absent when untagged.
    VlanId,
    /// ARP operation, 16 bits.
    ArpOp,
    /// ARP target protocol address, 32 bits.
    ArpTpa,
    /// IPv4 source address, 32 bits.
    Ip4Src,
    /// IPv4 destination address, 32 bits.
    Ip4Dst,
    /// IPv4 protocol, 8 bits.
    Ip4Proto,
    /// IPv4 time to live, 8 bits.
    Ip4Ttl,
    /// IPv4 version field, 4 bits.
    IpVersion,
    /// IPv4 fragment offset and more-fragments flag, 14 bits (reserved and DF cleared).
    Ip4Frag,
    /// IPv6 source address, 128 bits.
    Ip6Src,
    /// IPv6 destination address, 128 bits.
    Ip6Dst,
    /// IPv6 next header, 8 bits.
    Ip6Next,
    /// ICMP type, 8 bits.
    IcmpType,
    /// ICMP code, 8 bits.
    IcmpCode,
    /// TCP, UDP or SCTP source port, 16 bits.
    L4Src,
    /// TCP, UDP or SCTP destination port, 16 bits.
    L4Dst,
    /// TCP flags, 8 bits.
    TcpFlags,
    /// Length of the frame in bytes, 16 bits.
    FrameLen,
}

impl Field {
    /// Every field, in the order of the enumeration.
    pub const ALL: [Field; 21] = [
        Field::EthDst,
        Field::EthSrc,
        Field::EthType,
        Field::VlanId,
        Field::ArpOp,
        Field::ArpTpa,
        Field::Ip4Src,
        Field::Ip4Dst,
        Field::Ip4Proto,
        Field::Ip4Ttl,
        Field::IpVersion,
        Field::Ip4Frag,
        Field::Ip6Src,
        Field::Ip6Dst,
        Field::Ip6Next,
        Field::IcmpType,
        Field::IcmpCode,
        Field::L4Src,
        Field::L4Dst,
        Field::TcpFlags,
        Field::FrameLen,
    ];

    /// The name by which people call it: `ip4.src`.
    pub fn name(self) -> &'static str {
        match self {
            Field::EthDst => "eth.dst",
            Field::EthSrc => "eth.src",
            Field::EthType => "eth.type",
            Field::VlanId => "vlan.id",
            Field::ArpOp => "arp.op",
            Field::ArpTpa => "arp.tpa",
            Field::Ip4Src => "ip4.src",
            Field::Ip4Dst => "ip4.dst",
            Field::Ip4Proto => "ip4.proto",
            Field::Ip4Ttl => "ip4.ttl",
            Field::IpVersion => "ip.version",
            Field::Ip4Frag => "ip4.frag",
            Field::Ip6Src => "ip6.src",
            Field::Ip6Dst => "ip6.dst",
            Field::Ip6Next => "ip6.next",
            Field::IcmpType => "icmp.type",
            Field::IcmpCode => "icmp.code",
            Field::L4Src => "l4.src",
            Field::L4Dst => "l4.dst",
            Field::TcpFlags => "tcp.flags",
            Field::FrameLen => "frame.len",
        }
    }

    /// The field's width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Field::EthDst | Field::EthSrc => 48,
            Field::EthType | Field::ArpOp | Field::L4Src | Field::L4Dst | Field::FrameLen => 16,
            Field::VlanId => 12,
            Field::ArpTpa | Field::Ip4Src | Field::Ip4Dst => 32,
            Field::Ip6Src | Field::Ip6Dst => 128,
            Field::IpVersion => 4,
            Field::Ip4Frag => 14,
            Field::Ip4Proto
            | Field::Ip4Ttl
            | Field::Ip6Next
            | Field::IcmpType
            | Field::IcmpCode
            | Field::TcpFlags => 8,
        }
    }

    /// The mask that covers the whole field.
    pub fn full_mask(self) -> u128 {
        match self.bits() {
            128 => u128::MAX,
            bits => (1u128 << bits) - 1,
        }
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A condition on a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// Holds of every packet; carries no information.
    #[default]
    True,
    /// Holds of no packet.
    False,
    /// `field & mask == value`. False of a packet without the field.
    Match {
        /// The field.
        field: Field,
        /// Bits that count.
        mask: u128,
        /// Their required value; no bit outside `mask`.
        value: u128,
    },
    /// `lo <= field <= hi`. False of a packet without the field.
    Range {
        /// The field.
        field: Field,
        /// Smallest value, inclusive.
        lo: u128,
        /// Largest value, inclusive.
        hi: u128,
    },
    /// An atom over a label that weever gives no meaning to.
    Atom {
        /// The label.
        label: String,
        /// Its value.
        value: String,
    },
    /// Negation.
    Not(Box<Predicate>),
    /// Conjunction.
    And(Vec<Predicate>),
    /// Disjunction.
    Or(Vec<Predicate>),
}

impl Predicate {
    /// `field == value`.
    pub fn eq(field: Field, value: u128) -> Predicate {
        Predicate::Match { field, mask: field.full_mask(), value }
    }

    /// Whether the predicate holds, given how to look up a field and an opaque label's value.
    /// A field or label without a value makes its test false.
    pub fn eval(
        &self,
        field: &dyn Fn(Field) -> Option<u128>,
        label: &dyn Fn(&str) -> Option<String>,
    ) -> bool {
        match self {
            Predicate::True => true,
            Predicate::False => false,
            Predicate::Match { field: f, mask, value } => {
                field(*f).is_some_and(|v| v & mask == *value)
            }
            Predicate::Range { field: f, lo, hi } => {
                field(*f).is_some_and(|v| *lo <= v && v <= *hi)
            }
            Predicate::Atom { label: l, value } => label(l).is_some_and(|v| v == *value),
            Predicate::Not(p) => !p.eval(field, label),
            Predicate::And(ps) => ps.iter().all(|p| p.eval(field, label)),
            Predicate::Or(ps) => ps.iter().any(|p| p.eval(field, label)),
        }
    }
}
