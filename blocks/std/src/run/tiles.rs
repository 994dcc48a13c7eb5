//! Tiles: tests that go together because one look at a header decides them all.
//!
//! A tile states, for each of its outcomes, the facts about packets that have it, in the words of
//! predicates; that is all the compiler knows of it. Packets with anything unusual have no outcome, and go
//! from node to node. A tile records in the metadata what blocks would, so that later tests read it there.

use std::sync::LazyLock;

use weever_block::Buffer;
use weever_graph::{Field, Predicate, Set};
use weever_net::iface::IfaceId;
use weever_net::ipv4::{self, Ipv4Header};
use weever_net::ipv6;
use weever_net::state::NetState;
use weever_net::udp::Checksum;
use weever_packet::Flags;
use weever_wire::checksum;
use weever_wire::ethernet::{EthernetHeader, HEADER_LEN, ethertype};
use weever_wire::icmpv4::kind;
use weever_wire::icmpv6::kind as kind6;
use weever_wire::ipv4::protocol;
use weever_wire::ipv6::{Ipv6Header, next_header};

use super::facts::Fact;
use crate::by_predicate::members;
use crate::{icmp, icmp6, ipv4 as blocks4, tcp, udp};

/// The metadata that a tile records, and blocks that its outcomes take packets past would.
pub(super) mod records {
    /// l2, l3, the EtherType and the VLAN tag.
    pub(in crate::run) const LINK: u8 = 1;
    pub(in crate::run) const INTERFACE: u8 = 2;
    pub(in crate::run) const L4: u8 = 4;
    /// Where the network packet ends.
    pub(in crate::run) const END: u8 = 8;
    /// Where the datagram ends.
    pub(in crate::run) const UDP_END: u8 = 16;
}

/// No outcome.
pub(super) const UNUSUAL: usize = usize::MAX;

/// The test of a tile: the number of its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Untagged frames for our station: IPv4 or IPv6.
    Link,
    /// IPv4 headers without options.
    Ip4,
    /// From another host's address, to us or to be forwarded.
    Ends4,
    /// Whole datagrams, by protocol: UDP, ICMP, TCP.
    Whole4,
    /// IPv6 headers.
    Ip6,
    /// From another host's address, to us or to be forwarded.
    Ends6,
    /// Packets without extension headers, by protocol: UDP, ICMPv6, TCP.
    Upper6,
    /// Sound datagrams of either family.
    Udp,
    /// Sound echo requests, and sound messages of other kinds that are not errors.
    Icmp,
    /// As [`Look::Icmp`].
    Icmp6,
    /// Sound segments of either family.
    Tcp,
}

impl Look {
    /// The outcome for a packet, or [`UNUSUAL`]. Without a network no packet is for us.
    #[inline(always)]
    pub(super) fn at(self, net: Option<&NetState>, packet: &mut Buffer) -> usize {
        let found = match (self, net) {
            (Look::Link, Some(net)) => link(net, packet),
            (Look::Ends4, Some(net)) => ends4(net, packet),
            (Look::Ends6, Some(net)) => ends6(net, packet),
            (Look::Link | Look::Ends4 | Look::Ends6, None) => None,
            (Look::Ip4, _) => ip4(packet),
            (Look::Whole4, _) => whole4(packet),
            (Look::Ip6, _) => ip6(packet),
            (Look::Upper6, _) => upper6(packet),
            (Look::Udp, _) => udp(packet),
            (Look::Icmp, _) => icmp(packet),
            (Look::Icmp6, _) => icmp6(packet),
            (Look::Tcp, _) => tcp(packet),
        };
        found.unwrap_or(UNUSUAL)
    }
}

#[inline(always)]
fn link(net: &NetState, packet: &mut Buffer) -> Option<usize> {
    let ether = EthernetHeader::first(packet.data())?;
    let iface = net.member(packet.meta().link, 0)?;
    let ours = ether.dst() == net.interface(iface)?.mac && !ether.dst().is_multicast();
    let next = ether.ethertype();
    let outcome = match next {
        ethertype::IPV4 => 0,
        ethertype::IPV6 => 1,
        _ => return None,
    };
    if !ours || ether.src().is_multicast() {
        return None;
    }
    let l2 = packet.head();
    let meta = packet.meta_mut();
    (meta.l2, meta.l3, meta.ethertype) = (l2, l2 + HEADER_LEN as u16, next);
    (meta.vlan, meta.iface) = (0, iface.0);
    Some(outcome)
}

/// The IPv4 header of an IPv4 packet.
#[inline(always)]
fn header4(packet: &Buffer) -> Option<&[u8; 20]> {
    let meta = packet.meta();
    if meta.ethertype == ethertype::IPV4 { packet.array_at::<20>(meta.l3) } else { None }
}

