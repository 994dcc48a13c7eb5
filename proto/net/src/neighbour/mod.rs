//! The part that ARP and neighbour discovery share: a bounded cache of link addresses, and the trait of
//! the protocol around it.
//!
//! [`Discovery`] is one interface's protocol, [`arp::Cache`](crate::arp::Cache) or
//! [`ndp::Node`](crate::ndp::Node): packets look neighbours up, timers send requests, and the
//! results are read from its [`Entries`]. Each family documents the packets that it learns from.

mod entries;
mod state;
mod table;

pub use entries::Entries;
pub use state::{Demand, Learned, Lookup, Neighbour, State, TableFull};
pub(crate) use table::Answers;
pub(crate) use table::{Entry, NEVER};

use weever_wire::MacAddr;

use crate::addr::Address;

/// An action that [`Discovery::poll`] requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<A, T> {
    /// Send this.
    Send(T),
    /// This neighbour does not answer: drop the packets that wait for it, and report that.
    Unresolved(A),
    /// No other station has this tentative address: use it. IPv4 only;
    /// [`Node::locals`](crate::ndp::Node::locals) tells it of IPv6.
    Free(A),
}

/// The neighbour protocol of one interface.
pub trait Discovery {
    /// An address of its family.
    type Ip: Address;
    /// A packet that it sends.
    type Transmit;

    /// Its neighbours, as far as they are known or asked for.
    fn neighbours(&self) -> &Entries<Self::Ip>;

    /// The same, for an operator to change.
    fn neighbours_mut(&mut self) -> &mut Entries<Self::Ip>;

    /// The link address of the neighbour `ip`, for a packet that is to be sent to it.
    fn lookup(&mut self, ip: Self::Ip, now: u64) -> Lookup<Self::Transmit> {
        self.lookup_for(ip, Demand::Own, now)
    }

    /// [`lookup`](Self::lookup) for this reason.
    fn lookup_for(&mut self, ip: Self::Ip, demand: Demand, now: u64) -> Lookup<Self::Transmit>;

    /// Notes that a reader of a published copy used the entry for `ip`; without this, an entry
    /// goes stale and then away however much it is used.
    fn touch(&mut self, ip: Self::Ip, now: u64);

    /// Takes over a link address that the kernel of this station resolved, as if the neighbour
    /// had answered. `None` if an operator has entered another, or nothing can be evicted for it.
    fn adopt(&mut self, ip: Self::Ip, mac: MacAddr, now: u64) -> Option<Learned<Self::Ip>>;

    /// When [`poll`](Self::poll) has something to do next; `None` if only a call can change that.
    /// It may come early, never late.
    fn poll_at(&self) -> Option<u64>;

    /// Does all work due at `now`: calls `act` for every packet to send and every neighbour that
    /// did not answer. A packet that is not sent counts as lost, and is repeated.
    ///
    /// Costs one look at every entry if something is due, else nothing.
    fn poll(&mut self, now: u64, act: impl FnMut(Action<Self::Ip, Self::Transmit>));
}
