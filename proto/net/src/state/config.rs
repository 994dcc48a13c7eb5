//! The configuration by operators, DHCP and router advertisements: interfaces, groups and routes. Their addresses
//! are in [`addresses`](super::addresses).

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use weever_wire::MacAddr;

use super::family::{Family, Routes};
use super::{MAX_INTERFACES, MIN_MTU, Settings, StateError};
use crate::addr::{Address, Cidr, Locals, Prefix};
use crate::group::Filter;
use crate::iface::{IfaceId, Interface};
use crate::ipv6::V6Settings;
use crate::route::{Origin, Route, Way};

/// A host's network as it is configured. A method that fails changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetConfig {
    /// Settings of the whole host; free to be changed.
    pub settings: Settings,
    /// By ascending number.
    interfaces: Vec<Interface>,
    routes: Routes,
}

impl NetConfig {
    /// A host without a network.
    pub fn new() -> Self {
        Self::default()
    }

    /// A host with one interface, number 0 on link 0, with these addresses, as they are.
    pub fn single(mac: MacAddr, addresses: &[Cidr]) -> Self {
        let v4 = Locals::new(addresses);
        let only = Interface::new(IfaceId(0), "link0", 0, mac).with_v4(v4);
        Self { interfaces: [only].into(), ..Self::default() }
    }

    /// Every interface, by ascending number.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The interface of this number.
    pub fn interface(&self, id: IfaceId) -> Option<&Interface> {
        let at = self.interfaces.binary_search_by_key(&id, |iface| iface.id).ok()?;
        self.interfaces.get(at)
    }

