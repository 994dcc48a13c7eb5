//! The fields of a frame, each read when it is asked for.
//!
//! ```text
//!  frame ──► link: where tags end, and the type ──► body: where a transport header begins, and its protocol
//! ```
//!
//! A filter mostly asks for one or two fields of a packet, where [`summarize`](super::summarize) reads them all.
//! The two steps are a few comparisons each; a field is one read behind the last step that it needs. Where the compiler
//! knows the field, it leaves out the steps that this one does not need.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::{MAX_VLAN_TAGS, address, byte, word};
use crate::arp::ArpHeader;
use crate::ethernet::{self, EthernetHeader, ethertype};
use crate::ipv4::{self, Ipv4Header, protocol};
use crate::ipv6::{self, Ipv6Header, next_header};
use crate::vlan::{self, VlanHeader};
use crate::{MacAddr, tcp};

/// A frame whose fields are read one by one. Each is what [`summarize`](super::summarize) finds under the same name.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    frame: &'a [u8],
    link: Option<Link>,
    body: Option<Body>,
}

/// What the link header and its tags announce.
#[derive(Clone, Copy, Debug)]
struct Link {
    l3: usize,
    ethertype: u16,
}

/// What an IP header without its options or extension headers announces: the offsets count from the frame's start.
#[derive(Clone, Copy, Debug)]
struct Body {
    l4: usize,
    /// Where the IP packet ends, within the frame.
    end: usize,
    protocol: u8,
    /// A fragment of IPv4 that is not the first: it has no transport header.
    later: bool,
}

impl<'a> Fields<'a> {
    /// The fields of `frame`, none of which has been read.
    #[inline(always)]
    pub fn of(frame: &'a [u8]) -> Fields<'a> {
        let at_link = Fields { frame, link: find_link(frame), body: None };
        Fields { body: at_link.find_body(), ..at_link }
    }

    /// Where the header of this type begins.
    #[inline(always)]
    fn l3_of(&self, ethertype: u16) -> Option<usize> {
        self.link.filter(|link| link.ethertype == ethertype).map(|link| link.l3)
    }

    #[inline(always)]
    fn find_body(&self) -> Option<Body> {
        match self.link?.ethertype {
            ethertype::IPV4 => self.body4(),
            ethertype::IPV6 => self.body6(),
            _ => None,
        }
    }

    #[inline(always)]
    fn body4(&self) -> Option<Body> {
        let (l3, header) = (self.link?.l3, self.ipv4()?);
        let (header_len, total_len) = (header.header_len(), header.total_len());
        let l4 = l3 + header_len;
        let lying = header_len < ipv4::HEADER_LEN || total_len < header_len;
        if lying || l4 > self.frame.len() {
            return None;
        }
        let (protocol, later) = (header.protocol(), header.is_later_fragment());
        Some(Body { l4, end: self.frame.len().min(l3 + total_len), protocol, later })
    }

    #[inline(always)]
    fn body6(&self) -> Option<Body> {
        let (l3, header) = (self.link?.l3, self.ipv6()?);
        let l4 = l3 + ipv6::HEADER_LEN;
        let end = self.frame.len().min(l4 + header.payload_len());
        Some(Body { l4, end, protocol: header.next_header(), later: false })
    }

    /// The transport header of a protocol in `of` that directly follows the IP header, and what is behind it.
    #[inline(always)]
    fn transport(&self, of: &[u8]) -> Option<&'a [u8]> {
        let body = self.body.filter(|body| !body.later && of.contains(&body.protocol))?;
        self.frame.get(body.l4..body.end)
    }

