//! The addresses of one interface: their states and origins.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::addr::{is_solicited_node, solicited_node};
use crate::addr::{Cidr6, Prefix};

/// The state of an address (RFC 4862 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddrState {
    /// Another station turned out to have it: not used.
    Duplicate,
    /// Not known yet to be ours alone: not used.
    Tentative,
    /// Kept by existing flows, not chosen for new ones.
    Deprecated,
    /// Used.
    Preferred,
}

/// The origin of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddrOrigin {
    /// An operator.
    Static,
    /// Made by ourselves, for the link (RFC 4862 §5.3).
    LinkLocal,
    /// Made of a prefix that a router advertised (RFC 4862 §5.5).
    Autoconf,
}

/// One address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnAddr {
    /// The address and its prefix. The prefix of one that a router's advertisement gave us says
    /// nothing about which addresses are neighbours (RFC 5942 §4).
    pub cidr: Cidr6,
    /// Its state.
    pub state: AddrState,
    /// Its origin.
    pub origin: AddrOrigin,
}

impl OwnAddr {
    /// An operator's address, preferred as it is.
    pub fn preferred(cidr: Cidr6) -> Self {
        Self { cidr, state: AddrState::Preferred, origin: AddrOrigin::Static }
    }

    /// Whether packets to it are for us.
    #[inline]
    pub const fn is_used(&self) -> bool {
        matches!(self.state, AddrState::Preferred | AddrState::Deprecated)
    }
}

/// The set of an interface's addresses. Few by nature: looked through one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locals6 {
    addrs: Vec<OwnAddr>,
}

impl Locals6 {
    /// The set of these, used at once.
    pub fn new(cidrs: &[Cidr6]) -> Self {
        Self { addrs: cidrs.iter().copied().map(OwnAddr::preferred).collect() }
    }

    /// Adds an address, in place of the same one in another state.
    pub fn set(&mut self, own: OwnAddr) {
        match self.addrs.iter_mut().find(|there| there.cidr.addr() == own.cidr.addr()) {
            Some(there) => *there = own,
            None => self.addrs.push(own),
        }
    }

    /// Removes an address and returns it.
    pub fn remove(&mut self, ip: Ipv6Addr) -> Option<OwnAddr> {
        let at = self.addrs.iter().position(|own| own.cidr.addr() == ip)?;
        Some(self.addrs.remove(at))
    }

    /// All of them, in any state.
    pub fn iter(&self) -> impl Iterator<Item = OwnAddr> + '_ {
        self.addrs.iter().copied()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.addrs.is_empty()
    }

    /// The address, in any state.
    pub fn get(&self, ip: Ipv6Addr) -> Option<OwnAddr> {
        self.iter().find(|own| own.cidr.addr() == ip)
    }

    /// Whether packets to `ip` are for us.
    #[inline]
    pub fn is_ours(&self, ip: Ipv6Addr) -> bool {
        self.addrs.iter().any(|own| own.cidr.addr() == ip && own.is_used())
    }

    /// Whether `group` is the solicited-node group of an address, tentative ones included: their
    /// probes have to be heard (RFC 4862 §5.4.2).
    #[inline]
    pub fn in_solicited_node(&self, group: Ipv6Addr) -> bool {
        is_solicited_node(group)
            && self.addrs.iter().any(|own| solicited_node(own.cidr.addr()) == group)
    }

    /// The solicited-node groups of all addresses, each once.
    pub fn groups(&self) -> Vec<Ipv6Addr> {
        let mut groups: Vec<_> = self.iter().map(|own| solicited_node(own.cidr.addr())).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The link-local address, if it may be used.
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        let usable = self.iter().filter(|own| own.is_used()).map(|own| own.cidr.addr());
        usable.into_iter().find(|ip| super::addr::is_link_local(*ip))
    }

    /// Prefixes of operators' addresses, whose other addresses are neighbours, before the addresses
    /// may be used too.
    pub fn on_link(&self) -> impl Iterator<Item = Cidr6> + '_ {
        let ours = self.iter().filter(|own| own.origin != AddrOrigin::Autoconf);
        ours.map(|own| own.cidr.network())
            .filter(|prefix: &Prefix<Ipv6Addr>| prefix.prefix_len() < 128)
    }
}
