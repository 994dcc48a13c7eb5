//! The differences between IPv4 and IPv6: the protocol, and the key of a neighbour.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weever_block::Nanos;
use weever_net::addr::Address;
use weever_net::neighbour::Discovery;
use weever_net::random::{Key, keyed_hash};
use weever_net::state::NetState;

use super::links::Links;
use crate::host::Network;

/// An address of a family.
pub(super) type Ip<F> = <<F as Family>::Key as NeighbourKey>::Ip;
/// A packet of a family's neighbour protocol.
pub(crate) type Sent<F> = <<F as Family>::Machine as Discovery>::Transmit;

/// A family's neighbour protocol on the interfaces of a host.
pub trait Family: Sized + Debug + Send + 'static {
    /// A neighbour.
    type Key: NeighbourKey;
    /// The protocol on one interface.
    type Machine: Discovery<Ip = Ip<Self>> + Debug + Send;

    /// The key of hashes over addresses that peers choose.
    fn secret(&self) -> Key;

    /// The neighbour that a packet asks for, if it asks for one.
    fn asks_for(sent: &Sent<Self>) -> Option<Ip<Self>>;

    /// Makes the links those of the interfaces of `state`; calls `given_up` for each neighbour
    /// that will not be resolved any more.
    fn follow(
        &mut self,
        links: &mut Links<Self::Machine>,
        state: &NetState,
        now: Nanos,
        given_up: impl FnMut(u16, Ip<Self>),
    );

    /// Notes that no other station has a tentative address of an interface.
    fn note_free(&mut self, iface: u16, ip: Ip<Self>);

    /// Reports findings about the host's own addresses and routes to its network. The change comes
    /// back as one to follow, which changes nothing more. Does not wait: false while somebody else
    /// changes the network, when findings are kept for the next call.
    #[must_use]
    fn report(&mut self, links: &mut Links<Self::Machine>, host: &Network) -> bool;
}

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
