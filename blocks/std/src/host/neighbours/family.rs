//! What IPv4 and IPv6 do differently.

use std::fmt::Debug;

use weever_block::Nanos;
use weever_net::neighbour::Discovery;
use weever_net::state::NetState;

use super::super::Network;
use super::at::At;
use super::links::Links;

/// An address of a family.
pub(super) type Ip<F> = <<F as Family>::At as At>::Ip;
/// A packet of a family's neighbour protocol.
pub(crate) type Sent<F> = <<F as Family>::Machine as Discovery>::Transmit;

/// A family's neighbour protocol on the interfaces of a host.
pub trait Family: Sized + Debug + Send + 'static {
    /// A neighbour.
    type At: At;
    /// The protocol on one interface.
    type Machine: Discovery<Ip = Ip<Self>> + Debug + Send;

    /// The neighbour that a packet asks for, if it asks for one.
    fn asks_for(sent: &Sent<Self>) -> Option<Ip<Self>>;

    /// Makes the links those of the interfaces of `state`; calls `in_vain` for each neighbour that
    /// packets may wait for in vain from now on.
    fn follow(
        &mut self,
        links: &mut Links<Self::Machine>,
        state: &NetState,
        now: Nanos,
        in_vain: impl FnMut(u16, Ip<Self>),
    );

    /// Notes that nobody has a tentative address of an interface.
    fn note_free(&mut self, iface: u16, ip: Ip<Self>);

    /// Has the host's network know what was found out about its own addresses and routes. The change
    /// comes back as one to follow, which changes nothing more.
    fn report(&mut self, links: &mut Links<Self::Machine>, host: &Network);
}
