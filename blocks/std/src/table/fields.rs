//! A packet's fields, packed into a key.

use ethernet::ethertype;
use ipv4::protocol;
use weever_graph::Field;
use weever_packet::{Buffer, Flags, NOWHERE};
use weever_wire::arp::ArpHeader;
use weever_wire::ethernet::EthernetHeader;
use weever_wire::fields::Fields;
use weever_wire::icmpv4::IcmpHeader;
use weever_wire::ipv4::Ipv4Header;
use weever_wire::ipv6::{Chain, HEADER_LEN, Ipv6Header, next_header};
use weever_wire::vlan::{TAG_LEN, VlanHeader, is_tag};

use crate::kinds::{between, whole};
use weever_wire::{ethernet, ipv4};

/// Words of the widest key: every field there is, once.
pub(super) const MAX_WORDS: usize = 10;
/// Where a TCP header has its flags (RFC 9293 §3.1).
const TCP_FLAGS: usize = 13;

/// The packed fields of a packet, and which of them it has (bit i: the table's field i).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key<const W: usize> {
    pub(super) words: [u64; W],
    pub(super) present: u32,
}

/// How to get a key from a packet.
pub(super) trait Extract<const W: usize>: Send {
    fn key(&self, packet: &Buffer) -> Key<W>;
}

impl<const W: usize, F: Fn(&Buffer) -> Key<W> + Send> Extract<W> for F {
    #[inline(always)]
    fn key(&self, packet: &Buffer) -> Key<W> {
        self(packet)
    }
}

/// The fast path of the commonest table, sockets by local address and port: both lie at recorded
/// offsets.
#[inline(always)]
pub(super) fn local_socket(packet: &Buffer) -> Key<1> {
    let meta = packet.meta();
    let Some([_, _, a, b]) = packet.array_at::<4>(meta.l4) else {
        return Key { words: [0], present: 0 };
    };
    let port = u64::from(u16::from_be_bytes([*a, *b]));
    // A packet that is not IPv4 has no such address, and matches entries of any address only.
    let four = meta.ethertype != ethertype::IPV6;
    match packet.array_at(meta.l3).map(Ipv4Header::of).filter(|_| four) {
        Some(ip) => Key { words: [u64::from(ip.dst().to_bits()) << 16 | port], present: 0b11 },
        None => Key { words: [port], present: 0b10 },
    }
}

/// Where each field of a table lies in its key.
pub(super) struct Plan {
    fields: Vec<Field>,
}

impl Plan {
    pub(super) fn new(fields: &[Field]) -> Plan {
        Plan { fields: fields.to_vec() }
    }

    /// Words that a key needs.
    pub(super) fn words(&self) -> usize {
        let bits: u32 = self.fields.iter().map(|field| field.bits()).sum();
        bits.div_ceil(64) as usize
    }
}

impl<const W: usize> Extract<W> for Plan {
    fn key(&self, packet: &Buffer) -> Key<W> {
        let mut key = Key { words: [0; W], present: 0 };
        for (i, field) in self.fields.iter().enumerate() {
            let value = value_of(packet, *field);
            key.present |= u32::from(value.is_some()) << i;
            append(&mut key.words, field.bits(), value.unwrap_or(0));
        }
        key
    }
}

/// Packs values for one field each, in the order of the table: shifts in from the right, so the
/// first field ends up leftmost.
pub(super) fn append<const W: usize>(words: &mut [u64; W], bits: u32, value: u128) {
    for part in (0..bits.div_ceil(64)).rev() {
        let width = if part == bits.div_ceil(64) - 1 { bits - part * 64 } else { 64 };
        let chunk = (value >> (part * 64)) as u64;
        shift_in(words, width, chunk);
    }
}

fn shift_in<const W: usize>(words: &mut [u64; W], width: u32, value: u64) {
    for i in 0..W {
        let next = if i + 1 < W { words[i + 1] } else { value << (64 - width) };
        words[i] = match width {
            64 => next,
            _ => words[i] << width | next >> (64 - width),
        };
    }
}

