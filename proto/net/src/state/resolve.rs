//! From what is configured to what packets are looked up in.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use super::NetConfig;
use crate::addr::{Cidr, Prefix};
use crate::iface::{IfaceId, Interface};
use crate::route::{Hop, Kind, Route};

type Entry = (Cidr, Hop<Ipv4Addr>);

/// What every IPv4 address means. Of entries for one prefix, the first one counts.
pub(super) fn ipv4(config: &NetConfig) -> Vec<Entry> {
    let mut entries = Vec::new();
    let up = || config.interfaces().iter().filter(|iface| iface.up);
    up().for_each(|iface| entries.extend(own(iface)));
    up().for_each(|iface| subnets(iface, &mut entries));
    up().for_each(|iface| connected(iface, &mut entries));
    let mut routes: Vec<&Route<Ipv4Addr>> = config.routes4().iter().collect();
    routes.sort_by_key(|route| (route.metric, route.origin));
    entries.extend(routes.into_iter().filter_map(|route| resolve(route, config)));
    entries.extend(special(up().next()));
    entries
}

fn own(iface: &Interface) -> impl Iterator<Item = Entry> {
    let local = |cidr: Cidr| Hop::direct(Kind::Local, iface.id, cidr.addr());
    iface.v4.iter().map(move |cidr| (Prefix::host(cidr.addr()), local(cidr)))
}

/// The addresses of all hosts of a subnet. The subnet's own is no host's: RFC 1812 §4.2.3.1,
/// "SHOULD silently discard on receipt (i.e., do not even deliver to applications in the router) any
/// packet addressed to 0.0.0.0 or { <Network-prefix>, 0 }".
fn subnets(iface: &Interface, entries: &mut Vec<Entry>) {
    for (cidr, broadcast) in iface.v4.iter().filter_map(|cidr| Some((cidr, cidr.broadcast()?))) {
        let hop = |kind| Hop::direct(kind, iface.id, cidr.addr());
        entries.push((Prefix::host(broadcast), hop(Kind::Broadcast)));
        entries.push((Prefix::host(cidr.network().addr()), hop(Kind::Martian)));
    }
}

/// Two addresses on one subnet: the first one is spoken from.
fn connected(iface: &Interface, entries: &mut Vec<Entry>) {
    let hop = |cidr: Cidr| Hop::direct(Kind::Unicast, iface.id, cidr.addr());
    entries.extend(iface.v4.iter().map(|cidr| (cidr.network(), hop(cidr))));
}

/// `None` while it cannot be used.
fn resolve(route: &Route<Ipv4Addr>, config: &NetConfig) -> Option<Entry> {
    let gateway = match route.gateway() {
        Ok(gateway) => gateway,
        Err(refused) => return Some((route.to, refused)),
    };
    let iface = match (route.iface, gateway) {
        (Some(id), _) => config.interface(id)?,
        (None, Some(gateway)) => config.subnet_of(gateway)?,
        (None, None) => return None,
    };
    let near = gateway.unwrap_or(route.to.addr());
    let source = route.source.or_else(|| iface.v4.source_for(near));
    // What is known of groups holds of those that a route leads to as well.
    let group = route.to.addr().is_multicast() && route.to.prefix_len() >= 4;
    let kind = if group { Kind::Multicast } else { Kind::Unicast };
    let source = source.unwrap_or(Ipv4Addr::UNSPECIFIED);
    let gateway = gateway.unwrap_or(Ipv4Addr::UNSPECIFIED);
    iface.up.then_some((route.to, Hop { kind, iface: iface.id, gateway, source }))
}

/// What no configuration changes (RFC 1122 §3.2.1.3, RFC 1812 §5.3.7). Without a route that says
/// otherwise, groups and the limited broadcast are reached by the first interface.
fn special(first: Option<&Interface>) -> impl Iterator<Item = Entry> {
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
