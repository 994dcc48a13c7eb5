//! The kernel's addresses and routes as those of an interface that borrows them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weever_link_sys::mirror::{Address, Route as Entry};
use weever_net::addr::{Address as Family, Cidr, Cidr6, Prefix};
use weever_net::iface::IfaceId;
use weever_net::ipv6::V6Settings;
use weever_net::route::{Origin, Route, Way};
use weever_net::state::{NetConfig, StateError};

/// Gives the interface these addresses and no others. The kernel uses them already: no probe is
/// needed.
pub(super) fn addresses<'a>(
    network: &mut NetConfig,
    id: IfaceId,
    kernels: impl Iterator<Item = &'a Address>,
) {
    let Some(iface) = network.interface(id) else { return };
    let (mut old4, mut old6): (BTreeSet<Cidr>, BTreeSet<Cidr6>) =
        (iface.v4.iter().collect(), iface.v6.iter().map(|own| own.cidr).collect());
    let (mut new4, mut new6) = (Vec::new(), Vec::new());
    for Address { address, prefix, .. } in kernels {
        match address {
            IpAddr::V4(v4) => {
                new4.extend(Cidr::new(*v4, *prefix).filter(|cidr| !old4.remove(cidr)))
            }
            IpAddr::V6(v6) => {
                new6.extend(Cidr6::new(*v6, *prefix).filter(|cidr| !old6.remove(cidr)))
            }
        }
    }
    // Before the new ones: an address may have got another prefix.
    for gone in old4 {
        told("the kernel gave up an address", &gone, network.remove_address(id, gone.addr()));
    }
    for gone in old6 {
        told("the kernel gave up an address", &gone, network.remove_address6(id, gone.addr()));
    }
    for new in new4 {
        told("the kernel has an address", &new, network.add_address(id, new));
    }
    for new in new6 {
        let added = quiet6(network, id).and_then(|()| network.add_address6(id, new));
        told("the kernel has an address", &new, added);
    }
}

/// Addresses are used at once, and the kernel listens to routers.
fn quiet6(network: &mut NetConfig, id: IfaceId) -> Result<(), StateError> {
    let settings = network.interface(id).map(|iface| iface.v6_settings).unwrap_or_default();
    network.set_v6(id, V6Settings { dad_transmits: 0, accept_ra: false, ..settings })
}

fn told<T>(what: &str, address: &dyn std::fmt::Display, done: Result<T, StateError>) {
    match done {
        Ok(_) => tracing::info!(%address, "{what}"),
        Err(error) => tracing::warn!(%address, "{what} that is not taken over: {error}"),
    }
}

/// Sets these routes of the interface, and removes all others of the kernel's.
pub(super) fn routes<'a>(
    network: &mut NetConfig,
    id: IfaceId,
    kernels: impl Iterator<Item = &'a Entry>,
) {
    network.remove_routes_of(id, Origin::Kernel);
    for entry in kernels {
        let added = match entry.network {
            IpAddr::V4(to) => {
                let v4 = |ip| match ip {
                    IpAddr::V4(v4) => Some(v4),
                    IpAddr::V6(_) => None,
                };
                route(entry, id, Cidr::new(to, entry.prefix), v4).map(|r| network.add_route(r))
            }
            IpAddr::V6(to) => {
                let v6 = |ip| match ip {
                    IpAddr::V6(v6) => Some(v6),
                    IpAddr::V4(_) => None,
                };
                route(entry, id, Cidr6::new(to, entry.prefix), v6).map(|r| network.add_route(r))
            }
        };
        if let Some(Err(error)) = added {
            let to = format!("{}/{}", entry.network, entry.prefix);
            tracing::warn!(to, "a route of the kernel's that is not taken over: {error}");
        }
    }
}

/// `None` for a route that the stack cannot express: one over the other family's router.
fn route<A: Family>(
    entry: &Entry,
    id: IfaceId,
    to: Option<Prefix<A>>,
    of: impl Fn(IpAddr) -> Option<A>,
) -> Option<Route<A>> {
    let way = match entry.gateway {
        Some(gateway) => Way::Via(of(gateway)?),
        None => Way::OnLink,
    };
    let route = Route::new(to?, way).by(id).with_metric(entry.metric).from(Origin::Kernel);
    Some(Route { source: entry.source.and_then(of), ..route })
}