/// The value of a field, by the offsets recorded in the metadata.
#[inline(always)]
pub(crate) fn value_of(packet: &Buffer, field: Field) -> Option<u128> {
    let meta = packet.meta();
    match field {
        Field::FrameLen => Some(packet.len() as u128),
        Field::EthType => Some(meta.ethertype.into()),
        Field::EthDst => Some(ethernet(packet)?.dst().to_bits().into()),
        Field::EthSrc => Some(ethernet(packet)?.src().to_bits().into()),
        Field::VlanId => vlan_id(packet),
        Field::ArpOp => Some(arp(packet)?.op().into()),
        Field::ArpTpa => Some(arp(packet)?.tpa().to_bits().into()),
        Field::Ip6Src => Some(ipv6(packet)?.src().to_bits()),
        Field::Ip6Dst => Some(ipv6(packet)?.dst().to_bits()),
        Field::Ip6Next => Some(ipv6(packet)?.next_header().into()),
        Field::IpVersion => ip_version(packet),
        Field::Ip4Src => Some(ipv4(packet)?.src().to_bits().into()),
        Field::Ip4Dst => Some(ipv4(packet)?.dst().to_bits().into()),
        Field::Ip4Proto => Some(ipv4(packet)?.protocol().into()),
        Field::Ip4Ttl => Some(ipv4(packet)?.ttl().into()),
        Field::Ip4Frag => Some(ipv4(packet)?.frag().into()),
        Field::IcmpType => Some(icmp(packet)?.kind().into()),
        Field::IcmpCode => Some(icmp(packet)?.code().into()),
        Field::L4Src => Some(ports(packet)?.0.into()),
        Field::L4Dst => Some(ports(packet)?.1.into()),
        Field::TcpFlags => tcp_flags(packet),
        _ => derived(packet, field),
    }
}

/// Where values of fields are read.
pub(crate) trait Source {
    /// A packet's value of a field.
    fn value(packet: &Buffer, field: Field) -> Option<u128>;
}

/// By the offsets recorded in the metadata.
pub(crate) struct Recorded;

impl Source for Recorded {
    #[inline(always)]
    fn value(packet: &Buffer, field: Field) -> Option<u128> {
        value_of(packet, field)
    }
}

/// In the frame as it is, wherever the packet in it begins and whatever is recorded of it.
pub(crate) struct Frame;

impl Source for Frame {
    #[inline(always)]
    fn value(packet: &Buffer, field: Field) -> Option<u128> {
        value_in(&Fields::of(whole(packet)), field)
    }
}

/// Evaluates an expression with a function from packets to their value of a field, which is chosen once: a
/// loop in the expression knows the field when it is compiled.
macro_rules! field_values {
    ($source:ty, $field:expr, |$value:ident| $body:expr) => {
        field_values!(@of $source, $field, $value, $body,
            EthDst EthSrc EthType VlanId ArpOp ArpTpa Ip4Src Ip4Dst Ip4Proto Ip4Ttl IpVersion Ip4Frag
            Ip6Src Ip6Dst Ip6Next IcmpType IcmpCode L4Src L4Dst TcpFlags FrameLen FrameGroup FrameVlan
            EthOuter VlanType VlanInner ArpSha ArpSpa L3Len Ip4Hlen Ip4Tos Ip4Len Ip4Alert Ip6Len IpUpper Ip6Hops Ip6Alert
            L4Len IgmpType IgmpCode IgmpGroup Icmp6Type Icmp6Code UdpLen)
    };
    (@of $source:ty, $field:expr, $value:ident, $body:expr, $($name:ident)*) => {
        match $field {
            $(weever_graph::Field::$name => {
                let $value = |packet: &weever_packet::Buffer| {
                    <$source as $crate::table::fields::Source>::value(
                        packet,
                        weever_graph::Field::$name,
                    )
                };
                $body
            })*
        }
    };
}
pub(crate) use field_values;

/// The value of a field that is known only once a packet was looked at.
#[inline(always)]
fn derived(packet: &Buffer, field: Field) -> Option<u128> {
    let meta = packet.meta();
    match field {
        Field::FrameGroup => Some(meta.flags.has(Flags::LINK_BROADCAST).into()),
        Field::FrameVlan => Some((meta.vlan & 0x0fff).into()),
        Field::EthOuter => Some(ethernet(packet)?.ethertype().into()),
        Field::VlanType => Some(tag(packet)?.ethertype().into()),
        Field::VlanInner => Some(second_tag(packet)?.vid().into()),
        Field::ArpSha => Some(arp(packet)?.sha().to_bits().into()),
        Field::ArpSpa => Some(arp(packet)?.spa().to_bits().into()),
        Field::L3Len => (meta.l3 != NOWHERE).then(|| packet.at(meta.l3).len() as u128),
        Field::Ip4Hlen => Some(ipv4(packet)?.header_len() as u128),
        Field::Ip4Tos => Some(ipv4(packet)?.tos().into()),
        Field::Ip4Len => Some(ipv4(packet)?.total_len() as u128),
        Field::Ip4Alert => ip4_alert(packet),
        Field::Ip6Len => Some((HEADER_LEN + ipv6(packet)?.payload_len()) as u128),
        Field::Ip6Hops => Some(ipv6(packet)?.hop_limit().into()),
        Field::Ip6Alert => Some(chain(packet)?.router_alert.into()),
        Field::IpUpper => upper(packet).map(u128::from),
        Field::L4Len => (meta.l4 != NOWHERE).then(|| message(packet).len() as u128),
        Field::IgmpType => Some((*igmp(packet)?.first()?).into()),
        Field::IgmpCode => Some((*igmp(packet)?.get(1)?).into()),
        Field::IgmpGroup => {
            igmp(packet)?.get(4..)?.first_chunk().map(|group| u32::from_be_bytes(*group).into())
        }
        Field::Icmp6Type => Some((*icmp6(packet)?.first()?).into()),
        Field::Icmp6Code => Some((*icmp6(packet)?.get(1)?).into()),
        Field::UdpLen => udp_len(packet),
        _ => None,
    }
}

