//! From interfaces and routes to the forwarding tables.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::NetConfig;
use super::family::Family;
use crate::addr::{Address, Cidr, Prefix};
use crate::iface::{IfaceId, Interface};
use crate::ipv6::addr::is_link_local;
use crate::route::{Hop, Kind, Route};

type Entry<A> = (Prefix<A>, Hop<A>);

/// The entries of the IPv4 forwarding table. Of entries for one prefix, the first one counts.
pub(super) fn ipv4(config: &NetConfig) -> Vec<Entry<Ipv4Addr>> {
    let mut entries = Vec::new();
    let up = || config.interfaces().iter().filter(|iface| iface.up);
    up().for_each(|iface| entries.extend(own4(iface)));
    up().for_each(|iface| subnets(iface, &mut entries));
    up().for_each(|iface| connected4(iface, &mut entries));
    entries.extend(routed(config.routes4(), 4, Ipv4Addr::is_multicast, |route, gateway| {
        let near = || gateway.and_then(|gateway| Family::subnet_of(config.interfaces(), gateway));
        let iface = config.interface(route.iface.or_else(near)?)?;
        let source = iface.v4.source_for(gateway.unwrap_or(route.to.addr()));
        iface.up.then_some((iface.id, source))
    }));
    entries.extend(special4(up().next()));
    entries
}

/// The entries of the IPv6 forwarding table, without link-local ones, which need an interface. Of entries for one prefix, the first one counts.
pub(super) fn ipv6(config: &NetConfig) -> Vec<Entry<Ipv6Addr>> {
    let mut entries = Vec::new();
    let speaks = |iface: &&Interface| iface.up && iface.v6_settings.enabled;
    let up = || config.interfaces().iter().filter(speaks);
    up().for_each(|iface| entries.extend(own6(iface)));
    up().for_each(|iface| connected6(iface, &mut entries));
    entries.extend(routed(config.routes6(), 8, Ipv6Addr::is_multicast, |route, gateway| {
        let near = || gateway.and_then(|gateway| Family::subnet_of(config.interfaces(), gateway));
        let iface = config.interface(route.iface.or_else(near)?).filter(speaks)?;
        Some((iface.id, None))
    }));
    entries.extend(special6());
    entries
}

/// Whether the IPv4 entries of both are the same: all that they are made of is.
pub(super) fn same4(a: &NetConfig, b: &NetConfig) -> bool {
    let parts = |i: &Interface| (i.id, i.up, i.v4.clone());
    a.interfaces().iter().map(parts).eq(b.interfaces().iter().map(parts))
        && a.routes4() == b.routes4()
}

/// Whether the IPv6 entries of both are the same: all that they are made of is.
pub(super) fn same6(a: &NetConfig, b: &NetConfig) -> bool {
    let parts = |i: &Interface| (i.id, i.up, i.v6_settings.enabled, i.v6.clone());
    a.interfaces().iter().map(parts).eq(b.interfaces().iter().map(parts))
        && a.routes6() == b.routes6()
}

/// The entries of routes, the best route to a prefix first. `leave_by` finds the interface of a
/// route with this gateway and our address to speak from; `None` while the route cannot be used.
/// Groups are the addresses that `is_group` names, with a prefix of at least `group_len` bits: the
/// rules for groups hold for those that a route leads to as well.
fn routed<A: Address>(
    routes: &[Route<A>],
    group_len: u8,
    is_group: impl Fn(&A) -> bool,
    leave_by: impl Fn(&Route<A>, Option<A>) -> Option<(IfaceId, Option<A>)>,
) -> Vec<Entry<A>> {
    let mut sorted: Vec<&Route<A>> = routes.iter().collect();
    sorted.sort_by_key(|route| (route.metric, route.origin));
    let entry = |route: &Route<A>| {
        let gateway = match route.gateway() {
            Ok(gateway) => gateway,
            Err(refused) => return Some((route.to, refused)),
        };
        let (iface, source) = leave_by(route, gateway)?;
        let group = is_group(&route.to.addr()) && route.to.prefix_len() >= group_len;
        let kind = if group { Kind::Multicast } else { Kind::Unicast };
        let source = route.source.or(source).unwrap_or(A::UNSPECIFIED);
        let gateway = gateway.unwrap_or(A::UNSPECIFIED);
        Some((route.to, Hop { kind, iface, gateway, source }))
    };
    sorted.into_iter().filter_map(entry).collect()
}

