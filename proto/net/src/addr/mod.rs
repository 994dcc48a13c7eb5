//! The set of our addresses, and the classes of other addresses.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

mod prefix;

pub use prefix::{Address, Cidr, Cidr6, ParseCidrError, Prefix};

/// The class of a destination address (RFC 1122 §3.2.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// One of our addresses.
    Local,
    /// 255.255.255.255, or the broadcast address of a subnet of ours.
    Broadcast,
    /// A group; membership is checked elsewhere.
    Multicast,
    /// Not for us.
    Other,
}

/// Why a source address cannot be that of a datagram from outside (RFC 1122 §3.2.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Martian {
    /// 0.0.0.0/8.
    #[error("source address of \"this network\"")]
    ThisNetwork,
    /// 127.0.0.0/8, which "MUST NOT appear outside a host".
    #[error("loopback source address")]
    Loopback,
    /// A group, or 240.0.0.0/4 with the limited broadcast address.
    #[error("multicast, reserved or broadcast source address")]
    Group,
    /// The broadcast address of a subnet of ours.
    #[error("a subnet's broadcast address as the source")]
    SubnetBroadcast,
    /// One of our own addresses, from outside.
    #[error("our own address as the source")]
    Own,
}

/// A source of our own addresses: one interface's [`Locals`], or a host's whole
/// [`NetState`](crate::state::NetState).
pub trait Ours {
    /// Whether `ip` is one of our addresses.
    fn is_ours(&self, ip: Ipv4Addr) -> bool;
    /// Whether `ip` is the directed broadcast address of one of our subnets.
    fn is_subnet_broadcast(&self, ip: Ipv4Addr) -> bool;

    /// RFC 1122 §3.2.1.3: "A host MUST silently discard an incoming datagram containing an IP
    /// source address that is invalid by the rules of this section."
    ///
    /// # Errors
    /// The rule that `src` breaks.
    #[inline]
    fn check_source(&self, src: Ipv4Addr) -> Result<(), Martian> {
        match src.octets()[0] {
            0 => Err(Martian::ThisNetwork),
            127 => Err(Martian::Loopback),
            224.. => Err(Martian::Group),
            _ if self.is_ours(src) => Err(Martian::Own),
            _ if self.is_subnet_broadcast(src) => Err(Martian::SubnetBroadcast),
            _ => Ok(()),
        }
    }
}

impl Ours for Locals {
    fn is_ours(&self, ip: Ipv4Addr) -> bool {
        Locals::is_ours(self, ip)
    }

    fn is_subnet_broadcast(&self, ip: Ipv4Addr) -> bool {
        Locals::is_subnet_broadcast(self, ip)
    }
}

/// The set of our own addresses and the subnets they are in.
///
/// Few by nature: looked through one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locals {
    cidrs: Vec<Cidr>,
}

impl Locals {
    /// The set of these.
    pub fn new(cidrs: &[Cidr]) -> Self {
        Self { cidrs: cidrs.into() }
    }

    /// Adds an address; false, and nothing changed, if it is there already.
    pub fn add(&mut self, cidr: Cidr) -> bool {
        let fresh = !self.is_ours(cidr.addr());
        if fresh {
            self.cidrs.push(cidr);
        }
        fresh
    }

    /// Removes an address; the prefix that it had, if it was there.
    pub fn remove(&mut self, ip: Ipv4Addr) -> Option<Cidr> {
        let at = self.cidrs.iter().position(|cidr| cidr.addr() == ip)?;
        Some(self.cidrs.remove(at))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cidrs.is_empty()
    }

    /// All of them, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.cidrs.iter().copied()
    }

    /// Whether `ip` is one of our addresses.
    #[inline]
    pub fn is_ours(&self, ip: Ipv4Addr) -> bool {
        self.cidrs.iter().any(|cidr| cidr.addr() == ip)
    }

    /// Whether `ip` is the directed broadcast address of one of our subnets.
    #[inline]
    pub fn is_subnet_broadcast(&self, ip: Ipv4Addr) -> bool {
        self.cidrs.iter().any(|cidr| cidr.broadcast() == Some(ip))
    }

    /// Whether `ip` is on one of our subnets.
    pub fn on_link(&self, ip: Ipv4Addr) -> bool {
        self.cidrs.iter().any(|cidr| cidr.contains(ip))
    }

    /// Our address to speak from to a neighbour: the one with the longest prefix it shares, else
    /// the first.
    pub fn source_for(&self, neighbour: Ipv4Addr) -> Option<Ipv4Addr> {
        let near = self.cidrs.iter().filter(|cidr| cidr.contains(neighbour));
        near.max_by_key(|cidr| cidr.prefix_len()).or(self.cidrs.first()).map(|cidr| cidr.addr())
    }

    /// The class of `dst`.
    #[inline]
    pub fn classify(&self, dst: Ipv4Addr) -> Destination {
        if self.is_ours(dst) {
            Destination::Local
        } else if dst.is_broadcast() || self.is_subnet_broadcast(dst) {
            Destination::Broadcast
        } else if dst.is_multicast() {
            Destination::Multicast
        } else {
            Destination::Other
        }
    }

    /// [`Ours::check_source`].
    ///
    /// # Errors
    /// The rule that `src` breaks.
    #[inline]
    pub fn check_source(&self, src: Ipv4Addr) -> Result<(), Martian> {
        Ours::check_source(self, src)
    }
}

#[cfg(test)]
mod tests;
