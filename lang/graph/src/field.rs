//! Fields of packets, and the sets that their values are looked up in.
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
