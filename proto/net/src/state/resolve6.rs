//! From what is configured to what IPv6 packets are looked up in.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::NetConfig;
use crate::addr::{Cidr6, Prefix};
use crate::iface::{IfaceId, Interface};
use crate::ipv6::addr::is_link_local;
use crate::route::{Hop, Kind, Route};

type Entry = (Cidr6, Hop<Ipv6Addr>);

/// What every IPv6 address means, but for those of a link, which mean something with an interface
/// only. Of entries for one prefix, the first one counts.
pub(super) fn ipv6(config: &NetConfig) -> Vec<Entry> {
    let mut entries = Vec::new();
    let up = || config.interfaces().iter().filter(|i| i.up && i.v6_settings.enabled);
    up().for_each(|iface| entries.extend(own(iface)));
    up().for_each(|iface| connected(iface, &mut entries));
    let mut routes: Vec<&Route<Ipv6Addr>> = config.routes6().iter().collect();
    routes.sort_by_key(|route| (route.metric, route.origin));
    entries.extend(routes.into_iter().filter_map(|route| resolve(route, config)));
    entries.extend(special());
    entries
}

fn own(iface: &Interface) -> impl Iterator<Item = Entry> {
    let used = iface.v6.iter().filter(|own| own.is_used() && !is_link_local(own.cidr.addr()));
    used.map(|own| {
        let addr = own.cidr.addr();
        (Prefix::host(addr), Hop::direct(Kind::Local, iface.id, addr))
    })
}

/// RFC 4291 §2.6.1: the subnet's own address is that of its routers, and no host's.
fn connected(iface: &Interface, entries: &mut Vec<Entry>) {
    for prefix in iface.v6.on_link().filter(|prefix| !is_link_local(prefix.addr())) {
        entries.push((prefix, Hop::direct(Kind::Unicast, iface.id, Ipv6Addr::UNSPECIFIED)));
    }
}

/// `None` while it cannot be used.
fn resolve(route: &Route<Ipv6Addr>, config: &NetConfig) -> Option<Entry> {
    let gateway = match route.gateway() {
        Ok(gateway) => gateway,
        Err(refused) => return Some((route.to, refused)),
    };
    let near = || gateway.and_then(|gateway| config.subnet6_of(gateway));
    let iface = config.interface(route.iface.or_else(near)?)?;
    let group = route.to.addr().is_multicast() && route.to.prefix_len() >= 8;
    let kind = if group { Kind::Multicast } else { Kind::Unicast };
    let source = route.source.unwrap_or(Ipv6Addr::UNSPECIFIED);
    let gateway = gateway.unwrap_or(Ipv6Addr::UNSPECIFIED);
    let usable = iface.up && iface.v6_settings.enabled;
    usable.then_some((route.to, Hop { kind, iface: iface.id, gateway, source }))
}

/// What no configuration changes. A packet to a link-local address or to a group needs to know its
/// interface: see [`NetState::hop6`](super::NetState::hop6).
fn special() -> impl Iterator<Item = Entry> {
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
