//! Predicates over packet fields: conditions on a packet at a place in the graph.
//!
//! Known labels become typed [`Field`] tests; unknown labels stay opaque atoms (UNICORN,
//! "Predicates"). One label has one value in a packet, so two atoms with the same label and
//! different values contradict each other.
//!
//! Fields are of two kinds. Those of [`Field::ALL`] are what filters of NICs and policies are about.
//! Those of [`Field::DERIVED`] are known to a stack that has looked at the packet: lengths, what stands
//! behind extension headers, addresses of ARP. They define the steps of a graph, and an algebra that
//! knows nothing of them takes a test of one as a label.

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
    /// Whether the frame came to several stations: 1 bit. Kept when a datagram is put together.
    FrameGroup,
    /// The VLAN that the frame belongs to: the identifier of the outer tag, 0 without a tag. 12 bits.
    FrameVlan,
    /// The type field of the Ethernet header itself, before any tag: 16 bits.
    EthOuter,
    /// The type field of the outer 802.1Q tag, 16 bits; absent when untagged.
    VlanType,
    /// VLAN identifier of the second tag, 12 bits; absent where there is none.
    VlanInner,
    /// ARP sender hardware address, 48 bits.
    ArpSha,
    /// ARP sender protocol address, 32 bits.
    ArpSpa,
    /// Bytes from the network header to the end of the frame, 17 bits.
    L3Len,
    /// Length of the IPv4 header in bytes, 6 bits.
    Ip4Hlen,
    /// Type of service of IPv4: DSCP and ECN, 8 bits.
    Ip4Tos,
    /// IPv4 total length, 16 bits.
    Ip4Len,
    /// Whether an option of IPv4 asks routers to look at the datagram (RFC 2113), 1 bit.
    Ip4Alert,
    /// Length of an IPv6 packet with its fixed header, in bytes, 17 bits.
    Ip6Len,
    /// IPv6 hop limit, 8 bits.
    Ip6Hops,
    /// Whether hop-by-hop options of IPv6 ask routers to look at the packet (RFC 2711), 1 bit. Absent
    /// where the headers cannot be followed.
    Ip6Alert,
    /// The protocol that an IP packet carries, behind IPv6 extension headers too, 8 bits: 44 in a
    /// fragment of IPv6. Absent where the headers cannot be followed.
    IpUpper,
    /// Bytes from the transport header to the end of the IP packet, as far as they are there: 17 bits.
    L4Len,
    /// IGMP type, 8 bits.
    IgmpType,
    /// IGMP code: the time that queries give for answers, 0 in those of version 1. 8 bits.
    IgmpCode,
    /// The group that an IGMP message is about, 32 bits; 0.0.0.0 in general queries.
    IgmpGroup,
    /// ICMPv6 type behind extension headers, 8 bits.
    Icmp6Type,
    /// ICMPv6 code behind extension headers, 8 bits.
    Icmp6Code,
    /// UDP length field, 16 bits.
    UdpLen,
}

impl Field {
    /// Every field that a filter may be about, in the order of the enumeration.
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

    /// Every field that is known only to a stack which has looked at the packet.
    pub const DERIVED: [Field; 23] = [
        Field::FrameGroup,
        Field::FrameVlan,
        Field::EthOuter,
        Field::VlanType,
        Field::VlanInner,
        Field::ArpSha,
        Field::ArpSpa,
        Field::L3Len,
        Field::Ip4Hlen,
        Field::Ip4Tos,
        Field::Ip4Len,
        Field::Ip4Alert,
        Field::Ip6Len,
        Field::Ip6Hops,
        Field::Ip6Alert,
        Field::IpUpper,
        Field::L4Len,
        Field::IgmpType,
        Field::IgmpCode,
        Field::IgmpGroup,
        Field::Icmp6Type,
        Field::Icmp6Code,
        Field::UdpLen,
    ];

    /// Whether it is one of [`Field::DERIVED`].
    #[inline]
    pub fn is_derived(self) -> bool {
        self > Field::FrameLen
    }

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
            Field::FrameGroup => "frame.group",
            Field::FrameVlan => "frame.vlan",
            Field::EthOuter => "eth.outer",
            Field::VlanType => "vlan.type",
            Field::VlanInner => "vlan.inner",
            Field::ArpSha => "arp.sha",
            Field::ArpSpa => "arp.spa",
            Field::L3Len => "l3.len",
            Field::Ip4Hlen => "ip4.hlen",
            Field::Ip4Tos => "ip4.tos",
            Field::Ip4Len => "ip4.len",
            Field::Ip4Alert => "ip4.alert",
            Field::Ip6Len => "ip6.len",
            Field::Ip6Hops => "ip6.hops",
            Field::Ip6Alert => "ip6.alert",
            Field::IpUpper => "ip.upper",
            Field::L4Len => "l4.len",
            Field::IgmpType => "igmp.type",
            Field::IgmpCode => "igmp.code",
            Field::IgmpGroup => "igmp.group",
            Field::Icmp6Type => "icmp6.type",
            Field::Icmp6Code => "icmp6.code",
            Field::UdpLen => "udp.len",
        }
    }

    /// The field's width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Field::EthDst | Field::EthSrc | Field::ArpSha => 48,
            Field::EthType | Field::ArpOp | Field::L4Src | Field::L4Dst | Field::FrameLen => 16,
            Field::EthOuter | Field::VlanType | Field::Ip4Len | Field::UdpLen => 16,
            Field::L3Len | Field::L4Len | Field::Ip6Len => 17,
            Field::VlanId | Field::VlanInner | Field::FrameVlan => 12,
            Field::ArpTpa | Field::ArpSpa | Field::Ip4Src | Field::Ip4Dst | Field::IgmpGroup => 32,
            Field::Ip6Src | Field::Ip6Dst => 128,
            Field::IpVersion => 4,
            Field::Ip4Frag => 14,
            Field::FrameGroup | Field::Ip4Alert | Field::Ip6Alert => 1,
            Field::Ip4Hlen => 6,
            Field::Ip4Tos | Field::Ip6Hops | Field::IpUpper => 8,
            Field::Icmp6Type | Field::Icmp6Code => 8,
            Field::IgmpType | Field::IgmpCode => 8,
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