#[inline(always)]
pub(crate) fn ethernet(packet: &Buffer) -> Option<EthernetHeader<'_>> {
    EthernetHeader::first(packet.at(packet.meta().l2))
}

fn tag(packet: &Buffer) -> Option<VlanHeader<'_>> {
    let frame = packet.at(packet.meta().l2);
    EthernetHeader::first(frame).filter(|h| is_tag(h.ethertype()))?;
    VlanHeader::at(frame, ethernet::HEADER_LEN)
}

fn second_tag(packet: &Buffer) -> Option<VlanHeader<'_>> {
    tag(packet).filter(|tag| is_tag(tag.ethertype()))?;
    VlanHeader::at(packet.at(packet.meta().l2), ethernet::HEADER_LEN + TAG_LEN)
}

fn vlan_id(packet: &Buffer) -> Option<u128> {
    Some(tag(packet)?.vid().into())
}

#[inline(always)]
pub(crate) fn arp(packet: &Buffer) -> Option<ArpHeader<'_>> {
    let found = ArpHeader::first(packet.at(packet.meta().l3));
    found.filter(|h| packet.meta().ethertype == ethertype::ARP && h.is_ethernet_ipv4())
}

#[inline(always)]
pub(crate) fn ipv4(packet: &Buffer) -> Option<Ipv4Header<'_>> {
    let found = Ipv4Header::first(packet.at(packet.meta().l3));
    found.filter(|_| packet.meta().ethertype == ethertype::IPV4)
}

#[inline(always)]
pub(crate) fn ipv6(packet: &Buffer) -> Option<Ipv6Header<'_>> {
    let found = Ipv6Header::first(packet.at(packet.meta().l3));
    found.filter(|_| packet.meta().ethertype == ethertype::IPV6)
}

fn ip_version(packet: &Buffer) -> Option<u128> {
    let is_ip = matches!(packet.meta().ethertype, ethertype::IPV4 | ethertype::IPV6);
    let first = packet.at(packet.meta().l3).first().filter(|_| is_ip)?;
    Some((first >> 4).into())
}

/// The transport header of a protocol in `of`, if it is not cut off by fragmentation.
fn transport<'a>(packet: &'a Buffer, of: &[u8]) -> Option<&'a [u8]> {
    let four = ipv4(packet).filter(|ip| !ip.is_later_fragment()).map(Ipv4Header::protocol);
    let found = four.or_else(|| ipv6(packet).map(Ipv6Header::next_header))?;
    of.contains(&found).then(|| packet.at(packet.meta().l4))
}

fn ports(packet: &Buffer) -> Option<(u16, u16)> {
    let header = transport(packet, &[protocol::UDP, protocol::TCP, protocol::SCTP])?;
    let [a, b, c, d] = *header.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

fn icmp(packet: &Buffer) -> Option<IcmpHeader<'_>> {
    IcmpHeader::first(transport(packet, &[protocol::ICMP])?)
}

/// An IGMP message, unless it is not the first fragment of one.
fn igmp(packet: &Buffer) -> Option<&[u8]> {
    let header = ipv4(packet)?;
    let is = header.protocol() == protocol::IGMP && !header.is_later_fragment();
    is.then(|| message(packet))
}

fn ip4_alert(packet: &Buffer) -> Option<u128> {
    let header_len = ipv4(packet)?.header_len();
    let options = packet.at(packet.meta().l3).get(ipv4::HEADER_LEN..header_len)?;
    Some(ipv4::asks_routers(options).into())
}

fn tcp_flags(packet: &Buffer) -> Option<u128> {
    let header = transport(packet, &[protocol::TCP])?;
    header.get(TCP_FLAGS).map(|flags| (*flags).into())
}

/// The payload of an IP packet, as far as it is there.
fn message(packet: &Buffer) -> &[u8] {
    between(packet, packet.meta().l4, packet.meta().end)
}

