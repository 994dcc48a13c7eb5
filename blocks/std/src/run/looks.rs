//! Looks at one header of a packet, each of which decides many tests at once: the code of [tiles](super::tiles).
//!
//! Looks at headers read what those before them have [found](Found), and add to it; looks at what transport protocols
//! carry read the metadata. What was found is recorded once, behind the last header that was looked at. A packet with
//! anything unusual has no outcome and goes from node to node; of its metadata only that was recorded, if any, which
//! these nodes record too.

use weever_block::Buffer;
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
use weever_wire::vlan::{TAG_LEN, VlanHeader};

use crate::by_predicate::{is_forwarded6, is_ours6};
use crate::{ethernet, icmp, icmp6, ipv4 as blocks4, tcp, udp};

/// No outcome.
pub(super) const UNUSUAL: usize = usize::MAX;

/// The test of a tile: the number of its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Frames for our station, without a tag or with one of 802.1Q: IPv4 or IPv6.
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

/// The metadata that looks find.
#[derive(Clone, Copy)]
struct Found {
    l2: u16,
    l3: u16,
    l4: u16,
    end: u16,
    ethertype: u16,
    vlan: u16,
    iface: u16,
}

/// A packet whose headers are looked at, and what was found so far.
pub(super) struct Seen<'p> {
    packet: &'p Buffer,
    found: Found,
    /// Its IP header, once that was looked at.
    four: Option<&'p [u8; ipv4::HEADER_LEN]>,
    six: Option<&'p [u8; ipv6::HEADER_LEN]>,
}

/// What looks at headers have found, to be recorded.
pub(super) struct Findings(Found);

impl Findings {
    /// Records it in the packet's metadata.
    #[inline(always)]
    pub(super) fn record(self, packet: &mut Buffer) {
        let Found { l2, l3, l4, end, ethertype, vlan, iface } = self.0;
        let meta = packet.meta_mut();
        (meta.l2, meta.l3, meta.l4, meta.end) = (l2, l3, l4, end);
        (meta.ethertype, meta.vlan, meta.iface) = (ethertype, vlan, iface);
    }
}

impl<'p> Seen<'p> {
    /// A packet of which that is known which its metadata say.
    #[inline(always)]
    pub(super) fn of(packet: &'p Buffer) -> Seen<'p> {
        let meta = packet.meta();
        let found = Found {
            l2: meta.l2,
            l3: meta.l3,
            l4: meta.l4,
            end: meta.end,
            ethertype: meta.ethertype,
            vlan: meta.vlan,
            iface: meta.iface,
        };
        Seen { packet, found, four: None, six: None }
    }

    /// What was found.
    #[inline(always)]
    pub(super) fn findings(&self) -> Findings {
        Findings(self.found)
    }

    /// The outcome of a look at a header, or [`UNUSUAL`]. Without a network no packet is for us.
    #[inline(always)]
    pub(super) fn look(&mut self, look: Look, net: Option<&NetState>) -> usize {
        let found = match (look, net) {
            (Look::Link, Some(net)) => self.link(net),
            (Look::Ends4, Some(net)) => self.ends4(net),
            (Look::Ends6, Some(net)) => self.ends6(net),
            (Look::Ip4, _) => self.ip4(),
            (Look::Whole4, _) => self.whole4(),
            (Look::Ip6, _) => self.ip6(),
            (Look::Upper6, _) => self.upper6(),
            _ => None,
        };
        found.unwrap_or(UNUSUAL)
    }

    #[inline(always)]
    fn link(&mut self, net: &NetState) -> Option<usize> {
        let frame = self.packet.data();
        let ether = EthernetHeader::first(frame)?;
        let (mut next, mut vlan, mut len) = (ether.ethertype(), 0, HEADER_LEN);
        if frame.len() < HEADER_LEN + TAG_LEN {
            return None;
        }
        if next == ethertype::VLAN {
            let tag = VlanHeader::at(frame, HEADER_LEN)?;
            (next, vlan, len) = (tag.ethertype(), ethernet::control(tag), HEADER_LEN + TAG_LEN);
        }
        let outcome = match next {
            ethertype::IPV4 => 0,
            ethertype::IPV6 => 1,
            _ => return None,
        };
        let iface = net.member(self.packet.meta().link, vlan & 0x0fff)?;
        let ours = ether.dst() == net.interface(iface)?.mac && !ether.dst().is_multicast();
        if !ours || ether.src().is_multicast() {
            return None;
        }
        let l2 = self.packet.head();
        let found = &mut self.found;
        (found.l2, found.l3, found.ethertype) = (l2, l2 + len as u16, next);
        (found.vlan, found.iface) = (vlan, iface.0);
        (self.four, self.six) = (None, None);
        Some(outcome)
    }

    /// The IPv4 header of an IPv4 packet.
    #[inline(always)]
    fn header4(&mut self) -> Option<&'p [u8; ipv4::HEADER_LEN]> {
        if self.four.is_none() && self.found.ethertype == ethertype::IPV4 {
            self.four = self.packet.array_at(self.found.l3);
        }
        self.four
    }

