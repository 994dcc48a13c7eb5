//! Applying a lease to the host's network.

use std::convert::Infallible;

use weever_net::dhcp4::{GatewayRoute, Lease};
use weever_net::iface::IfaceId;
use weever_net::route::{Origin, Route, Way};
use weever_net::state::NetConfig;

use crate::host::Network;

/// Routes of operators without a metric of their own come first.
const METRIC: u32 = 100;

/// The changes that a lease made to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    /// Whether the address is there because of the lease, and not because of an operator.
    added: bool,
    /// The interface's own MTU.
    full: u16,
    /// The value set. A different one found later is an operator's.
    set: u16,
}

/// Applies the lease, in place of its earlier contents.
pub(super) fn bind(
    host: &Network,
    iface: IfaceId,
    lease: &Lease,
    before: Option<Applied>,
) -> Option<Applied> {
    change(host, |net| {
        let old = net.interface(iface)?.mtu;
        net.remove_routes_of(iface, Origin::Dhcp);
        let added = address(net, iface, lease, before.is_some_and(|before| before.added));
        let full = before.filter(|b| b.set == old).map_or(old, |before| before.full);
        let set = lease.mtu.map_or(full, |said| said.min(full));
        let _ = net.set_mtu(iface, set);
        routes(net, iface, lease);
        Some(Applied { added, full, set })
    })
}

/// Gives the interface the lease's address, in place of the same one with another prefix if that
/// was an earlier lease's; whether the address is the lease's.
fn address(net: &mut NetConfig, iface: IfaceId, lease: &Lease, added: bool) -> bool {
    let wanted = lease.address;
    let held = net.interface(iface).and_then(|i| i.v4.iter().find(|c| c.addr() == wanted.addr()));
    match held {
        Some(held) if !added || held == wanted => return added,
        Some(_) => drop(net.remove_address(iface, wanted.addr())),
        None => {}
    }
    // Taken by an operator on another interface: then that is how it is.
    net.add_address(iface, wanted).is_ok()
}

/// Removes everything that the lease gave.
pub(super) fn unbind(host: &Network, iface: IfaceId, lease: &Lease, applied: Option<Applied>) {
    change(host, |net| {
        net.remove_routes_of(iface, Origin::Dhcp);
        if applied.is_some_and(|applied| applied.added) {
            let _ = net.remove_address(iface, lease.address.addr());
        }
        let now = net.interface(iface).map(|iface| iface.mtu);
        if let Some(applied) = applied.filter(|applied| Some(applied.set) == now) {
            let _ = net.set_mtu(iface, applied.full);
        }
    });
}

/// Each that the network takes: a server may send routes that contradict others. Routes on the link
/// come first, since gateways may be there.
fn routes(net: &mut NetConfig, iface: IfaceId, lease: &Lease) {
    let on_link = |route: &&GatewayRoute| route.gateway.is_unspecified();
    let (near, far): (Vec<&GatewayRoute>, Vec<_>) = lease.routes.iter().partition(on_link);
    for route in near.into_iter().chain(far) {
        let way = match route.gateway.is_unspecified() {
            true => Way::OnLink,
            false => Way::Via(route.gateway),
        };
        let route = Route::new(route.to, way).by(iface).with_metric(METRIC).from(Origin::Dhcp);
        let _ = net.add_route(route);
    }
}

fn change<T>(host: &Network, change: impl FnOnce(&mut NetConfig) -> T) -> T {
    match host.update(|net| Ok::<T, Infallible>(change(net))) {
        Ok(done) => done,
        Err(never) => match never {},
    }
}
