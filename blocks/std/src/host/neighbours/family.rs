//! The differences between IPv4 and IPv6.

use std::fmt::Debug;

use weever_block::Nanos;
use weever_net::neighbour::Discovery;
use weever_net::random::Key;
use weever_net::state::NetState;

use super::super::Network;
use super::key::NeighbourKey;
use super::links::Links;

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
    /// back as one to follow, which changes nothing more.
    fn report(&mut self, links: &mut Links<Self::Machine>, host: &Network);
}
