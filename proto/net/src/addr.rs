//! Prefixes, and the set of addresses that are ours.

use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;

/// An address and the length of the prefix that it shares with its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    addr: Ipv4Addr,
    prefix_len: u8,
}

impl Cidr {
    /// The prefix of every address.
    pub const ALL: Cidr = Cidr { addr: Ipv4Addr::UNSPECIFIED, prefix_len: 0 };

    /// `addr`/`prefix_len`; `None` if the length exceeds 32.
    pub const fn new(addr: Ipv4Addr, prefix_len: u8) -> Option<Cidr> {
        if prefix_len > 32 { None } else { Some(Cidr { addr, prefix_len }) }
    }

    /// The address, host bits included.
    pub const fn addr(self) -> Ipv4Addr {
        self.addr
    }

    /// Bits of the prefix, at most 32.
    pub const fn prefix_len(self) -> u8 {
        self.prefix_len
    }

    /// Ones where the prefix is.
    pub const fn mask(self) -> u32 {
        (u32::MAX as u64 >> self.prefix_len) as u32 ^ u32::MAX
    }

    /// The same prefix with its host bits cleared.
    pub const fn network(self) -> Cidr {
        let addr = Ipv4Addr::from_bits(self.addr.to_bits() & self.mask());
        Cidr { addr, prefix_len: self.prefix_len }
    }

    /// Whether `ip` begins with the prefix.
    #[inline]
    pub const fn contains(self, ip: Ipv4Addr) -> bool {
        (self.addr.to_bits() ^ ip.to_bits()) & self.mask() == 0
    }

    /// The directed broadcast address; a prefix of 31 (RFC 3021) or 32 bits has none.
    #[inline]
    pub const fn broadcast(self) -> Option<Ipv4Addr> {
        if self.prefix_len >= 31 {
            return None;
        }
        Some(Ipv4Addr::from_bits(self.addr.to_bits() | !self.mask()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix_len)
    }
}

/// Text that is not an address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an IPv4 address with a prefix length from 0 to 32, such as 10.0.0.1/24")]
pub struct ParseCidrError;

impl FromStr for Cidr {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Cidr, ParseCidrError> {
        let (addr, len) = text.split_once('/').ok_or(ParseCidrError)?;
        let digits = len.bytes().all(|b| b.is_ascii_digit());
        let len = len.parse().ok().filter(|_| digits).ok_or(ParseCidrError)?;
        addr.parse().ok().and_then(|addr| Cidr::new(addr, len)).ok_or(ParseCidrError)
    }
}

/// What a destination address means to us (RFC 1122 §3.2.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// One of our addresses.
    Local,
    /// 255.255.255.255, or the broadcast address of a subnet of ours.
    Broadcast,
    /// A group; whether we are in it is asked elsewhere.
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
    /// One of our own addresses, from somebody else.
    #[error("our own address as the source")]
    Own,
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

    /// All of them, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.cidrs.iter().copied()
    }

    /// Whether `ip` is one of our addresses.
    #[inline]
    pub fn is_ours(&self, ip: Ipv4Addr) -> bool {
        self.cidrs.iter().any(|cidr| cidr.addr == ip)
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
        near.max_by_key(|cidr| cidr.prefix_len).or(self.cidrs.first()).map(|cidr| cidr.addr)
    }

    /// What `dst` means to us.
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

    /// RFC 1122 §3.2.1.3: "A host MUST silently discard an incoming datagram containing an IP
    /// source address that is invalid by the rules of this section."
    ///
    /// # Errors
    /// The rule that `src` breaks.
    #[inline]
    pub fn check_source(&self, src: Ipv4Addr) -> Result<(), Martian> {
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

#[cfg(test)]
mod tests;
