//! Tiles: tests that go together because one look at a header decides them all.
//!
//! A tile states, for each outcome of its [look](super::looks), the facts about packets that have it, in the words of
//! predicates; that is all the compiler knows of it. A look finds the metadata that blocks would record, so that later
//! tests read it.

use std::sync::LazyLock;

use weever_graph::{Field, Predicate, Set};

use super::facts::Fact;
use super::looks::Look;

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

/// Frames of the smallest length that holds a tag: shorter ones hold no IP header either.
fn link_facts(ethertype: u128) -> Vec<Fact> {
    use records::{INTERFACE, LINK};
    let single = |field| Fact::Bits { field, mask: GROUP, value: 0 };
    let is_not = |field, value| Fact::outside(field, 0xffff, value);
    let when = |records, fact| Fact::When(records, Box::new(fact));
    let once_parsed = [
        Fact::value(Field::EthType, ethertype),
        is_not(Field::EthOuter, 0x88a8),
        is_not(Field::VlanType, 0x8100),
        is_not(Field::VlanType, 0x88a8),
        Fact::value(Field::FrameGroup, 0),
        single(Field::EthSrc),
        single(Field::EthDst),
        Fact::member(Field::FrameVlan, Set::Ours, true),
    ];
    let mut facts = vec![
        Fact::at_least(Field::FrameLen, 18),
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
    let sets = [Set::Ours, Set::Joined, Set::Broadcasts, Set::Martians, Set::Forwarded];
    sets.map(|set| Fact::member(field, set, is(set))).into()
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
