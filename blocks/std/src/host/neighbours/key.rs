//! A neighbour: the interface that it is at, and its address.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weever_net::addr::Address;
use weever_net::random::{Key, keyed_hash};

/// A neighbour of some family, in the form in which snapshots are searched for it.
pub trait NeighbourKey: Copy + Ord + Debug + Send + Sync + 'static {
    /// An address of the family.
    type Ip: Address + Into<IpAddr> + Send;

    /// Of an interface and an address there.
    fn new(iface: u16, ip: Self::Ip) -> Self;

    /// The interface and the address.
    fn parts(self) -> (u16, Self::Ip);

    /// The key that packets wait for the neighbour by: a hash under `secret`, so that a sender cannot choose
    /// neighbours that share one. Those that do wake each other's packets, which look again and wait on.
    fn wait_key(self, secret: Key) -> u64;
}

/// Both in one word, which is quick to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key4(u64);

impl NeighbourKey for Key4 {
    type Ip = Ipv4Addr;

    #[inline(always)]
    fn new(iface: u16, ip: Ipv4Addr) -> Key4 {
        Key4(u64::from(iface) << 32 | u64::from(ip.to_bits()))
    }

    #[inline(always)]
    fn parts(self) -> (u16, Ipv4Addr) {
        ((self.0 >> 32) as u16, Ipv4Addr::from_bits(self.0 as u32))
    }

    /// Unique as it is.
    #[inline(always)]
    fn wait_key(self, _: Key) -> u64 {
        self.0
    }
}

/// Interface, then address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key6(u16, Ipv6Addr);

impl NeighbourKey for Key6 {
    type Ip = Ipv6Addr;

    #[inline(always)]
    fn new(iface: u16, ip: Ipv6Addr) -> Key6 {
        Key6(iface, ip)
    }

    #[inline(always)]
    fn parts(self) -> (u16, Ipv6Addr) {
        (self.0, self.1)
    }

    fn wait_key(self, secret: Key) -> u64 {
        let bits = self.1.to_bits();
        keyed_hash(secret, &[self.0.into(), (bits >> 64) as u64, bits as u64])
    }
}