    #[inline(always)]
    fn ip4(&mut self) -> Option<usize> {
        let (bytes, l3) = (self.header4()?, self.found.l3);
        let ip = Ipv4Header::of(bytes);
        // Version 4, and no options.
        let plain = bytes[0] == 0x45 && ipv4::total_len_ok(ip, self.packet.at(l3).len());
        if !plain || !checksum::is_valid(checksum::sum_array(bytes)) {
            return None;
        }
        (self.found.l4, self.found.end) =
            (l3 + ipv4::HEADER_LEN as u16, l3 + ip.total_len() as u16);
        Some(0)
    }

    #[inline(always)]
    fn ends4(&mut self, net: &NetState) -> Option<usize> {
        let ip = Ipv4Header::of(self.header4()?);
        let (iface, flags) = (IfaceId(self.found.iface), self.packet.meta().flags);
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
    fn whole4(&mut self) -> Option<usize> {
        let ip = Ipv4Header::of(self.header4()?);
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
    fn header6(&mut self) -> Option<&'p [u8; ipv6::HEADER_LEN]> {
        if self.six.is_none() && self.found.ethertype == ethertype::IPV6 {
            self.six = self.packet.array_at(self.found.l3);
        }
        self.six
    }

    #[inline(always)]
    fn ip6(&mut self) -> Option<usize> {
        let (bytes, l3) = (self.header6()?, self.found.l3);
        let ip = Ipv6Header::of(bytes);
        if bytes[0] >> 4 != 6 || !ipv6::payload_len_ok(ip, self.packet.at(l3).len()) {
            return None;
        }
        self.found.end = l3 + (ipv6::HEADER_LEN + ip.payload_len()) as u16;
        Some(0)
    }

    #[inline(always)]
    fn ends6(&mut self, net: &NetState) -> Option<usize> {
        let ip = Ipv6Header::of(self.header6()?);
        let (src, iface) = (ip.src(), IfaceId(self.found.iface));
        let odd = src.is_multicast() || src.is_loopback() || src.is_unspecified();
        let mapped = src.to_bits() >> 32 == 0xffff;
        let broadcast = self.packet.meta().flags.has(Flags::LINK_BROADCAST);
        if odd || mapped || broadcast || net.is_ours6(iface, src) {
            return None;
        }
        match () {
            () if is_ours6(net, iface, ip.dst()) => Some(0),
            () if is_forwarded6(net, iface, ip.dst()) => Some(1),
            () => None,
        }
    }

    #[inline(always)]
    fn upper6(&mut self) -> Option<usize> {
        let outcome = match Ipv6Header::of(self.header6()?).next_header() {
            protocol::UDP => 0,
            next_header::ICMPV6 => 1,
            protocol::TCP => 2,
            _ => return None,
        };
        let l4 = self.found.l3 + ipv6::HEADER_LEN as u16;
        // What is in front of it must be within the packet's own length.
        if l4 > self.found.end {
            return None;
        }
        self.found.l4 = l4;
        Some(outcome)
    }
}

impl Look {
    /// Whether it looks at a header in front of what transport protocols carry.
    #[inline(always)]
    pub(super) fn is_at_header(self) -> bool {
        !matches!(self, Look::Udp | Look::Icmp | Look::Icmp6 | Look::Tcp)
    }

    /// The outcome of a look at what a packet carries, or [`UNUSUAL`]. Of a datagram with an outcome, `checksum`
    /// becomes the kind.
    #[inline(always)]
    pub(super) fn at(self, packet: &mut Buffer, checksum: &mut Checksum) -> usize {
        let found = match self {
            Look::Udp => udp(packet, checksum),
            Look::Icmp => icmp(packet),
            Look::Icmp6 => icmp6(packet),
            Look::Tcp => tcp(packet),
            _ => None,
        };
        found.unwrap_or(UNUSUAL)
    }
}

/// Whether it is a whole packet of this transport protocol, of either family.
#[inline(always)]
fn carries(packet: &Buffer, wanted: u8) -> bool {
    let meta = packet.meta();
    match meta.ethertype {
        ethertype::IPV4 => packet
            .array_at(meta.l3)
            .map(Ipv4Header::of)
            .is_some_and(|ip| ip.protocol() == wanted && ipv4::is_whole(ip)),
        ethertype::IPV6 => packet.array_at(meta.l3).map(Ipv6Header::of).is_some_and(|ip| {
            ip.next_header() == wanted && meta.l4 == meta.l3 + ipv6::HEADER_LEN as u16
        }),
        _ => false,
    }
}

#[inline(always)]
fn udp(packet: &mut Buffer, checksum: &mut Checksum) -> Option<usize> {
    if !carries(packet, protocol::UDP) || !udp::valid_length(packet) {
        return None;
    }
    *checksum = udp::verify(packet);
    (*checksum != Checksum::Wrong).then_some(0)
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
