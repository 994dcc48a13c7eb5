//! Redirects: when a router sends one (RFC 1812 §5.2.7.2, RFC 4861 §8.2), and how it is written.
//!
//! The condition is the same in both families: the packet leaves by the interface that it came by, and its
//! sender and the next hop are neighbours there. The next hop itself gets no redirect: it sent the packet.

use core::net::{Ipv4Addr, Ipv6Addr};

use weever_wire::icmpv4::{self, kind};
use weever_wire::ipv4::Ipv4Header;
use weever_wire::{checksum, icmpv6};

use crate::icmp::quote_len;
use crate::iface::{IfaceId, Interface};
use crate::ipv6::addr::is_link_local;
use crate::route::{Hop, Kind};
use crate::state::NetState;

/// RFC 1812 §5.2.7.2: routers send redirects for hosts only, not for networks.
const FOR_HOST: u8 = 1;
/// Bytes of the longest ICMPv6 message within 1,280 bytes.
const LONGEST6: usize = 1240;
/// Bytes in front of the packet quoted by an ICMPv6 redirect: its own header, and the option's.
const BEFORE_QUOTE6: usize = 48;
/// The option's type (RFC 4861 §4.6.3).
const REDIRECTED_HEADER: u8 = 4;

/// The better first hop that a redirect names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice<A> {
    /// Our address that it knows as its router's.
    pub from: A,
    /// The neighbour to send to instead.
    pub to: A,
}

fn turns_back<'a, A>(state: &'a NetState, iface: IfaceId, hop: &Hop<A>) -> Option<&'a Interface> {
    let own = state.interface(iface).filter(|own| own.forwarding && !own.borrowed)?;
    let back = hop.iface == iface && hop.kind == Kind::Unicast && state.settings().redirects;
    back.then_some(own)
}

/// The redirect owed to the sender of an IPv4 datagram that `iface` received and that leaves by
/// `hop`. RFC 1812 §5.2.7.2: "the packet is being forwarded out the same physical interface that it
/// was received from", and "the IP source address in the packet is on the same Logical IP
/// (sub)network as the next-hop IP address". Source-routed datagrams are not forwarded at all.
pub fn advice4(
    state: &NetState,
    iface: IfaceId,
    hop: &Hop<Ipv4Addr>,
    header: Ipv4Header<'_>,
) -> Option<Advice<Ipv4Addr>> {
    let own = turns_back(state, iface, hop)?;
    let (src, to) = (header.src(), hop.neighbour(header.dst()));
    let shared = own.v4.iter().find(|cidr| cidr.contains(src) && cidr.contains(to) && src != to)?;
    Some(Advice { from: shared.addr(), to })
}

/// The same of an IPv6 packet between these addresses. RFC 4861 §8.2 has routers named by their
/// link-local addresses, so one of which only another is known is not told of.
pub fn advice6(
    state: &NetState,
    iface: IfaceId,
    hop: &Hop<Ipv6Addr>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
) -> Option<Advice<Ipv6Addr>> {
    let own = turns_back(state, iface, hop)?;
    let to = hop.neighbour(dst);
    let nameable = (to == dst || is_link_local(to)) && to != src;
    let near = |hop: &Hop<Ipv6Addr>| {
        hop.kind == Kind::Unicast && hop.iface == iface && hop.gateway.is_unspecified()
    };
    let from = own.v6.link_local().filter(|_| nameable && !dst.is_multicast())?;
    state.route6(src).is_some_and(near).then_some(Advice { from, to })
}

/// Writes the ICMP message about `datagram`, as it was received, to the front of `out`; its length.
/// `None` if there is no room.
pub fn emit4(advice: Advice<Ipv4Addr>, datagram: &[u8], out: &mut [u8]) -> Option<usize> {
    let quote = &datagram[..quote_len(datagram)];
    let message = out.get_mut(..icmpv4::HEADER_LEN + quote.len())?;
    let (header, rest) = message.split_at_mut(icmpv4::HEADER_LEN);
    header[..4].copy_from_slice(&[kind::REDIRECT, FOR_HOST, 0, 0]);
    header[4..].copy_from_slice(&advice.to.octets());
    rest.copy_from_slice(quote);
    let check = checksum::finish(checksum::sum(message));
    message[2..4].copy_from_slice(&check.to_be_bytes());
    Some(message.len())
}

/// Writes the ICMPv6 message about a packet between these addresses to the front of `out`, with as
/// much of the packet as 1,280 bytes hold; its length. `None` if there is no room.
pub fn emit6(
    advice: Advice<Ipv6Addr>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    packet: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let quote = &packet[..packet.len().min(LONGEST6 - BEFORE_QUOTE6)];
    // Options are counted in units of eight bytes.
    let padded = quote.len().next_multiple_of(8);
    let message = out.get_mut(..BEFORE_QUOTE6 + padded)?;
    message.fill(0);
    message[0] = icmpv6::kind::REDIRECT;
    message[8..24].copy_from_slice(&advice.to.octets());
    message[24..40].copy_from_slice(&dst.octets());
    message[40..42].copy_from_slice(&[REDIRECTED_HEADER, (1 + padded / 8) as u8]);
    message[BEFORE_QUOTE6..][..quote.len()].copy_from_slice(quote);
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&advice.from.octets());
    addresses[16..].copy_from_slice(&src.octets());
    icmpv6::fill_checksum(message, &addresses);
    Some(message.len())
}