/// A set of addresses, groups or VLANs that the host's network keeps. What belongs to it depends on the
/// field that is looked up, and on the interface that the packet came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Set {
    /// Our own: the interface's link address; an IP address of ours; of ARP, an address of the
    /// interface, in use or being probed; of a VLAN, one with an interface that is up.
    Ours,
    /// Groups that the interface is in, and wants of this source; of IGMP and MLD of any.
    Joined,
    /// Broadcast addresses: as a source and of ARP those of any subnet, as a destination those of the
    /// interface.
    Broadcasts,
    /// Destinations that routes say are no host's.
    Martians,
    /// Destinations of other hosts, if packets that the interface receives are forwarded.
    Forwarded,
    /// Addresses of the interface's own subnets.
    Subnets,
}

impl Set {
    /// Every set.
    pub const ALL: [Set; 6] =
        [Set::Ours, Set::Joined, Set::Broadcasts, Set::Martians, Set::Forwarded, Set::Subnets];

    /// Its name in predicates: `ip4.dst in ours`.
    pub fn name(self) -> &'static str {
        match self {
            Set::Ours => "ours",
            Set::Joined => "joined",
            Set::Broadcasts => "broadcasts",
            Set::Martians => "martians",
            Set::Forwarded => "forwarded",
            Set::Subnets => "subnets",
        }
    }
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How two fields compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
}

impl Relation {
    /// Whether it holds of two values.
    #[inline]
    pub fn holds(self, left: u128, right: u128) -> bool {
        match self {
            Relation::Equal => left == right,
            Relation::Less => left < right,
            Relation::AtMost => left <= right,
        }
    }

    /// Its sign in predicates.
    pub fn sign(self) -> &'static str {
        match self {
            Relation::Equal => "=",
            Relation::Less => "<",
            Relation::AtMost => "<=",
        }
    }
}

/// A test whose outcome the packet's bytes alone do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenTest<'a> {
    /// An opaque label has this value.
    Label {
        /// The label.
        label: &'a str,
        /// The value.
        value: &'a str,
    },
    /// A field's value is in a set.
    Member {
        /// The field.
        field: Field,
        /// Its value in the packet.
        value: u128,
        /// The set.
        set: Set,
    },
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
    /// `left relation right`, field with field. False of a packet without one of them.
    Compare {
        /// The one field.
        left: Field,
        /// How they compare.
        relation: Relation,
        /// The other.
        right: Field,
    },
    /// The field's value is in a set of the network's. False of a packet without the field.
    Member {
        /// The field.
        field: Field,
        /// The set.
        set: Set,
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

    /// Whether the predicate holds, given how to look up a field, and the outcome of tests which are
    /// not about the packet's bytes. A field without a value makes its test false. This is the meaning of
    /// predicates; every faster form is held to it.
    pub fn eval(
        &self,
        field: &dyn Fn(Field) -> Option<u128>,
        open: &dyn Fn(OpenTest<'_>) -> bool,
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
            Predicate::Compare { left, relation, right } => {
                let both = field(*left).zip(field(*right));
                both.is_some_and(|(left, right)| relation.holds(left, right))
            }
            Predicate::Member { field: f, set } => {
                let is_in = |value| open(OpenTest::Member { field: *f, value, set: *set });
                field(*f).is_some_and(is_in)
            }
            Predicate::Atom { label, value } => open(OpenTest::Label { label, value }),
            Predicate::Not(p) => !p.eval(field, open),
            Predicate::And(ps) => ps.iter().all(|p| p.eval(field, open)),
            Predicate::Or(ps) => ps.iter().any(|p| p.eval(field, open)),
        }
    }

    /// Calls `visit` for each test in it, in the order of the text.
    pub fn for_each_test<'a>(&'a self, visit: &mut dyn FnMut(&'a Predicate)) {
        match self {
            Predicate::True | Predicate::False => {}
            Predicate::Not(p) => p.for_each_test(visit),
            Predicate::And(ps) | Predicate::Or(ps) => {
                ps.iter().for_each(|p| p.for_each_test(visit));
            }
            test => visit(test),
        }
    }

    /// Whether its text says all of it: no test is of an opaque label.
    pub fn is_defined(&self) -> bool {
        let mut defined = true;
        self.for_each_test(&mut |test| defined &= !matches!(test, Predicate::Atom { .. }));
        defined
    }
}
