//! The duties of every link, as a suite that runs against a link and its other end.
//!
//! A link's tests implement [`Peer`], make a [`Setup`] and call [`suite`]. Each behaviour is also a
//! function of its own. A violation panics with the behaviour's name. A queue has to hold at least
//! 100 packets in either direction, and the pool more than its rings.

mod bench;
mod ends;
mod receive;
mod send;

pub use bench::{ETHERTYPE, Peer, Setup};
pub use ends::{conserves_buffers, reports_a_gone_peer};
pub use receive::{
    receives_every_length, receives_from_slot_zero, receives_in_order, respects_max,
    survives_an_exhausted_pool,
};
pub use send::{
    counts_what_cannot_be_sent, flushes_what_it_took, holds_back_when_full, sends_every_length,
    sends_in_order,
};

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
