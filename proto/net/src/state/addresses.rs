//! The addresses of interfaces: an operator's, DHCP's and those of neighbour discovery.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::{NetConfig, StateError};
use crate::addr::{Cidr, Cidr6};
use crate::iface::{IfaceId, Interface};
use crate::ipv6::addr::is_link_local;
use crate::ipv6::{AddrOrigin, AddrState, Locals6, OwnAddr};
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
        if let Some(why) = unfit4(cidr) {
            return Err(StateError::UnfitAddress { addr, why });
        }
        let has = |iface: &&Interface| iface.v4.is_ours(addr) || iface.tentative.is_ours(addr);
        match self.interfaces().iter().find(has) {
            Some(iface) => Err(StateError::AddressTaken { addr, by: iface.name.clone() }),
            None => Ok(()),
        }
    }

    /// Gives an interface an IPv6 address, which is used once duplicate address detection has passed (RFC 4862
    /// §5.4).
    /// The interface speaks IPv6 from then on.
    ///
    /// # Errors
    /// [`StateError::NoInterface`], [`StateError::AddressTaken6`], [`StateError::UnfitAddress6`].
    pub fn add_address6(&mut self, id: IfaceId, cidr: Cidr6) -> Result<(), StateError> {
        let addr = cidr.addr();
        if let Some(why) = unfit6(addr) {
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
        let by = |route: Route<Ipv6Addr>| route.by(id).from(Origin::Ra);
        let near = found.on_link.into_iter().map(|prefix| Route::new(prefix, Way::OnLink));
        let far = found.router.map(|router| Route::via(Cidr6::ALL, router).with_metric(1024));
        self.replace_advertised(id, near.chain(far).map(by));
        Ok(())
    }
}

/// Why the IPv4 address cannot be a host's.
fn unfit4(cidr: Cidr) -> Option<&'static str> {
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

/// Why the IPv6 address cannot be a host's.
fn unfit6(addr: Ipv6Addr) -> Option<&'static str> {
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