    #[inline(always)]
    fn ethernet(&self) -> Option<EthernetHeader<'a>> {
        EthernetHeader::first(self.frame)
    }

    #[inline]
    fn tag(&self) -> Option<VlanHeader<'a>> {
        self.ethernet().filter(|header| vlan::is_tag(header.ethertype()))?;
        VlanHeader::at(self.frame, ethernet::HEADER_LEN)
    }

    #[inline]
    fn second_tag(&self) -> Option<VlanHeader<'a>> {
        self.tag().filter(|tag| vlan::is_tag(tag.ethertype()))?;
        VlanHeader::at(self.frame, ethernet::HEADER_LEN + vlan::TAG_LEN)
    }

    #[inline]
    fn arp(&self) -> Option<ArpHeader<'a>> {
        let header = ArpHeader::at(self.frame, self.l3_of(ethertype::ARP)?)?;
        header.is_ethernet_ipv4().then_some(header)
    }

    /// The IPv4 header, whatever version it claims.
    #[inline(always)]
    fn any_ipv4(&self) -> Option<Ipv4Header<'a>> {
        Ipv4Header::at(self.frame, self.l3_of(ethertype::IPV4)?)
    }

    #[inline(always)]
    fn ipv4(&self) -> Option<Ipv4Header<'a>> {
        self.any_ipv4().filter(|header| header.version() == 4)
    }

    /// The IPv6 header, whatever version it claims.
    #[inline(always)]
    fn any_ipv6(&self) -> Option<Ipv6Header<'a>> {
        Ipv6Header::at(self.frame, self.l3_of(ethertype::IPV6)?)
    }

    #[inline(always)]
    fn ipv6(&self) -> Option<Ipv6Header<'a>> {
        self.any_ipv6().filter(|header| header.version() == 6)
    }

    /// The chain of extension headers, and the payload behind it.
    #[inline]
    fn chain(&self) -> Option<(ipv6::Chain, &'a [u8])> {
        let packet = &self.frame[self.l3_of(ethertype::IPV6)?..];
        let len = ipv6::HEADER_LEN + self.any_ipv6()?.payload_len();
        let packet = &packet[..packet.len().min(len)];
        let chain = ipv6::Chain::walk(packet).ok()?;
        Some((chain, packet.get(chain.offset..).unwrap_or_default()))
    }

    /// The payload of an IPv6 packet that carries this protocol.
    #[inline]
    fn behind_chain(&self, protocol: u8) -> Option<&'a [u8]> {
        self.chain().filter(|(chain, _)| chain.protocol == protocol).map(|(_, payload)| payload)
    }
}

#[inline(always)]
fn find_link(frame: &[u8]) -> Option<Link> {
    let (mut l3, mut next) = (ethernet::HEADER_LEN, EthernetHeader::first(frame)?.ethertype());
    for _ in 0..MAX_VLAN_TAGS {
        if !vlan::is_tag(next) {
            break;
        }
        next = VlanHeader::at(frame, l3)?.ethertype();
        l3 += vlan::TAG_LEN;
    }
    Some(Link { l3, ethertype: next })
}

/// The protocols with ports at the front of their headers.
const WITH_PORTS: [u8; 3] = [protocol::UDP, protocol::TCP, protocol::SCTP];