fn own4(iface: &Interface) -> impl Iterator<Item = Entry<Ipv4Addr>> {
    let local = |cidr: Cidr| Hop::direct(Kind::Local, iface.id, cidr.addr());
    iface.v4.iter().map(move |cidr| (Prefix::host(cidr.addr()), local(cidr)))
}

/// The addresses of all hosts of a subnet. The subnet's own is no host's: RFC 1812 §4.2.3.1,
/// "SHOULD silently discard on receipt (i.e., do not even deliver to applications in the router) any
/// packet addressed to 0.0.0.0 or { <Network-prefix>, 0 }".
fn subnets(iface: &Interface, entries: &mut Vec<Entry<Ipv4Addr>>) {
    for (cidr, broadcast) in iface.v4.iter().filter_map(|cidr| Some((cidr, cidr.broadcast()?))) {
        let hop = |kind| Hop::direct(kind, iface.id, cidr.addr());
        entries.push((Prefix::host(broadcast), hop(Kind::Broadcast)));
        entries.push((Prefix::host(cidr.network().addr()), hop(Kind::Martian)));
    }
}

/// Two addresses on one subnet: the first one is spoken from.
fn connected4(iface: &Interface, entries: &mut Vec<Entry<Ipv4Addr>>) {
    let hop = |cidr: Cidr| Hop::direct(Kind::Unicast, iface.id, cidr.addr());
    entries.extend(iface.v4.iter().map(|cidr| (cidr.network(), hop(cidr))));
}

/// The entries that no configuration changes (RFC 1122 §3.2.1.3, RFC 1812 §5.3.7). Without a route
/// that says otherwise, groups and the limited broadcast are reached by the first interface.
fn special4(first: Option<&Interface>) -> impl Iterator<Item = Entry<Ipv4Addr>> {
    let iface = first.map_or(IfaceId::NONE, |iface| iface.id);
    let addresses = first.and_then(|iface| iface.v4.iter().next());
    let source = addresses.map_or(Ipv4Addr::UNSPECIFIED, |cidr| cidr.addr());
    let blocks = [
        (0, 8, Kind::Martian),
        (127, 8, Kind::Martian),
        (224, 4, Kind::Multicast),
        (240, 4, Kind::Martian),
        (255, 32, Kind::Broadcast),
    ];
    blocks.into_iter().filter_map(move |(first, len, kind)| {
        let addr = if len == 32 { Ipv4Addr::BROADCAST } else { Ipv4Addr::new(first, 0, 0, 0) };
        Some((Prefix::new(addr, len)?, Hop::direct(kind, iface, source)))
    })
}

fn own6(iface: &Interface) -> impl Iterator<Item = Entry<Ipv6Addr>> {
    let used = iface.v6.iter().filter(|own| own.is_used() && !is_link_local(own.cidr.addr()));
    used.map(|own| {
        let addr = own.cidr.addr();
        (Prefix::host(addr), Hop::direct(Kind::Local, iface.id, addr))
    })
}

/// RFC 4291 §2.6.1: the subnet's own address is that of its routers, and no host's.
fn connected6(iface: &Interface, entries: &mut Vec<Entry<Ipv6Addr>>) {
    for prefix in iface.v6.on_link().filter(|prefix| !is_link_local(prefix.addr())) {
        entries.push((prefix, Hop::direct(Kind::Unicast, iface.id, Ipv6Addr::UNSPECIFIED)));
    }
}

/// The entries that no configuration changes. A packet to a link-local address or to a group needs
/// to know its interface: see [`NetState::hop6`](super::NetState::hop6).
fn special6() -> impl Iterator<Item = Entry<Ipv6Addr>> {
    let blocks = [
        (Ipv6Addr::UNSPECIFIED, 128, Kind::Martian),
        (Ipv6Addr::LOCALHOST, 128, Kind::Martian),
        (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, Kind::Martian),
        (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, Kind::Martian),
        (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, Kind::Multicast),
    ];
    let hop = |kind| Hop::direct(kind, IfaceId::NONE, Ipv6Addr::UNSPECIFIED);
    blocks
        .into_iter()
        .filter_map(move |(addr, len, kind)| Some((Prefix::new(addr, len)?, hop(kind))))
}
