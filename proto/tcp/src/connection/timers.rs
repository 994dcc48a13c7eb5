//! The deadlines of a connection. The endpoint's wheel knows the earliest of them.

use crate::{NEVER, Nanos};

/// What is done when the resend timer runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resend {
    /// The retransmission timeout (RFC 6298).
    Timeout,
    /// The tail is probed (RFC 8985 §7).
    Tail,
    /// What was reordered for too long is lost (RFC 8985 §6).
    Reorder,
    /// A closed window is probed (RFC 9293 §3.8.6.1).
    Window,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    pub(crate) resend: Nanos,
    pub(crate) kind: Resend,
    /// An acknowledgement is held back until then.
    pub(crate) ack: Nanos,
    pub(crate) keep_alive: Nanos,
    /// TIME-WAIT or FIN-WAIT-2 ends.
    pub(crate) end: Nanos,
    /// The next segment may go out (pacing).
    pub(crate) pace: Nanos,
    /// When the next segment would leave at the pace of the window.
    pub(crate) pace_next: Nanos,
    /// RACK's reordering timer, while it runs.
    pub(crate) reorder: Nanos,
    /// The retransmission timeout counts from here.
    pub(crate) base: Nanos,
    /// SND.UNA advanced, or something was sent when nothing was in flight.
    pub(crate) progress: Nanos,
    /// The last acceptable segment came.
    pub(crate) heard: Nanos,
    /// An answer to an unacceptable segment was sent.
    pub(crate) challenged: Nanos,
}

impl Timers {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            resend: NEVER,
            kind: Resend::Timeout,
            ack: NEVER,
            keep_alive: NEVER,
            end: NEVER,
            pace: NEVER,
            pace_next: 0,
            reorder: NEVER,
            base: now,
            progress: now,
            heard: now,
            challenged: 0,
        }
    }
}
