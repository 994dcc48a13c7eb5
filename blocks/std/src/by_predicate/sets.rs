//! The sets of the network's that predicates name, by the field that is looked up in them.

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_block::Buffer;
use weever_graph::{Field, Set};
use weever_net::addr::Destination;
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::addr::is_link_local;
use weever_net::route::Kind;
use weever_net::state::NetState;
use weever_wire::MacAddr;
use weever_wire::ipv4::protocol;
use weever_wire::ipv6::Ipv6Header;

use crate::ipv6::accepts;
use crate::kinds::interface;
use crate::table::fields::{arp, ethernet, ipv4, ipv6};

/// Whether a packet's value of a field is in a set; false of a packet without the field.
pub(crate) type Members = fn(&NetState, &Buffer) -> bool;

/// The set as it is looked up for a field; `None`: they have nothing to do with each other.
pub(crate) fn members(field: Field, set: Set) -> Option<Members> {
    Some(match (field, set) {
        (Field::EthDst, Set::Ours) => {
            |net, p| ethernet(p).is_some_and(|h| is_station(net, p, h.dst()))
        }
        (Field::ArpSha, Set::Ours) => |net, p| arp(p).is_some_and(|a| is_station(net, p, a.sha())),
        (Field::EthDst, Set::Joined) => |net, p| {
            let hears = |iface: &Interface| ethernet(p).is_some_and(|h| iface.hears(h.dst()));
            interface(net, p).is_some_and(hears)
        },
        (Field::FrameVlan, Set::Ours) => {
            |net, p| net.member(p.meta().link, p.meta().vlan & 0x0fff).is_some()
        }
        (Field::ArpSpa, Set::Ours) => |net, p| arp(p).is_some_and(|a| is_own(net, p, a.spa())),
        (Field::ArpTpa, Set::Ours) => |net, p| arp(p).is_some_and(|a| is_own(net, p, a.tpa())),
        (Field::ArpSpa, Set::Broadcasts) => {
            |net, p| arp(p).is_some_and(|a| is_broadcast(net, p, a.spa()))
        }
        (Field::ArpTpa, Set::Broadcasts) => {
            |net, p| arp(p).is_some_and(|a| is_broadcast(net, p, a.tpa()))
        }
        (Field::Ip4Src, Set::Ours) => |net, p| ipv4(p).is_some_and(|h| net.is_ours(h.src())),
        (Field::Ip4Dst, Set::Ours) => |net, p| ipv4(p).is_some_and(|h| net.is_ours(h.dst())),
        (Field::Ip4Src, Set::Broadcasts) => {
            |net, p| ipv4(p).is_some_and(|h| kind4(net, h.src()) == Some(Kind::Broadcast))
        }
        (Field::Ip4Src, Set::Subnets) => |net, p| {
            let near = |own: &Interface| ipv4(p).is_some_and(|h| own.v4.on_link(h.src()));
            interface(net, p).is_some_and(near)
        },
        (Field::Ip4Dst, Set::Broadcasts) => |net, p| class4(net, p) == Some(Destination::Broadcast),
        (Field::Ip4Dst, Set::Joined) => joined4,
        (Field::Ip4Dst, Set::Martians) => {
            |net, p| ipv4(p).is_some_and(|h| kind4(net, h.dst()) == Some(Kind::Martian))
        }
        (Field::Ip4Dst, Set::Forwarded) => |net, p| {
            let martian =
                |h: weever_wire::ipv4::Ipv4Header<'_>| kind4(net, h.dst()) == Some(Kind::Martian);
            net.settings().forwarding
                && class4(net, p) == Some(Destination::Other)
                && !ipv4(p).is_some_and(martian)
        },
        (Field::Ip6Src, Set::Ours) => {
            |net, p| ipv6(p).is_some_and(|h| net.is_ours6(IfaceId(p.meta().iface), h.src()))
        }
        (Field::Ip6Dst, Set::Ours) => {
            |net, p| ipv6(p).is_some_and(|h| is_ours6(net, IfaceId(p.meta().iface), h.dst()))
        }
        (Field::Ip6Dst, Set::Joined) => |net, p| {
            let wanted = |h| accepts(net, IfaceId(p.meta().iface), p, h);
            class6(net, p) == Some(Destination::Multicast) && ipv6(p).is_some_and(wanted)
        },
        (Field::Ip6Dst, Set::Martians) => {
            |net, p| others6(net, p).is_some_and(|dst| is_martian6(net, dst))
        }
        (Field::Ip6Dst, Set::Forwarded) => {
            |net, p| ipv6(p).is_some_and(|h| is_forwarded6(net, IfaceId(p.meta().iface), h.dst()))
        }
        _ => return None,
    })
}

fn is_station(net: &NetState, packet: &Buffer, mac: MacAddr) -> bool {
    interface(net, packet).is_some_and(|iface| iface.mac == mac)
}

/// Another station's probe for an address that we probe is a conflict: RFC 5227 §2.1.1.
fn is_own(net: &NetState, packet: &Buffer, ip: Ipv4Addr) -> bool {
    interface(net, packet).is_some_and(|own| own.v4.is_ours(ip) || own.tentative.is_ours(ip))
}

fn is_broadcast(net: &NetState, packet: &Buffer, ip: Ipv4Addr) -> bool {
    interface(net, packet).is_some_and(|own| own.v4.is_subnet_broadcast(ip) && !own.v4.is_ours(ip))
}

fn kind4(net: &NetState, ip: Ipv4Addr) -> Option<Kind> {
    net.route4(ip).map(|hop| hop.kind)
}

fn class4(net: &NetState, packet: &Buffer) -> Option<Destination> {
    Some(net.destination4(IfaceId(packet.meta().iface), ipv4(packet)?.dst()))
}

/// Queries of IGMP go to the group's own address, for any wanted sources.
fn joined4(net: &NetState, packet: &Buffer) -> bool {
    let Some(header) = ipv4(packet) else { return false };
    let iface = IfaceId(packet.meta().iface);
    class4(net, packet) == Some(Destination::Multicast)
        && match header.protocol() {
            protocol::IGMP => net.is_member(iface, header.dst()),
            _ => net.accepts(iface, header.dst(), header.src()),
        }
}

fn class6(net: &NetState, packet: &Buffer) -> Option<Destination> {
    Some(net.destination6(IfaceId(packet.meta().iface), ipv6(packet)?.dst()))
}

/// Whether a packet that an interface received is for one of our addresses.
#[inline]
pub(crate) fn is_ours6(net: &NetState, iface: IfaceId, dst: Ipv6Addr) -> bool {
    net.destination6(iface, dst) == Destination::Local
}

/// Whether a packet that an interface received goes on to another host.
#[inline]
pub(crate) fn is_forwarded6(net: &NetState, iface: IfaceId, dst: Ipv6Addr) -> bool {
    let forwards = || net.interface(iface).is_some_and(|own| own.forwarding);
    net.settings().forwarding
        && forwards()
        && !dst.is_multicast()
        && net.destination6(iface, dst) == Destination::Other
        && !is_martian6(net, dst)
}

/// The destination of a packet for another host.
fn others6(net: &NetState, packet: &Buffer) -> Option<Ipv6Addr> {
    let dst = ipv6(packet).map(Ipv6Header::dst).filter(|dst| !dst.is_multicast())?;
    (class6(net, packet) == Some(Destination::Other)).then_some(dst)
}

/// A link-local destination is the router's to judge.
fn is_martian6(net: &NetState, dst: Ipv6Addr) -> bool {
    !is_link_local(dst) && net.route6(dst).is_some_and(|hop| hop.kind == Kind::Martian)
}
