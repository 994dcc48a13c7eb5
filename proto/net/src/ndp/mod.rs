//! Neighbour discovery (RFC 4861) and address autoconfiguration (RFC 4862) of one interface.
//!
//! ```text
//!            lookup               solicited                unheard for `reachable`
//!  (absent) ───────► Incomplete ────────────► Reachable ─────────────────────────► Stale ─► (absent)
//!     ▲                 │  ▲  answer              ▲  ▲ solicited answer              │  unused
//!     │ `failed`        │  │ no answer to         │  └────────────── Probe            │ used
//!     │ passed          │  │ `unicast_tries`      │                    ▲   `delay`    ▼
//!     └─────── Failed ◄─┘  └──────────────────────┼─────────────────── └──────────  Delay
//!      no answer to `multicast_tries`             └─── confirmed by a transport ─────┘
//! ```
//!
//! [`Node`] is a state machine without I/O. It has these kinds of methods:
//! - *per packet*: [`Node::lookup`] before a packet is sent, [`Node::handle`] for every neighbour
//!   discovery message that was received;
//! - *time*: [`Node::poll`] once [`Node::poll_at`] has come (it is also safe to call it earlier);
//! - *readers on other threads*: when
//!   [`Entries::generation`](crate::neighbour::Entries::generation) has changed, publish a copy of
//!   [`Entries::resolved`](crate::neighbour::Entries::resolved); report the used entries with
//!   [`Node::touch`];
//! - *configuration*: when [`Node::config_generation`] has changed, read
//!   [`Node::locals`], [`Node::default_router`], [`Node::on_link`] and [`Node::params`];
//! - *operators*: [`Node::add_address`], [`Node::remove_address`], [`Node::neighbours_mut`].
//!
//! Everything that a neighbour can make us remember is bounded. Claims that any station of the link
//! may make are believed as far as the RFCs say: a message has to come with a hop limit of 255,
//! which no router passes on; one's own address is not given up once it was found unique; an unused
//! neighbour cannot evict one that is used.

use core::net::Ipv6Addr;

use weever_wire::MacAddr;
use weever_wire::ndp::NdpRepr;

use crate::{MILLIS, SECOND};

mod address;
mod cache;
mod node;
mod receive;
mod router;
#[cfg(test)]
mod tests;

pub use crate::neighbour::{Discovery, State, TableFull};
pub use node::Node;
pub use router::Params;

/// An entry of the cache, for listing.
pub type Neighbour = crate::neighbour::Neighbour<Ipv6Addr>;
/// A link address that was learned.
pub type Learned = crate::neighbour::Learned<Ipv6Addr>;

/// Where interface identifiers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identifier {
    /// A keyed hash of prefix, station and this secret (RFC 7217): the same in one network, another
    /// in every other.
    Stable([u64; 2]),
    /// The link address (RFC 4291 appendix A).
    Eui64,
}

/// Limits and times of a [`Node`], with the defaults of RFC 4861 §10 and RFC 4862 §5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdpConfig {
    /// Neighbours that are known or asked for at the same time; at least 2.
    pub capacity: usize,
    /// BASE_REACHABLE_TIME, before a router says otherwise and chance makes it half to one and a
    /// half of that.
    pub reachable: u64,
    /// RETRANS_TIMER, before a router says otherwise: between two solicitations.
    pub retrans: u64,
    /// DELAY_FIRST_PROBE_TIME.
    pub delay: u64,
    /// How long an unused address is kept after it went stale.
    pub stale: u64,
    /// MAX_MULTICAST_SOLICIT: solicitations to all before a neighbour counts as absent.
    pub multicast_tries: u8,
    /// MAX_UNICAST_SOLICIT: solicitations to a known neighbour before it is looked for again.
    pub unicast_tries: u8,
    /// How long an absent neighbour is not asked for again.
    pub failed: u64,
    /// DupAddrDetectTransmits; 0: addresses are used without asking.
    pub dad_transmits: u8,
    /// Whether router advertisements make routes and addresses. Not in a router.
    pub accept_ra: bool,
    /// Whether we are a router, and say so.
    pub router: bool,
    /// Whether a link-local address is made.
    pub link_local: bool,
    /// Where interface identifiers come from.
    pub identifier: Identifier,
    /// The link's MTU, which a router may only lower.
    pub mtu: u16,
}