#[allow(missing_docs, reason = "each is documented where `Parsed` has it")]
impl Fields<'_> {
    #[inline]
    pub fn frame_len(&self) -> usize {
        self.frame.len()
    }

    #[inline]
    pub fn l3(&self) -> Option<usize> {
        Some(self.link?.l3)
    }

    #[inline]
    pub fn l4(&self) -> Option<usize> {
        self.body.filter(|body| !body.later).map(|body| body.l4)
    }

    #[inline]
    pub fn eth_dst(&self) -> Option<MacAddr> {
        Some(self.ethernet()?.dst())
    }

    #[inline]
    pub fn eth_src(&self) -> Option<MacAddr> {
        Some(self.ethernet()?.src())
    }

    #[inline]
    pub fn outer_type(&self) -> Option<u16> {
        Some(self.ethernet()?.ethertype())
    }

    #[inline]
    pub fn ethertype(&self) -> Option<u16> {
        Some(self.link?.ethertype)
    }

    #[inline]
    pub fn vlan(&self) -> Option<u16> {
        Some(self.tag()?.vid())
    }

    #[inline]
    pub fn tag_type(&self) -> Option<u16> {
        Some(self.tag()?.ethertype())
    }

    #[inline]
    pub fn inner_vlan(&self) -> Option<u16> {
        Some(self.second_tag()?.vid())
    }

    #[inline]
    pub fn arp_op(&self) -> Option<u16> {
        Some(self.arp()?.op())
    }

    #[inline]
    pub fn arp_tpa(&self) -> Option<Ipv4Addr> {
        Some(self.arp()?.tpa())
    }

    #[inline]
    pub fn arp_sha(&self) -> Option<MacAddr> {
        Some(self.arp()?.sha())
    }

    #[inline]
    pub fn arp_spa(&self) -> Option<Ipv4Addr> {
        Some(self.arp()?.spa())
    }

    #[inline]
    pub fn ip_version(&self) -> Option<u8> {
        let link = self.link?;
        let is_ip = matches!(link.ethertype, ethertype::IPV4 | ethertype::IPV6);
        byte(self.frame, link.l3).filter(|_| is_ip).map(|byte| byte >> 4)
    }

    #[inline]
    pub fn ip4_src(&self) -> Option<Ipv4Addr> {
        Some(self.ipv4()?.src())
    }

    #[inline]
    pub fn ip4_dst(&self) -> Option<Ipv4Addr> {
        Some(self.ipv4()?.dst())
    }

    #[inline]
    pub fn ip4_proto(&self) -> Option<u8> {
        Some(self.ipv4()?.protocol())
    }

    #[inline]
    pub fn ip4_ttl(&self) -> Option<u8> {
        Some(self.ipv4()?.ttl())
    }

    #[inline]
    pub fn ip4_frag(&self) -> Option<u16> {
        Some(self.ipv4()?.frag())
    }

    #[inline]
    pub fn ip4_header_len(&self) -> Option<usize> {
        Some(self.any_ipv4()?.header_len())
    }

    #[inline]
    pub fn ip4_tos(&self) -> Option<u8> {
        Some(self.any_ipv4()?.tos())
    }

    #[inline]
    pub fn ip4_total_len(&self) -> Option<usize> {
        Some(self.any_ipv4()?.total_len())
    }

    #[inline]
    pub fn ip4_alert(&self) -> Option<bool> {
        let (l3, body) = (self.l3_of(ethertype::IPV4)?, self.body?);
        Some(ipv4::asks_routers(self.frame.get(l3 + ipv4::HEADER_LEN..body.l4)?))
    }

    #[inline]
    pub fn ip6_src(&self) -> Option<Ipv6Addr> {
        Some(self.ipv6()?.src())
    }

    #[inline]
    pub fn ip6_dst(&self) -> Option<Ipv6Addr> {
        Some(self.ipv6()?.dst())
    }

    #[inline]
    pub fn ip6_next(&self) -> Option<u8> {
        Some(self.ipv6()?.next_header())
    }

    #[inline]
    pub fn ip6_total_len(&self) -> Option<usize> {
        Some(ipv6::HEADER_LEN + self.any_ipv6()?.payload_len())
    }

    #[inline]
    pub fn ip6_hops(&self) -> Option<u8> {
        Some(self.any_ipv6()?.hop_limit())
    }

    #[inline]
    pub fn ip6_alert(&self) -> Option<bool> {
        Some(self.chain()?.0.router_alert)
    }

    #[inline]
    pub fn upper(&self) -> Option<u8> {
        let four = self.any_ipv4().map(Ipv4Header::protocol);
        four.or_else(|| Some(self.chain()?.0.protocol))
    }

    #[inline]
    pub fn payload_len(&self) -> Option<usize> {
        match self.ethertype()? {
            ethertype::IPV4 => self.body.map(|body| body.end - body.l4),
            _ => Some(self.chain()?.1.len()),
        }
    }

    #[inline]
    pub fn icmp_type(&self) -> Option<u8> {
        self.l3_of(ethertype::IPV4)?;
        byte(self.transport(&[protocol::ICMP])?, 0)
    }

    #[inline]
    pub fn icmp_code(&self) -> Option<u8> {
        self.l3_of(ethertype::IPV4)?;
        byte(self.transport(&[protocol::ICMP])?, 1)
    }

    #[inline]
    fn igmp(&self) -> Option<&[u8]> {
        self.l3_of(ethertype::IPV4)?;
        self.transport(&[protocol::IGMP])
    }

    #[inline]
    pub fn igmp_type(&self) -> Option<u8> {
        byte(self.igmp()?, 0)
    }

    #[inline]
    pub fn igmp_code(&self) -> Option<u8> {
        byte(self.igmp()?, 1)
    }

    #[inline]
    pub fn igmp_group(&self) -> Option<Ipv4Addr> {
        address(self.igmp()?, 4)
    }

    #[inline]
    pub fn icmp6_type(&self) -> Option<u8> {
        byte(self.behind_chain(next_header::ICMPV6)?, 0)
    }

    #[inline]
    pub fn icmp6_code(&self) -> Option<u8> {
        byte(self.behind_chain(next_header::ICMPV6)?, 1)
    }

    #[inline]
    pub fn l4_src(&self) -> Option<u16> {
        word(self.transport(&WITH_PORTS)?, 0)
    }

    #[inline]
    pub fn l4_dst(&self) -> Option<u16> {
        word(self.transport(&WITH_PORTS)?, 2)
    }

    #[inline]
    pub fn tcp_flags(&self) -> Option<u8> {
        byte(self.transport(&[protocol::TCP])?, tcp::FLAGS_AT)
    }

    #[inline]
    pub fn udp_len(&self) -> Option<u16> {
        let udp = match self.ethertype()? {
            ethertype::IPV4 => self.transport(&[protocol::UDP]),
            _ => self.behind_chain(protocol::UDP),
        };
        word(udp?, 4)
    }
}
