//! The configuration by operators, DHCP and router advertisements.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use weever_wire::MacAddr;

use super::routes;
use super::{MAX_INTERFACES, MIN_MTU, Settings, StateError};
use crate::addr::{Cidr, Locals};
use crate::group::Filter;
use crate::iface::{IfaceId, Interface};
use crate::route::{Origin, Route, Way};

/// A host's network as it is configured. A method that fails changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetConfig {
    /// Settings of the whole host; free to be changed.
    pub settings: Settings,
    /// By ascending number.
    interfaces: Vec<Interface>,
    /// In the order in which they were added; without the connected ones.
    routes4: Vec<Route<Ipv4Addr>>,
    /// The same.
    pub(super) routes6: Vec<Route<Ipv6Addr>>,
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
        self.routes4.retain(|route| route.iface != Some(id));
        self.routes6.retain(|route| route.iface != Some(id));
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

    /// Gives an interface an address that is used at once, and announced.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::AddressTaken`], [`StateError::UnfitAddress`].
    pub fn add_address(&mut self, id: IfaceId, cidr: Cidr) -> Result<(), StateError> {
        self.check_address(cidr)?;
        self.interface_mut(id)?.v4.add(cidr);
        Ok(())
    }

    /// Gives an interface an address that is used once probes for it have stayed unanswered
    /// (RFC 5227 §2.1).
    ///
    /// # Errors
    /// As [`add_address`](Self::add_address).
    pub fn add_tentative(&mut self, id: IfaceId, cidr: Cidr) -> Result<(), StateError> {
        self.check_address(cidr)?;
        let iface = self.interface_mut(id)?;
        iface.duplicate.remove(cidr.addr());
        iface.tentative.add(cidr);
        Ok(())
    }

    /// Has a tentative address used from now on.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::NoAddress`].
    pub fn confirm_address(&mut self, id: IfaceId, addr: Ipv4Addr) -> Result<(), StateError> {
        let iface = self.interface_mut(id)?;
        let name = || iface.name.clone();
        let missing = StateError::NoAddress { name: name(), addr };
        let cidr = iface.tentative.remove(addr).ok_or(missing)?;
        iface.v4.add(cidr);
        Ok(())
    }

    /// Gives up a tentative address that another station has; it is remembered as a duplicate.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::NoAddress`].
    pub fn refuse_address(&mut self, id: IfaceId, addr: Ipv4Addr) -> Result<(), StateError> {
        let iface = self.interface_mut(id)?;
        let missing = StateError::NoAddress { name: iface.name.clone(), addr };
        let cidr = iface.tentative.remove(addr).ok_or(missing)?;
        iface.duplicate.add(cidr);
        Ok(())
    }

    /// Takes an address from an interface, tentative or not; the prefix that it had.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::NoAddress`].
    pub fn remove_address(&mut self, id: IfaceId, addr: Ipv4Addr) -> Result<Cidr, StateError> {
        let iface = self.interface_mut(id)?;
        let removed = iface.v4.remove(addr).or_else(|| iface.tentative.remove(addr));
        let removed = removed.or_else(|| iface.duplicate.remove(addr));
        removed.ok_or_else(|| StateError::NoAddress { name: iface.name.clone(), addr })
    }

    fn check_address(&self, cidr: Cidr) -> Result<(), StateError> {
        let addr = cidr.addr();
        if let Some(why) = unfit(cidr) {
            return Err(StateError::UnfitAddress { addr, why });
        }
        let has = |iface: &&Interface| iface.v4.is_ours(addr) || iface.tentative.is_ours(addr);
        match self.interfaces.iter().find(has) {
            Some(iface) => Err(StateError::AddressTaken { addr, by: iface.name.clone() }),
            None => Ok(()),
        }
    }

    /// Joins a group on an interface. The group of all hosts is joined always.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::NoGroup`].
    pub fn join(&mut self, id: IfaceId, group: Ipv4Addr) -> Result<(), StateError> {
        let iface = self.interface_mut(id)?;
        if !group.is_multicast() {
            return Err(StateError::NoGroup(group));
        }
        if let Err(at) = iface.groups.binary_search(&group) {
            iface.groups.insert(at, group);
        }
        Ok(())
    }

    /// Leaves a group; false if the interface was not in it.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn leave(&mut self, id: IfaceId, group: Ipv4Addr) -> Result<bool, StateError> {
        let iface = self.interface_mut(id)?;
        let at = iface.groups.binary_search(&group);
        Ok(at.map(|at| iface.groups.remove(at)).is_ok())
    }

    /// Says which groups users of the host want to hear on an interface, ascending, and which of
    /// their sources, beside those that are [joined](Self::join) for all sources.
    ///
    /// # Errors
    /// [`StateError::NoInterface`].
    pub fn set_filters(
        &mut self,
        id: IfaceId,
        filters: Vec<(Ipv4Addr, Filter<Ipv4Addr>)>,
    ) -> Result<(), StateError> {
        self.interface_mut(id)?.filters = filters;
        Ok(())
    }

    /// The routes beside the connected ones, in the order in which they were added.
    pub fn routes4(&self) -> &[Route<Ipv4Addr>] {
        &self.routes4
    }

    /// Adds a route. One whose interface is down, or whose gateway has gone off link later, is kept
    /// and not used meanwhile.
    ///
    /// # Errors
    /// [`StateError::GatewayOffLink`], [`StateError::NoWay`], [`StateError::NoInterface`],
    /// [`StateError::RouteExists`].
    pub fn add_route(&mut self, route: Route<Ipv4Addr>) -> Result<(), StateError> {
        if let Some(id) = route.iface {
            self.position(id)?;
        }
        let near = matches!(route.way, Way::Via(gateway) if self.subnet_of(gateway).is_some());
        let same = |a: &Route<Ipv4Addr>, b: &Route<Ipv4Addr>| (a.to, a.metric) == (b.to, b.metric);
        routes::add(&mut self.routes4, route, near, same)
    }

    /// Removes the first route to exactly these destinations that is of this origin.
    ///
    /// # Errors
    /// [`StateError::RouteMissing`].
    pub fn remove_route_from(
        &mut self,
        to: Cidr,
        origin: Origin,
    ) -> Result<Route<Ipv4Addr>, StateError> {
        let to = to.network();
        let at = self.routes4.iter().position(|r| r.to == to && r.origin == origin);
        let at = at.ok_or_else(|| StateError::RouteMissing { to: to.to_string() })?;
        Ok(self.routes4.remove(at))
    }

    /// Removes all routes of an origin that name an interface.
    pub fn remove_routes_of(&mut self, iface: IfaceId, origin: Origin) {
        self.routes4.retain(|route| route.origin != origin || route.iface != Some(iface));
        self.routes6.retain(|route| route.origin != origin || route.iface != Some(iface));
    }

    /// The interface on whose subnet an address is: that with the longest prefix.
    pub(super) fn subnet_of(&self, addr: Ipv4Addr) -> Option<&Interface> {
        let near = |iface: &Interface| {
            iface.v4.iter().filter(|c| c.contains(addr)).max_by_key(|c| c.prefix_len())
        };
        let found = self.interfaces.iter().filter_map(|i| Some((near(i)?.prefix_len(), i)));
        found.max_by_key(|(len, _)| *len).map(|(_, iface)| iface)
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

/// Why the address cannot be a host's.
fn unfit(cidr: Cidr) -> Option<&'static str> {
    let addr = cidr.addr();
    match addr.octets()[0] {
        0 => Some("of \"this network\""),
        127 => Some("a loopback address"),
        224.. => Some("a group's, reserved or the broadcast address"),
        _ if cidr.broadcast() == Some(addr) => Some("its subnet's broadcast address"),
        _ if cidr.prefix_len() < 31 && cidr.network().addr() == addr => {
            Some("its subnet's own address")
        }
        _ => None,
    }
}