impl Default for NdpConfig {
    fn default() -> Self {
        Self {
            capacity: 1024,
            reachable: 30 * SECOND,
            retrans: SECOND,
            delay: 5 * SECOND,
            stale: 600 * SECOND,
            multicast_tries: 3,
            unicast_tries: 3,
            failed: 3 * SECOND,
            dad_transmits: 1,
            accept_ra: true,
            router: false,
            link_local: true,
            identifier: Identifier::Eui64,
            mtu: 1500,
        }
    }
}

/// Default routers that are remembered.
pub const MAX_ROUTERS: usize = 8;
/// Prefixes that are remembered to be on the link.
pub const MAX_PREFIXES: usize = 16;
/// Addresses of one interface, of all origins.
pub const MAX_ADDRESSES: usize = 32;
/// Router advertisements that are looked at in a second, and at once.
const ADVERTS: (u32, u32) = (10, 20);
/// MAX_RTR_SOLICITATION_DELAY: a node that starts waits for a random part of it.
const START_DELAY: u64 = SECOND;
/// The reachable time is chosen at random again after this (RFC 4861 §6.3.4: "a few hours").
const REACHABLE_RENEWAL: u64 = 7200 * SECOND;
/// A solicitation before the last one was sent (RFC 4861 §7.2.2) is counted in milliseconds.
const MIN_RETRANS: u64 = 100 * MILLIS;

/// RFC 4861 §7.2.6, §10: MAX_NEIGHBOR_ADVERTISEMENT is 3; as many as ARP announcements (RFC 5227 §1.1).
const ANNOUNCE_NUM: u8 = 2;

/// A message to send: between these addresses, with a hop limit of 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Station that it goes to; `None`: it has to be looked up first.
    pub mac: Option<MacAddr>,
    /// Our address; unspecified in probes.
    pub src: Ipv6Addr,
    /// Its destination.
    pub dst: Ipv6Addr,
    /// The message.
    pub message: NdpRepr<'static>,
}

/// An action that [`Node::poll`] requests; never [`Action::Free`](crate::neighbour::Action::Free).
pub type Action = crate::neighbour::Action<Ipv6Addr, Transmit>;
/// The answer to [`Node::lookup`].
pub type Lookup<T = Transmit> = crate::neighbour::Lookup<T>;

/// A message as it came, by a packet with the hop limit 255 and the code 0: RFC 4861 §6.1, §7.1, §8.1, "the
/// packet could not possibly have been forwarded by a router". A step before this one has seen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The packet's source.
    pub src: Ipv6Addr,
    /// The packet's destination.
    pub dst: Ipv6Addr,
    /// The whole ICMPv6 message; its checksum was verified.
    pub message: &'a [u8],
}

/// Why a message is ignored; each is the name of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    /// It is cut short, or an option has no length.
    #[error("malformed neighbour discovery message")]
    Malformed,
    /// Its addresses contradict its contents.
    #[error("neighbour discovery message between impossible addresses")]
    Addresses,
    /// It asks for an address of others, or tells of a neighbour that we have nothing to do with.
    #[error("neighbour discovery between others")]
    NotOurs,
    /// Another station uses an address of ours.
    #[error("another station uses our IPv6 address")]
    Conflict,
    /// Our own message came back (RFC 7527).
    #[error("our own neighbour discovery message came back")]
    Loop,
    /// Too many of its kind came lately.
    #[error("too many neighbour discovery messages")]
    Limited,
    /// A router's advice that is not taken.
    #[error("router advertisements or redirects are not accepted")]
    NotAccepted,
    /// No room to remember its contents.
    #[error("no room for another router, prefix or address")]
    Full,
}

/// The effects of a message that was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The message to send.
    pub reply: Option<Transmit>,
    /// The link address that was learned.
    pub learned: Option<Learned>,
    /// A better first hop for a destination, from its router: the destination, then the hop.
    pub redirect: Option<(Ipv6Addr, Ipv6Addr)>,
    /// Whether a router advertised a hop limit that is too low to be taken over.
    pub low_hop_limit: bool,
}