/// The protocol that an IP packet carries, if its headers can be followed.
fn upper(packet: &Buffer) -> Option<u8> {
    if let Some(header) = ipv4(packet) {
        return Some(header.protocol());
    }
    chain(packet).map(|chain| chain.protocol)
}

/// The extension headers of an IPv6 packet, if they can be followed.
fn chain(packet: &Buffer) -> Option<Chain> {
    ipv6(packet)?;
    Chain::walk(between(packet, packet.meta().l3, packet.meta().end)).ok()
}

fn icmp6(packet: &Buffer) -> Option<&[u8]> {
    let is_six = packet.meta().ethertype == ethertype::IPV6;
    (is_six && upper(packet) == Some(next_header::ICMPV6)).then(|| message(packet))
}

fn udp_len(packet: &Buffer) -> Option<u128> {
    let udp = upper(packet).filter(|upper| *upper == protocol::UDP).map(|_| message(packet))?;
    let later = ipv4(packet).is_some_and(Ipv4Header::is_later_fragment);
    let [a, b] = *udp.get(4..)?.first_chunk::<2>().filter(|_| !later)?;
    Some(u16::from_be_bytes([a, b]).into())
}

/// The value of a field in a frame.
#[inline(always)]
pub(crate) fn value_in(frame: &Fields<'_>, field: Field) -> Option<u128> {
    match field {
        Field::EthDst => frame.eth_dst().map(|mac| mac.to_bits().into()),
        Field::EthSrc => frame.eth_src().map(|mac| mac.to_bits().into()),
        Field::EthType => frame.ethertype().map(u128::from),
        Field::VlanId => frame.vlan().map(u128::from),
        Field::ArpOp => frame.arp_op().map(u128::from),
        Field::ArpTpa => frame.arp_tpa().map(|ip| ip.to_bits().into()),
        Field::Ip4Src => frame.ip4_src().map(|ip| ip.to_bits().into()),
        Field::Ip4Dst => frame.ip4_dst().map(|ip| ip.to_bits().into()),
        Field::Ip4Proto => frame.ip4_proto().map(u128::from),
        Field::Ip4Ttl => frame.ip4_ttl().map(u128::from),
        Field::IpVersion => frame.ip_version().map(u128::from),
        Field::Ip4Frag => frame.ip4_frag().map(u128::from),
        Field::Ip6Src => frame.ip6_src().map(|ip| ip.to_bits()),
        Field::Ip6Dst => frame.ip6_dst().map(|ip| ip.to_bits()),
        Field::Ip6Next => frame.ip6_next().map(u128::from),
        Field::IcmpType => frame.icmp_type().map(u128::from),
        Field::IcmpCode => frame.icmp_code().map(u128::from),
        Field::L4Src => frame.l4_src().map(u128::from),
        Field::L4Dst => frame.l4_dst().map(u128::from),
        Field::TcpFlags => frame.tcp_flags().map(u128::from),
        Field::FrameLen => Some(frame.frame_len() as u128),
        Field::FrameGroup => frame.eth_dst().map(|mac| mac.is_multicast().into()),
        Field::FrameVlan => frame.eth_dst().map(|_| frame.vlan().unwrap_or(0).into()),
        Field::EthOuter => frame.outer_type().map(u128::from),
        Field::VlanType => frame.tag_type().map(u128::from),
        Field::VlanInner => frame.inner_vlan().map(u128::from),
        Field::ArpSha => frame.arp_sha().map(|mac| mac.to_bits().into()),
        Field::ArpSpa => frame.arp_spa().map(|ip| ip.to_bits().into()),
        Field::L3Len => frame.l3().map(|l3| (frame.frame_len() - l3) as u128),
        Field::Ip4Hlen => frame.ip4_header_len().map(|len| len as u128),
        Field::Ip4Tos => frame.ip4_tos().map(u128::from),
        Field::Ip4Len => frame.ip4_total_len().map(|len| len as u128),
        Field::Ip4Alert => frame.ip4_alert().map(u128::from),
        Field::Ip6Len => frame.ip6_total_len().map(|len| len as u128),
        Field::Ip6Hops => frame.ip6_hops().map(u128::from),
        Field::Ip6Alert => frame.ip6_alert().map(u128::from),
        Field::IpUpper => frame.upper().map(u128::from),
        Field::L4Len => frame.payload_len().map(|len| len as u128),
        Field::IgmpType => frame.igmp_type().map(u128::from),
        Field::IgmpCode => frame.igmp_code().map(u128::from),
        Field::IgmpGroup => frame.igmp_group().map(|ip| ip.to_bits().into()),
        Field::Icmp6Type => frame.icmp6_type().map(u128::from),
        Field::Icmp6Code => frame.icmp6_code().map(u128::from),
        Field::UdpLen => frame.udp_len().map(u128::from),
    }
}
