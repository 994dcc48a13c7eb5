//! The deadlines of a connection. The endpoint's wheel knows the earliest of them.

use weever_net::MILLIS;

use crate::{NEVER, Nanos};

/// The action when the resend timer runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resend {
    /// The retransmission timeout (RFC 6298).
    Timeout,
    /// The tail is probed (RFC 8985 §7).
    Tail,
    /// Segments reordered for too long are lost (RFC 8985 §6).
    Reorder,
    /// A closed window is probed (RFC 9293 §3.8.6.1).
    Window,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    pub(crate) resend: Nanos,
    /// An acknowledgement is held back until then.
    pub(crate) ack: Nanos,
    pub(crate) keep_alive: Nanos,
    /// TIME-WAIT or FIN-WAIT-2 ends.
    pub(crate) end: Nanos,
    /// The retransmission timeout counts from here.
    pub(crate) base: Nanos,
    /// SND.UNA advanced, or something was sent when nothing was in flight; in [`millis`].
    pub(crate) progress: u32,
    /// The last acceptable segment came; in [`millis`].
    pub(crate) heard: u32,
}

impl Timers {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            resend: NEVER,
            ack: NEVER,
            keep_alive: NEVER,
            end: NEVER,
            base: now,
            progress: millis(now),
            heard: millis(now),
        }
    }

    /// How long nothing acceptable has come; counted anew after 49 days.
    #[inline]
    pub(crate) fn silence(&self, now: Nanos) -> Nanos {
        since(self.heard, now)
    }

    /// How long SND.UNA has not advanced; counted anew after 49 days.
    pub(crate) fn standstill(&self, now: Nanos) -> Nanos {
        since(self.progress, now)
    }
}

/// Times that need not be precise, in 32 bits.
#[inline]
pub(crate) fn millis(now: Nanos) -> u32 {
    (now / MILLIS) as u32
}

fn since(then: u32, now: Nanos) -> Nanos {
    Nanos::from(millis(now).wrapping_sub(then)) * MILLIS
}