    /// The interface of this name.
    pub fn interface_named(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|iface| iface.name == name)
    }

    /// The lowest number that no interface has.
    pub fn free_id(&self) -> IfaceId {
        let taken = self.interfaces.iter().enumerate();
        let dense = taken.take_while(|(n, iface)| iface.id.index() == *n).count();
        IfaceId(dense as u16)
    }

    /// Adds an interface with the addresses that it has.
    ///
    /// # Errors
    /// Where it, or one of its addresses, conflicts with the configuration.
    pub fn add_interface(&mut self, iface: Interface) -> Result<IfaceId, StateError> {
        if self.interfaces.len() >= MAX_INTERFACES || iface.id == IfaceId::NONE {
            return Err(StateError::TooManyInterfaces);
        }
        if self.interfaces.iter().any(|i| i.id == iface.id || i.name == iface.name) {
            return Err(StateError::InterfaceExists(iface.name));
        }
        let mut trial = self.clone();
        let (id, addresses, tentative) = (iface.id, iface.v4.clone(), iface.tentative.clone());
        trial.check_interface(&iface)?;
        let at = trial.interfaces.partition_point(|i| i.id < id);
        let (v4, unused) = (Locals::default(), Locals::default());
        trial.interfaces.insert(at, Interface { v4, tentative: unused, ..iface });
        addresses.iter().try_for_each(|cidr| trial.add_address(id, cidr))?;
        tentative.iter().try_for_each(|cidr| trial.add_tentative(id, cidr))?;
        *self = trial;
        Ok(id)
    }

    fn check_interface(&self, iface: &Interface) -> Result<(), StateError> {
        let name = || iface.name.clone();
        if let Some(vlan) = iface.vlan.filter(|vlan| !(1..4095).contains(vlan)) {
            return Err(StateError::BadVlan { name: name(), vlan });
        }
        if !iface.mac.is_unicast() {
            return Err(StateError::BadMac(name()));
        }
        let mut others = self.interfaces.iter().filter(|other| other.id != iface.id);
        match others.find(|other| (other.link, other.vlan) == (iface.link, iface.vlan)) {
            Some(other) => Err(StateError::MemberTaken { name: name(), by: other.name.clone() }),
            None => check_mtu(iface, iface.mtu),
        }
    }

    /// Removes an interface, its addresses and the routes that name it.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn remove_interface(&mut self, id: IfaceId) -> Result<Interface, StateError> {
        let at = self.position(id)?;
        self.routes.v4.retain(|route| route.iface != Some(id));
        self.routes.v6.retain(|route| route.iface != Some(id));
        Ok(self.interfaces.remove(at))
    }

    /// Sets whether an interface is used.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn set_up(&mut self, id: IfaceId, up: bool) -> Result<(), StateError> {
        let iface = self.interface_mut(id)?;
        if iface.up && !up {
            iface.downs = iface.downs.wrapping_add(1);
        }
        iface.up = up;
        Ok(())
    }

    /// Sets the longest IP packet that an interface sends.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::MtuTooSmall`].
    pub fn set_mtu(&mut self, id: IfaceId, mtu: u16) -> Result<(), StateError> {
        let iface = self.interface_mut(id)?;
        check_mtu(iface, mtu)?;
        iface.mtu = mtu;
        Ok(())
    }

    /// Sets an interface's link address.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::BadMac`].
    pub fn set_mac(&mut self, id: IfaceId, mac: MacAddr) -> Result<(), StateError> {
        let iface = self.interface_mut(id)?;
        if !mac.is_unicast() {
            return Err(StateError::BadMac(iface.name.clone()));
        }
        iface.mac = mac;
        Ok(())
    }

    /// Sets whether packets that an interface receives may be forwarded.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn set_forwarding(&mut self, id: IfaceId, forwarding: bool) -> Result<(), StateError> {
        self.interface_mut(id)?.forwarding = forwarding;
        Ok(())
    }

    /// Sets how an interface speaks IPv6.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn set_v6(&mut self, id: IfaceId, settings: V6Settings) -> Result<(), StateError> {
        self.interface_mut(id)?.v6_settings = settings;
        Ok(())
    }

    /// Joins a group on an interface. The groups of all hosts and of its addresses are joined always.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::NoGroup`].
    pub fn join<A: Family>(&mut self, id: IfaceId, group: A) -> Result<(), StateError> {
        let iface = self.interface_mut(id)?;
        if !group.can_be_joined() {
            let (family, rule) = (<A as Address>::FAMILY, A::JOINABLE);
            return Err(StateError::NoGroup { group: group.into(), family, rule });
        }
        let joined = &mut A::groups_mut(iface).joined;
        if let Err(at) = joined.binary_search(&group) {
            joined.insert(at, group);
        }
        Ok(())
    }

    /// Leaves a group; false if the interface was not in it.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn leave<A: Family>(&mut self, id: IfaceId, group: A) -> Result<bool, StateError> {
        let joined = &mut A::groups_mut(self.interface_mut(id)?).joined;
        let at = joined.binary_search(&group);
        Ok(at.map(|at| joined.remove(at)).is_ok())
    }

    /// Says which groups users of the host want to hear on an interface, ascending, and which of
    /// their sources, beside those that are [joined](Self::join) for all sources.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn set_filters<A: Family>(
        &mut self,
        id: IfaceId,
        filters: Vec<(A, Filter<A>)>,
    ) -> Result<(), StateError> {
        A::groups_mut(self.interface_mut(id)?).filters = filters;
        Ok(())
    }

    /// The IPv4 routes beside the connected ones, in the order in which they were added.
    pub fn routes4(&self) -> &[Route<Ipv4Addr>] {
        &self.routes.v4
    }

    /// The IPv6 routes beside the connected ones, in the order in which they were added.
    pub fn routes6(&self) -> &[Route<Ipv6Addr>] {
        &self.routes.v6
    }

    /// Adds a route. One whose interface is down, or whose gateway has gone off link later, is kept
    /// and not used meanwhile. One through a link-local gateway has to name its interface.
    ///
    /// # Errors
    /// [`StateError::GatewayOffLink`], [`StateError::NoWay`], [`StateError::NoInterface`],
    /// [`StateError::RouteExists`].
    pub fn add_route<A: Family>(&mut self, route: Route<A>) -> Result<(), StateError> {
        let route = Route { to: route.to.network(), ..route };
        match (route.way, route.iface) {
            (_, Some(id)) => self.position(id).map(drop)?,
            (Way::Via(gateway), None) if A::subnet_of(&self.interfaces, gateway).is_none() => {
                return Err(StateError::GatewayOffLink { gateway: gateway.to_string() });
            }
            (Way::OnLink, None) => return Err(StateError::NoWay { to: route.to.to_string() }),
            _ => {}
        }
        let routes = A::routes(&mut self.routes);
        if routes.iter().any(|other| A::same_route(other, &route)) {
            return Err(StateError::RouteExists { to: route.to.to_string(), metric: route.metric });
        }
        routes.push(route);
        Ok(())
    }

    /// Removes the first route to exactly these destinations, an operator's before others.
    ///
    /// # Errors
    /// [`StateError::RouteMissing`].
    pub fn remove_route<A: Family>(&mut self, to: Prefix<A>) -> Result<Route<A>, StateError> {
        let routes = A::routes(&mut self.routes).iter();
        let here = routes.filter(|route| route.to == to.network());
        let first = here.min_by_key(|route| route.origin != Origin::Static);
        let origin = first.map_or(Origin::Static, |route| route.origin);
        self.remove_route_from(to, origin)
    }

    /// Removes the first route to exactly these destinations that is of this origin.
    ///
    /// # Errors
    /// [`StateError::RouteMissing`].
    pub fn remove_route_from<A: Family>(
        &mut self,
        to: Prefix<A>,
        origin: Origin,
    ) -> Result<Route<A>, StateError> {
        let (to, routes) = (to.network(), A::routes(&mut self.routes));
        let at = routes.iter().position(|route| route.to == to && route.origin == origin);
        let at = at.ok_or_else(|| StateError::RouteMissing { to: to.to_string() })?;
        Ok(routes.remove(at))
    }

    /// Replaces the routes that routers advertised on an interface.
    pub(super) fn replace_advertised(
        &mut self,
        id: IfaceId,
        found: impl Iterator<Item = Route<Ipv6Addr>>,
    ) {
        let routes = &mut self.routes.v6;
        routes.retain(|route| route.origin != Origin::Ra || route.iface != Some(id));
        routes.extend(found);
    }

    /// Removes all routes of an origin that name an interface.
    pub fn remove_routes_of(&mut self, iface: IfaceId, origin: Origin) {
        self.routes.v4.retain(|route| route.origin != origin || route.iface != Some(iface));
        self.routes.v6.retain(|route| route.origin != origin || route.iface != Some(iface));
    }

    /// The interface of this number, to be changed. Callers in this crate keep the rules that the
    /// other methods check.
    pub(crate) fn interface_mut(&mut self, id: IfaceId) -> Result<&mut Interface, StateError> {
        let at = self.position(id)?;
        Ok(&mut self.interfaces[at])
    }

    pub(super) fn position(&self, id: IfaceId) -> Result<usize, StateError> {
        let at = self.interfaces.binary_search_by_key(&id, |iface| iface.id);
        at.map_err(|_| StateError::NoInterface(id.to_string()))
    }
}

fn check_mtu(iface: &Interface, mtu: u16) -> Result<(), StateError> {
    if mtu < MIN_MTU {
        return Err(StateError::MtuTooSmall { name: iface.name.clone(), mtu });
    }
    Ok(())
}
