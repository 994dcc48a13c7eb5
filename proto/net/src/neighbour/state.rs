//! The state of a neighbour, and the results of looking one up.

use weever_wire::MacAddr;

/// The state of an entry; see the pictures in [`arp`](crate::arp) and [`ndp`](crate::ndp).
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
    /// Its state.
    pub state: State,
    /// When it was last heard, or was first asked for.
    pub heard_at: u64,
    /// When it was last looked up or touched.
    pub used_at: Option<u64>,
}

/// A link address that was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned<A> {
    /// The neighbour's address.
    pub ip: A,
    /// The address.
    pub mac: MacAddr,
    /// Whether it was asked for, so that packets may be waiting.
    pub resolves: bool,
    /// The address that it replaces: the neighbour moved, or a station lies.
    pub replaces: Option<MacAddr>,
}

/// The reason for looking a neighbour up. Strangers decide how many packets are answered or forwarded
/// and for which neighbours: RFC 6583 §7.1 has them leave room for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Demand {
    /// Traffic of this host's own making.
    Own,
    /// An answer, or a packet that is forwarded.
    Provoked,
}

/// Every entry is static or still being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neighbour table is full of static and unanswered entries: raise its capacity")]
pub struct TableFull;

/// The answer to [`Discovery::lookup`](super::Discovery::lookup).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// Send it here.
    Hit(MacAddr),
    /// Already asked for: keep the packet until [`Learned::ip`] or
    /// [`Action::Unresolved`](super::Action::Unresolved) names the address.
    Incomplete,
    /// As [`Lookup::Incomplete`], and send this question now.
    MissSendRequest(T),
    /// It did not answer a moment ago: drop the packet.
    Failed,
    /// Too many questions are open, or every entry is static: drop the packet.
    Full,
}
