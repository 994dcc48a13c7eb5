//! What ARP and neighbour discovery have in common: a bounded cache of who has which link address,
//! and the shape of the protocol around it.
//!
//! [`Discovery`] is one interface's protocol, [`arp::Cache`](crate::arp::Cache) or
//! [`ndp::Node`](crate::ndp::Node): packets look neighbours up, time asks them, what was found is
//! read from its [`Entries`]. Which packets teach it what, each family says for itself.

use weever_wire::MacAddr;

use crate::addr::Address;

mod entries;
mod table;

pub use entries::Entries;
pub(crate) use table::{Entry, NEVER};

/// Where an entry stands; see the pictures in [`arp`](crate::arp) and [`ndp`](crate::ndp).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Asked for; the address is not known yet.
    Incomplete,
    /// Heard recently.
    Reachable,
    /// Not heard for a while, and not used.
    Stale,
    /// Not heard for a while, but used: asked soon, unless it is heard before. IPv6 only.
    Delay,
    /// Not heard for a while, but used: being asked, and usable meanwhile.
    Probe,
    /// Did not answer.
    Failed,
    /// Entered by an operator: never ages, and packets do not change it.
    Static,
}

impl State {
    /// Whether an entry in this state has a link address.
    #[inline]
    pub const fn is_resolved(self) -> bool {
        !matches!(self, State::Incomplete | State::Failed)
    }
}

/// An entry, for listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour<A> {
    /// Its address.
    pub ip: A,
    /// Its link address, if it is known.
    pub mac: Option<MacAddr>,
    /// Where it stands.
    pub state: State,
    /// When it was last heard, or was first asked for.
    pub heard_at: u64,
    /// When it was last looked up or touched.
    pub used_at: Option<u64>,
}

/// A link address that was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned<A> {
    /// Of whom.
    pub ip: A,
    /// The address.
    pub mac: MacAddr,
    /// Whether it was asked for, so that packets may be waiting.
    pub resolves: bool,
    /// The address that it replaces: the neighbour moved, or somebody lies.
    pub replaces: Option<MacAddr>,
}

/// Every entry is static or still being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neighbour table is full of static and unanswered entries: raise its capacity")]
pub struct TableFull;

/// The answer to [`Discovery::lookup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// Send it here.
    Hit(MacAddr),
    /// Already asked for: keep the packet until [`Learned::ip`] or [`Action::Unresolved`] names the
    /// address.
    Incomplete,
    /// As [`Lookup::Incomplete`], and send this question now.
    MissSendRequest(T),
    /// It did not answer a moment ago: drop the packet.
    Failed,
    /// Too many questions are open, or every entry is static: drop the packet.
    Full,
}

/// What [`Discovery::poll`] wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<A, T> {
    /// Send this.
    Send(T),
    /// This neighbour does not answer: drop what waits for it, and tell whom it concerns.
    Unresolved(A),
    /// Nobody has this tentative address: use it. IPv4 only;
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
    fn lookup(&mut self, ip: Self::Ip, now: u64) -> Lookup<Self::Transmit>;

    /// Notes that a reader of a published copy used the entry for `ip`; without this, an entry
    /// goes stale and then away however much it is used.
    fn touch(&mut self, ip: Self::Ip, now: u64);

    /// Takes over a link address that somebody else on this station found out, as if the neighbour
    /// had answered. `None` if an operator has entered another, or nothing can be evicted for it.
    fn adopt(&mut self, ip: Self::Ip, mac: MacAddr, now: u64) -> Option<Learned<Self::Ip>>;

    /// When [`poll`](Self::poll) has something to do next; `None` if only a call can change that.
    /// It may come early, never late.
    fn poll_at(&self) -> Option<u64>;

    /// Does what is due at `now`: calls `act` for every packet to send and every neighbour that did
    /// not answer. A packet that is not sent counts as lost, and is repeated.
    ///
    /// Costs one look at every entry if something is due, else nothing.
    fn poll(&mut self, now: u64, act: impl FnMut(Action<Self::Ip, Self::Transmit>));
}
