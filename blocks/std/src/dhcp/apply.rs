//! What a lease changes in the host's network.

use std::convert::Infallible;

use weever_net::dhcp4::{GatewayRoute, Lease};
use weever_net::iface::IfaceId;
use weever_net::route::{Origin, Route, Way};
use weever_net::state::NetConfig;

use crate::host::Host;

/// Routes of operators without a metric of their own come first.
const METRIC: u32 = 100;

/// What a lease has made of an interface's MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lowered {
    /// The interface's own.
    full: u16,
    /// What was set. Another one that is found later is an operator's.
    set: u16,
}

/// Uses what the lease gives, in place of what it gave before.
pub(super) fn bind(
    host: &Host,
    iface: IfaceId,
    lease: &Lease,
    mtu: Option<Lowered>,
) -> Option<Lowered> {
    change(host, |net| {
        let held = net.interface(iface)?;
        let (old, has) = (held.mtu, held.v4.is_ours(lease.address.addr()));
        net.remove_routes_of(iface, Origin::Dhcp);
        if !has {
            // Taken by an operator on another interface: then that is how it is.
            let _ = net.add_address(iface, lease.address);
        }
        let full = mtu.filter(|mtu| mtu.set == old).map_or(old, |mtu| mtu.full);
        let set = lease.mtu.map_or(full, |said| said.min(full));
        let _ = net.set_mtu(iface, set);
        routes(net, iface, lease);
        Some(Lowered { full, set })
    })
}

/// Takes away what the lease gave.
pub(super) fn unbind(host: &Host, iface: IfaceId, lease: &Lease, mtu: Option<Lowered>) {
    change(host, |net| {
        net.remove_routes_of(iface, Origin::Dhcp);
        let _ = net.remove_address(iface, lease.address.addr());
        let now = net.interface(iface).map(|iface| iface.mtu);
        if let Some(mtu) = mtu.filter(|mtu| Some(mtu.set) == now) {
            let _ = net.set_mtu(iface, mtu.full);
        }
    });
}

/// Each that the network takes: a server may say routes that contradict others. What is on the link
/// comes first, since gateways may be there.
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

fn change<T>(host: &Host, change: impl FnOnce(&mut NetConfig) -> T) -> T {
    match host.update(|net| Ok::<T, Infallible>(change(net))) {
        Ok(done) => done,
        Err(never) => match never {},
    }
}