#[inline(always)]
fn ip4(packet: &mut Buffer) -> Option<usize> {
    let bytes = header4(packet)?;
    let (ip, l3) = (Ipv4Header::of(bytes), packet.meta().l3);
    // Version 4, and no options.
    let plain = bytes[0] == 0x45 && ipv4::total_len_ok(ip, packet.at(l3).len());
    if !plain || !checksum::is_valid(checksum::sum_array(bytes)) {
        return None;
    }
    let end = l3 + ip.total_len() as u16;
    let meta = packet.meta_mut();
    (meta.l4, meta.end) = (l3 + ipv4::HEADER_LEN as u16, end);
    Some(0)
}

#[inline(always)]
fn ends4(net: &NetState, packet: &mut Buffer) -> Option<usize> {
    let ip = Ipv4Header::of(header4(packet)?);
    let meta = packet.meta();
    let (iface, flags) = (IfaceId(meta.iface), meta.flags);
    if flags.has(Flags::LINK_BROADCAST)
        || blocks4::source(net, iface, ip.src()) != blocks4::SOURCE_OK
    {
        return None;
    }
    // Of what is for us only that to our address alone, no broadcasts and groups.
    match blocks4::destination(net, iface, flags, ip) {
        blocks4::TO_LOCAL if net.is_ours(ip.dst()) => Some(0),
        blocks4::TO_FORWARD => Some(1),
        _ => None,
    }
}

#[inline(always)]
fn whole4(packet: &Buffer) -> Option<usize> {
    let ip = Ipv4Header::of(header4(packet)?);
    if !ipv4::is_whole(ip) {
        return None;
    }
    match ip.protocol() {
        protocol::UDP => Some(0),
        protocol::ICMP => Some(1),
        protocol::TCP => Some(2),
        _ => None,
    }
}

/// The IPv6 header of an IPv6 packet.
#[inline(always)]
fn header6(packet: &Buffer) -> Option<Ipv6Header<'_>> {
    let meta = packet.meta();
    let is_six = meta.ethertype == ethertype::IPV6;
    if is_six { packet.array_at(meta.l3).map(Ipv6Header::of) } else { None }
}

#[inline(always)]
fn ip6(packet: &mut Buffer) -> Option<usize> {
    let (ip, l3) = (header6(packet)?, packet.meta().l3);
    let first = packet.array_at::<1>(l3)?[0];
    if first >> 4 != 6 || !ipv6::payload_len_ok(ip, packet.at(l3).len()) {
        return None;
    }
    let end = l3 + (ipv6::HEADER_LEN + ip.payload_len()) as u16;
    packet.meta_mut().end = end;
    Some(0)
}

#[inline(always)]
fn ends6(net: &NetState, packet: &Buffer) -> Option<usize> {
    let ip = header6(packet)?;
    let meta = packet.meta();
    let (src, iface) = (ip.src(), IfaceId(meta.iface));
    let odd = src.is_multicast() || src.is_loopback() || src.is_unspecified();
    let mapped = src.to_bits() >> 32 == 0xffff;
    if odd || mapped || meta.flags.has(Flags::LINK_BROADCAST) || net.is_ours6(iface, src) {
        return None;
    }
    let is_in = |set| members(Field::Ip6Dst, set).is_some_and(|members| members(net, packet));
    if !ip.dst().is_multicast() && is_in(Set::Ours) {
        return Some(0);
    }
    is_in(Set::Forwarded).then_some(1)
}

#[inline(always)]
fn upper6(packet: &mut Buffer) -> Option<usize> {
    let outcome = match header6(packet)?.next_header() {
        protocol::UDP => 0,
        next_header::ICMPV6 => 1,
        protocol::TCP => 2,
        _ => return None,
    };
    let l4 = packet.meta().l3 + ipv6::HEADER_LEN as u16;
    // What is in front of it must be within the packet's own length.
    if l4 > packet.meta().end {
        return None;
    }
    packet.meta_mut().l4 = l4;
    Some(outcome)
}

/// Whether it is a whole packet of this transport protocol, of either family.
#[inline(always)]
fn carries(packet: &Buffer, wanted: u8) -> bool {
    let meta = packet.meta();
    match header4(packet).map(Ipv4Header::of) {
        Some(ip) => ip.protocol() == wanted && ipv4::is_whole(ip),
        None => header6(packet).is_some_and(|ip| {
            ip.next_header() == wanted && meta.l4 == meta.l3 + ipv6::HEADER_LEN as u16
        }),
    }
}

/// Datagrams without a checksum, or with a partial one, are left to the block, which counts them.
#[inline(always)]
fn udp(packet: &mut Buffer) -> Option<usize> {
    let sound = carries(packet, protocol::UDP)
        && udp::valid_length(packet)
        && udp::verify(packet) == Checksum::Valid;
    sound.then_some(0)
}

