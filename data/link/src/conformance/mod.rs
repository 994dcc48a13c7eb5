//! What every link has to do, as a suite that runs against a link and whatever is at its other end.
//!
//! A link's tests implement [`Peer`], make a [`Setup`] and call [`suite`]. Each behaviour is also a
//! function of its own. A violation panics with the behaviour's name. A queue has to hold at least
//! 100 packets in either direction, and the pool more than its rings.

mod bench;
mod ends;
mod receive;
mod send;

pub use ends::{conserves_buffers, reports_a_gone_peer};
pub use receive::{
    receives_every_length, receives_from_slot_zero, receives_in_order, respects_max,
    survives_an_exhausted_pool,
};
pub use send::{
    counts_what_cannot_be_sent, flushes_what_it_took, holds_back_when_full, sends_every_length,
    sends_in_order,
};

use weever_packet::Pool;

use crate::Link;

/// The other end of the link under test.
pub trait Peer {
    /// Sends a frame that arrives at the link's queue `queue`; false if there is no room now.
    fn send(&mut self, queue: u16, frame: &[u8]) -> bool;

    /// The next frame that the link has sent, waiting up to 100 ms for it, and the queue it was
    /// sent on if that can be told. Frames that are not the suite's own are left out.
    fn receive(&mut self) -> Option<(Option<u16>, Vec<u8>)>;

    /// Goes away for good. False if it cannot.
    fn leave(&mut self) -> bool {
        false
    }
}

/// A fresh link, its pool, and the other end.
pub struct Setup {
    /// The link under test, its queues not taken.
    pub link: Box<dyn Link>,
    /// The pool its frames come from; nothing of it is in use except by the link.
    pub pool: Pool,
    /// The other end.
    pub peer: Box<dyn Peer>,
}

/// Runs every behaviour on a fresh set-up.
///
/// # Panics
/// When the link violates one.
pub fn suite(mut make: impl FnMut() -> Setup) {
    receives_in_order(make());
    receives_every_length(make());
    receives_from_slot_zero(make());
    respects_max(make());
    survives_an_exhausted_pool(make());
    sends_in_order(make());
    sends_every_length(make());
    holds_back_when_full(make());
    counts_what_cannot_be_sent(make());
    flushes_what_it_took(make());
    conserves_buffers(make());
    reports_a_gone_peer(make());
}

/// The EtherType of the suite's frames: IEEE 802 local experimental 1 (RFC 7042 §B.2), which no
/// kernel answers. A peer on a shared medium filters by it.
pub const ETHERTYPE: u16 = 0x88b5;
