//! The neighbour cache: ARP (RFC 826, RFC 1122 §2.3.2), its states modelled after IPv6's (RFC 4861
//! §7.3.2), and the claims to our own addresses (RFC 5227).
//!
//! ```text
//!            lookup                reply                 unused for `reachable`
//!  (absent) ───────► Incomplete ───────────► Reachable ────────────────► Stale ──► (absent)
//!     ▲                 │  ▲                  │  ▲                         │   unused for `stale`
//!     │ `failed`        │  │ no answer to     │  │ any packet              │ lookup
//!     │ passed          │  │ `unicast_tries`  │  │ from it                 │
//!     └─────── Failed ◄─┘  └──────────────── Probe ◄───────────────────────┘
//!      no answer to `broadcast_tries`         ▲ used within `reachable`: asked before it expires
//!                                             └── Reachable
//! ```
//!
//! [`Cache`] has these kinds of methods:
//! - *per packet*: [`Cache::lookup`] before a datagram is sent, [`Cache::handle`] for every ARP
//!   packet that was received;
//! - *time*: [`Cache::poll`] once [`Cache::poll_at`] has come (it is also safe to call it earlier);
//! - *readers on other threads*: when
//!   [`Entries::generation`](crate::neighbour::Entries::generation) has changed, publish a copy of
//!   [`Entries::resolved`](crate::neighbour::Entries::resolved); report the used entries with
//!   [`Cache::touch`];
//! - *operators*: [`Cache::neighbours_mut`], [`Cache::set_locals`], [`Cache::set_tentative`].

use core::net::Ipv4Addr;

use weever_wire::arp::{ArpRepr, PACKET_LEN, op};
use weever_wire::ethernet::{EthernetRepr, HEADER_LEN, ethertype};
use weever_wire::{MacAddr, WireError};

use crate::SECOND;
use crate::random::Key;

mod cache;
mod claim;
mod receive;

pub use crate::neighbour::{Discovery, State, TableFull};
pub use cache::Cache;

/// Limits and times of a [`Cache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpConfig {
    /// Neighbours that are known or asked for at the same time; at least 2.
    pub capacity: usize,
    /// How long an address is trusted after its neighbour was heard. RFC 1122 §2.3.2.1 wants "on
    /// the order of a minute", RFC 4861 §10 has 30 s.
    pub reachable: u64,
    /// How long an unused address is kept after that.
    pub stale: u64,
    /// Between two requests. RFC 1122 §2.3.2.1: "A mechanism to prevent ARP flooding […] MUST
    /// be included. The recommended maximum rate is 1 per second per destination."
    pub retry: u64,
    /// Requests to all before an unknown neighbour counts as absent.
    pub broadcast_tries: u8,
    /// Requests to a known neighbour before it is asked for by broadcast.
    pub unicast_tries: u8,
    /// How long an absent neighbour is not asked for again.
    pub failed: u64,
    /// Decides which sources share a limit of answers: a secret.
    pub key: Key,
}

impl Default for ArpConfig {
    fn default() -> Self {
        Self {
            capacity: 1024,
            reachable: 30 * SECOND,
            stale: 300 * SECOND,
            retry: SECOND,
            broadcast_tries: 3,
            unicast_tries: 3,
            failed: 3 * SECOND,
            key: [0; 2],
        }
    }
}

/// An entry, for listing.
pub type Neighbour = crate::neighbour::Neighbour<Ipv4Addr>;
/// A link address that was learned.
pub type Learned = crate::neighbour::Learned<Ipv4Addr>;

/// The answer to [`Cache::lookup`].
pub type Lookup<T = Transmit> = crate::neighbour::Lookup<T>;
/// An action that [`Cache::poll`] asks for.
pub type Action = crate::neighbour::Action<Ipv4Addr, Transmit>;

/// An ARP packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transmit {
    /// Station that it goes to.
    pub dst: MacAddr,
    /// The packet; its sender hardware address is the frame's source.
    pub arp: ArpRepr,
}

impl Transmit {
    /// Bytes of the frame, without the padding that a device adds.
    pub const FRAME_LEN: usize = HEADER_LEN + PACKET_LEN;

    /// Writes the whole frame to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`] if `buf` is shorter than [`Transmit::FRAME_LEN`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let ethernet = EthernetRepr { dst: self.dst, src: self.arp.sha, ethertype: ethertype::ARP };
        ethernet.emit(buf)?;
        self.arp.emit(&mut buf[HEADER_LEN..])
    }

    /// A request of this station for the owner of `tpa`; a probe (RFC 5227 §2.1.1) has no `spa`.
    pub fn request(dst: MacAddr, sha: MacAddr, spa: Ipv4Addr, tpa: Ipv4Addr) -> Self {
        Self { dst, arp: ArpRepr { op: op::REQUEST, sha, spa, tha: MacAddr::ZERO, tpa } }
    }
}

/// The classification of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nothing was wrong with it.
    Taken,
    /// Neither request nor reply.
    UnknownOp,
    /// Its sender's address cannot be that of a station or host.
    BadSender,
    /// We sent it ourselves: a loop in the network.
    Loop,
    /// Its sender asked too often of late: not answered.
    Limited,
    /// Another station uses one of our addresses (RFC 5227 §2.4).
    Conflict {
        /// Our address.
        ip: Ipv4Addr,
        /// The station.
        mac: MacAddr,
    },
    /// Another station has an address that we were about to use (RFC 5227 §2.1.1).
    Duplicate {
        /// The address.
        ip: Ipv4Addr,
        /// The station.
        mac: MacAddr,
    },
}

/// The result of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its classification, which names a counter.
    pub verdict: Verdict,
    /// The packet to send.
    pub reply: Option<Transmit>,
    /// The neighbour learned from it.
    pub learned: Option<Learned>,
}

#[cfg(test)]
mod tests;