#[inline(always)]
fn icmp(packet: &Buffer) -> Option<usize> {
    let message = icmp::message(packet);
    let sound = message.len() >= 8 && carries(packet, protocol::ICMP) && icmp::checksum_ok(packet);
    (sound && message[..2] == [kind::ECHO_REQUEST, 0]).then_some(0)
}

#[inline(always)]
fn icmp6(packet: &Buffer) -> Option<usize> {
    let message = icmp::message(packet);
    let sound = message.len() >= 8 && carries(packet, next_header::ICMPV6);
    if !sound || !icmp6::checksum_ok(packet) {
        return None;
    }
    match message[..2] {
        [kind6::ECHO_REQUEST, 0] => Some(0),
        [133..=137, _] => Some(1),
        _ => None,
    }
}

#[inline(always)]
fn tcp(packet: &Buffer) -> Option<usize> {
    (carries(packet, protocol::TCP) && tcp::is_sound(packet)).then_some(0)
}

/// A group of tests that are decided together.
pub(super) struct Tile {
    pub(super) look: Look,
    /// Per outcome, the facts about packets that have it.
    pub(super) outcomes: Vec<Vec<Fact>>,
    /// The metadata that it reads: blocks must have recorded them before.
    pub(super) reads: u8,
    /// The metadata that are recorded of packets with an outcome.
    pub(super) records: u8,
}

/// Every tile.
pub(super) static TILES: LazyLock<Vec<Tile>> = LazyLock::new(|| {
    use records::{END, INTERFACE, L4, LINK, UDP_END};
    let tile = |look, reads, records, outcomes| Tile { look, outcomes, reads, records };
    let packet = LINK | L4 | END;
    vec![
        tile(Look::Link, 0, LINK | INTERFACE, vec![link_facts(0x800), link_facts(0x86dd)]),
        tile(Look::Ip4, LINK, L4 | END, vec![ip4_facts()]),
        tile(Look::Ends4, LINK | INTERFACE, 0, [true, false].map(ends4_facts).into()),
        tile(Look::Whole4, LINK, 0, [17, 1, 6].map(whole4_facts).into()),
        tile(Look::Ip6, LINK, END, vec![ip6_facts()]),
        tile(Look::Ends6, LINK | INTERFACE, 0, [true, false].map(ends6_facts).into()),
        tile(Look::Upper6, LINK | END, L4, [17, 58, 6].map(upper6_facts).into()),
        tile(Look::Udp, packet, UDP_END, vec![udp_facts()]),
        tile(Look::Icmp, packet, 0, vec![icmp_facts()]),
        tile(Look::Icmp6, packet, 0, icmp6_facts().into()),
        tile(Look::Tcp, packet, 0, vec![tcp_facts()]),
    ]
});

/// The bit of a group in an Ethernet address.
const GROUP: u128 = 1 << 40;

fn link_facts(ethertype: u128) -> Vec<Fact> {
    use records::{INTERFACE, LINK};
    let single = |field| Fact::Bits { field, mask: GROUP, value: 0 };
    let when = |records, fact| Fact::When(records, Box::new(fact));
    let once_parsed = [
        Fact::value(Field::EthOuter, ethertype),
        Fact::value(Field::EthType, ethertype),
        Fact::Absent(Field::VlanId),
        Fact::Absent(Field::VlanType),
        Fact::value(Field::FrameVlan, 0),
        Fact::value(Field::FrameGroup, 0),
        single(Field::EthSrc),
        single(Field::EthDst),
        Fact::member(Field::FrameVlan, Set::Ours, true),
    ];
    let mut facts = vec![
        Fact::at_least(Field::FrameLen, 14),
        when(INTERFACE, Fact::member(Field::EthDst, Set::Ours, true)),
    ];
    facts.extend(once_parsed.map(|fact| when(LINK, fact)));
    facts
}

fn ip4_facts() -> Vec<Fact> {
    let mut facts: Vec<Fact> =
        [Field::Ip4Src, Field::Ip4Dst, Field::Ip4Proto, Field::Ip4Ttl, Field::Ip4Frag]
            .map(Fact::has)
            .into();
    facts.extend([
        Fact::value(Field::EthType, 0x800),
        Fact::value(Field::IpVersion, 4),
        Fact::value(Field::Ip4Hlen, 20),
        Fact::at_most(Field::Ip4Hlen, Field::L3Len),
        Fact::at_most(Field::Ip4Hlen, Field::Ip4Len),
        Fact::at_most(Field::Ip4Len, Field::L3Len),
        Fact::label("ip.checksum", "right", true),
        Fact::label("ip.options", "harmless", true),
        Fact::label("ip.options", "route", false),
    ]);
    facts
}

