//! The IPv6 part of the configuration.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::routes;
use super::{NetConfig, StateError};
use crate::addr::{Cidr6, Prefix};
use crate::group::Filter;
use crate::iface::IfaceId;
use crate::ipv6::addr::{Scope, is_link_local};
use crate::ipv6::{AddrOrigin, AddrState, Locals6, OwnAddr, V6Settings};
use crate::route::{Origin, Route, Way};

/// The result of neighbour discovery on one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The interface's addresses, in any state.
    pub locals: Locals6,
    /// The default router.
    pub router: Option<Ipv6Addr>,
    /// Prefixes whose addresses are neighbours.
    pub on_link: Vec<Cidr6>,
    /// Hop limit of the packets sent.
    pub hop_limit: u8,
    /// The link's MTU.
    pub mtu: u16,
}

impl NetConfig {
    /// Sets how an interface speaks IPv6.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn set_v6(&mut self, id: IfaceId, settings: V6Settings) -> Result<(), StateError> {
        self.interface_mut(id)?.v6_settings = settings;
        Ok(())
    }

    /// Gives an interface an IPv6 address, which is used once duplicate address detection has passed (RFC 4862
    /// §5.4).
    /// The interface speaks IPv6 from then on.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::AddressTaken6`], [`StateError::UnfitAddress6`].
    pub fn add_address6(&mut self, id: IfaceId, cidr: Cidr6) -> Result<(), StateError> {
        let addr = cidr.addr();
        if let Some(why) = unfit(addr) {
            return Err(StateError::UnfitAddress6 { addr, why });
        }
        let same = |i: IfaceId| i == id || !is_link_local(addr);
        let taken = self.interfaces().iter().find(|i| same(i.id) && i.v6.get(addr).is_some());
        if let Some(iface) = taken {
            return Err(StateError::AddressTaken6 { addr, by: iface.name.clone() });
        }
        let iface = self.interface_mut(id)?;
        let state = match iface.v6_settings.dad_transmits {
            0 => AddrState::Preferred,
            _ => AddrState::Tentative,
        };
        iface.v6.set(OwnAddr { cidr, state, origin: AddrOrigin::Static });
        iface.v6_settings.enabled = true;
        Ok(())
    }

    /// Takes an IPv6 address from an interface.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::NoAddress6`].
    pub fn remove_address6(&mut self, id: IfaceId, addr: Ipv6Addr) -> Result<OwnAddr, StateError> {
        let iface = self.interface_mut(id)?;
        let name = iface.name.clone();
        iface.v6.remove(addr).ok_or(StateError::NoAddress6 { name, addr })
    }

    /// Joins an IPv6 group on an interface.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::NoGroup6`].
    pub fn join6(&mut self, id: IfaceId, group: Ipv6Addr) -> Result<(), StateError> {
        let iface = self.interface_mut(id)?;
        if !group.is_multicast() || Scope::of(group) < Scope::LINK {
            return Err(StateError::NoGroup6(group));
        }
        if let Err(at) = iface.groups6.binary_search(&group) {
            iface.groups6.insert(at, group);
        }
        Ok(())
    }

    /// Leaves an IPv6 group; false if the interface was not in it.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn leave6(&mut self, id: IfaceId, group: Ipv6Addr) -> Result<bool, StateError> {
        let iface = self.interface_mut(id)?;
        let at = iface.groups6.binary_search(&group);
        Ok(at.map(|at| iface.groups6.remove(at)).is_ok())
    }

    /// Says which IPv6 groups users of the host want to hear on an interface, ascending, and which of
    /// their sources, beside those that are [joined](Self::join6) for all sources.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn set_filters6(
        &mut self,
        id: IfaceId,
        filters: Vec<(Ipv6Addr, Filter<Ipv6Addr>)>,
    ) -> Result<(), StateError> {
        self.interface_mut(id)?.filters6 = filters;
        Ok(())
    }

    /// The IPv6 routes beside the connected ones, in the order in which they were added.
    pub fn routes6(&self) -> &[Route<Ipv6Addr>] {
        &self.routes6
    }

    /// Adds an IPv6 route. One through a link-local gateway has to name its interface.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::NoWay`], [`StateError::GatewayOffLink`],
    /// [`StateError::RouteExists`].
    pub fn add_route6(&mut self, route: Route<Ipv6Addr>) -> Result<(), StateError> {
        if let Some(id) = route.iface {
            self.position(id)?;
        }
        let near = matches!(route.way, Way::Via(gateway) if self.subnet6_of(gateway).is_some());
        // Several routers may advertise the same.
        let key = |r: &Route<Ipv6Addr>| (r.to, r.metric, r.origin, r.iface);
        routes::add(&mut self.routes6, route, near, |a, b| key(a) == key(b))
    }

    /// Removes the first IPv6 route to exactly these destinations, an operator's before others.
    ///
    /// # Errors
    /// [`StateError::RouteMissing`].
    pub fn remove_route6(&mut self, to: Cidr6) -> Result<Route<Ipv6Addr>, StateError> {
        routes::remove(&mut self.routes6, to)
    }

    /// Takes over the results of neighbour discovery on an interface: its addresses in their
    /// states, and routes of [`Origin::Ra`]. Which addresses an operator wants stays the operator's
    /// business: one that was removed meanwhile does not come back, nor is a new one lost.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn set_advertised(&mut self, id: IfaceId, found: Advertised) -> Result<(), StateError> {
        let iface = self.interface_mut(id)?;
        let wanted = core::mem::take(&mut iface.v6);
        let operators = |own: &OwnAddr| own.origin == AddrOrigin::Static;
        let there = |own: &OwnAddr| wanted.get(own.cidr.addr()).is_some_and(|own| operators(&own));
        for own in found.locals.iter().filter(|own| !operators(own) || there(own)) {
            iface.v6.set(own);
        }
        let known = |own: &OwnAddr| found.locals.get(own.cidr.addr()).is_some();
        wanted.iter().filter(|own| operators(own) && !known(own)).for_each(|own| iface.v6.set(own));
        iface.v6_settings.hop_limit = found.hop_limit;
        iface.v6_settings.link_mtu = found.mtu;
        self.routes6.retain(|r| r.origin != Origin::Ra || r.iface != Some(id));
        let by = |route: Route<Ipv6Addr>| route.by(id).from(Origin::Ra);
        let near = found.on_link.into_iter().map(|prefix| Route::new(prefix, Way::OnLink));
        let far = found.router.map(|router| Route::via(Cidr6::ALL, router).with_metric(1024));
        self.routes6.extend(near.chain(far).map(by));
        Ok(())
    }

    /// The interface on whose subnet an address is.
    pub(super) fn subnet6_of(&self, addr: Ipv6Addr) -> Option<IfaceId> {
        let near = |prefix: &Prefix<Ipv6Addr>| prefix.contains(addr) && !is_link_local(addr);
        let longest = |id, locals: &Locals6| {
            locals.on_link().filter(near).map(|p| (p.prefix_len(), id)).max()
        };
        let all = self.interfaces().iter().filter_map(|i| longest(i.id, &i.v6));
        all.max_by_key(|(len, _)| *len).map(|(_, id)| id)
    }
}

/// Why the address cannot be a host's.
fn unfit(addr: Ipv6Addr) -> Option<&'static str> {
    let bits = addr.to_bits();
    if addr.is_multicast() {
        Some("a group's")
    } else if bits == 0 {
        Some("the unspecified address")
    } else if bits == 1 {
        Some("the loopback address")
    } else if bits >> 32 == 0xffff {
        Some("an IPv4 address in IPv6's notation")
    } else {
        None
    }
}