/// The sets that a destination is in: of our addresses, or of those forwarded.
fn destination(field: Field, ours: bool) -> Vec<Fact> {
    let is = |set| ours && set == Set::Ours || !ours && set == Set::Forwarded;
    Set::ALL.into_iter().map(|set| Fact::member(field, set, is(set))).collect()
}

fn ends4_facts(ours: bool) -> Vec<Fact> {
    let mut facts = destination(Field::Ip4Dst, ours);
    let first = |byte: u128, mask: u128| Fact::outside(Field::Ip4Src, mask << 24, byte << 24);
    facts.extend([
        Fact::value(Field::EthType, 0x800),
        Fact::value(Field::FrameGroup, 0),
        first(0, 0xff),
        first(127, 0xff),
        first(224, 0xe0),
        Fact::member(Field::Ip4Src, Set::Ours, false),
        Fact::member(Field::Ip4Src, Set::Broadcasts, false),
        Fact::label("ip.path", "back", true),
        Fact::outside(Field::Ip4Dst, 0xf000_0000, 0xe000_0000),
    ]);
    facts
}

fn whole4_facts(protocol: u128) -> Vec<Fact> {
    vec![
        Fact::value(Field::EthType, 0x800),
        Fact::value(Field::Ip4Frag, 0),
        Fact::value(Field::Ip4Proto, protocol),
        Fact::value(Field::IpUpper, protocol),
    ]
}

fn ip6_facts() -> Vec<Fact> {
    let mut facts: Vec<Fact> =
        [Field::Ip6Src, Field::Ip6Dst, Field::Ip6Next, Field::Ip6Hops].map(Fact::has).into();
    facts.extend([
        Fact::value(Field::EthType, 0x86dd),
        Fact::value(Field::IpVersion, 6),
        Fact::at_least(Field::Ip6Len, 40),
        Fact::at_most(Field::Ip6Len, Field::L3Len),
    ]);
    facts
}

fn ends6_facts(ours: bool) -> Vec<Fact> {
    let mut facts = destination(Field::Ip6Dst, ours);
    let outside = |mask, value| Fact::outside(Field::Ip6Src, mask, value);
    let group: u128 = 0xff << 120;
    facts.extend([
        Fact::value(Field::EthType, 0x86dd),
        Fact::value(Field::FrameGroup, 0),
        outside(group, group),
        outside(u128::MAX << 32, 0xffff << 32),
        outside(u128::MAX, 1),
        outside(u128::MAX, 0),
        Fact::member(Field::Ip6Src, Set::Ours, false),
        Fact::outside(Field::Ip6Dst, group, group),
    ]);
    facts
}

fn upper6_facts(protocol: u128) -> Vec<Fact> {
    [Field::Ip6Next, Field::IpUpper].map(|field| Fact::value(field, protocol)).into()
}

/// The last fragments of a datagram have no transport header, and these are none.
fn transport(protocol: u128, header: u128, label: &str) -> Vec<Fact> {
    vec![
        Fact::value(Field::IpUpper, protocol),
        Fact::at_least(Field::L4Len, header),
        Fact::label(label, "right", true),
    ]
}

fn udp_facts() -> Vec<Fact> {
    let mut facts = transport(17, 8, "udp.checksum");
    facts.extend([Fact::at_least(Field::UdpLen, 8), Fact::at_most(Field::UdpLen, Field::L4Len)]);
    facts
}

fn icmp_facts() -> Vec<Fact> {
    let mut facts = transport(1, 8, "icmp.checksum");
    facts.extend([Fact::value(Field::IcmpType, 8), Fact::value(Field::IcmpCode, 0)]);
    facts
}

fn icmp6_facts() -> [Vec<Fact>; 2] {
    let (mut echo, mut neighbour) =
        (transport(58, 8, "icmp6.checksum"), transport(58, 8, "icmp6.checksum"));
    echo.extend([Fact::value(Field::Icmp6Type, 128), Fact::value(Field::Icmp6Code, 0)]);
    let kinds = |lo, hi| Predicate::Range { field: Field::Icmp6Type, lo, hi };
    neighbour.extend([Fact::Is(kinds(133, 137), true), Fact::Is(kinds(130, 137), true)]);
    neighbour.extend([Fact::Is(kinds(0, 127), false), Fact::Is(kinds(130, 132), false)]);
    let other = |kind| Fact::Is(Predicate::eq(Field::Icmp6Type, kind), false);
    neighbour.extend([128, 143].map(other));
    [echo, neighbour]
}

fn tcp_facts() -> Vec<Fact> {
    transport(6, 20, "tcp.checksum")
}
