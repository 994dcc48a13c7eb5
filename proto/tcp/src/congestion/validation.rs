//! The window while it is not what congestion control says: validation of one that the application does not
//! use (RFC 7661), and proportional rate reduction, which says how much is sent while losses are repaired
//! (RFC 9937).

use weever_net::SECOND;
use weever_wire::tcp::Seq;

use super::control::{MAX_WINDOW, Window};
use crate::Nanos;

/// RFC 7661 §4.1: the non-validated period, in seconds.
const PERIOD: u32 = 300;

/// pipeACK: how much was really acknowledged in a round trip, of the last two that were measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validation {
    round_end: Seq,
    /// Octets acknowledged in this round; [`NO_ROUND`] before the first one.
    octets: u32,
    /// The most octets that were in flight in this round.
    peak: u32,
    /// The rounds before; 0 stands for "undefined" (§4.2).
    rounds: [u32; 2],
    /// The second in which the window was last known to be used; 0 before the first one.
    valid_at: u32,
}

const NO_ROUND: u32 = u32::MAX;

impl Default for Validation {
    fn default() -> Self {
        Self { round_end: Seq(0), octets: NO_ROUND, peak: 0, rounds: [0; 2], valid_at: 0 }
    }
}

impl Validation {
    /// Notes the octets in flight after some were sent.
    #[inline]
    pub(crate) fn sent(&mut self, flight: u32) {
        self.peak = self.peak.max(flight);
    }

    /// Whether more than half of a window in slow start was in flight at once in this round. So the window grows
    /// to twice the amount that the application uses, and does not limit its next octets.
    pub(crate) fn is_half_used(&self, window: &Window) -> bool {
        window.in_slow_start() && self.peak > window.cwnd / 2
    }

    /// Counts octets that were acknowledged.
    #[inline]
    pub(crate) fn acked(&mut self, octets: u32, una: Seq, nxt: Seq) {
        if self.octets == NO_ROUND {
            (self.octets, self.round_end) = (0, nxt);
            return;
        }
        self.octets = self.octets.saturating_add(octets).min(NO_ROUND - 1);
        if una.ge(self.round_end) {
            self.rounds = [self.octets, self.rounds[0]];
            (self.octets, self.round_end, self.peak) = (0, nxt, (nxt - una).saturating_add(octets));
        }
    }

    fn pipe_ack(&self) -> u32 {
        let octets = if self.octets == NO_ROUND { 0 } else { self.octets };
        self.rounds[0].max(self.rounds[1]).max(octets)
    }

    /// §4.3: "Validated phase: pipeACK >=(1/2)*cwnd"; also while pipeACK is undefined.
    pub(crate) fn is_valid(&self, window: &Window) -> bool {
        self.rounds[0] == 0 || self.pipe_ack() >= window.cwnd / 2
    }

    /// The value that counts as the window when it has to be reduced. §4.4.1: "cwnd = Max(pipeACK,
    /// LossFlightSize)" in the non-validated phase.
    pub(crate) fn used(&self, window: &Window, flight: u32) -> u32 {
        if self.is_valid(window) {
            return window.cwnd;
        }
        window.cwnd.min(self.pipe_ack().max(flight)).max(window.mss)
    }

    /// Before something is sent: §4.4.3, at the end of the non-validated period "ssthresh =
    /// max(ssthresh, 3*cwnd/4)" and "cwnd = max(1/2*cwnd, IW)".
    pub(crate) fn before_sending(&mut self, window: &mut Window, initial: u32, now: Nanos) {
        let second = ((now / SECOND) as u32).max(1);
        if self.valid_at == 0 || self.is_valid(window) {
            self.valid_at = second;
        } else if second.wrapping_sub(self.valid_at) >= PERIOD {
            if window.ssthresh < MAX_WINDOW {
                window.ssthresh = window.ssthresh.max(window.cwnd / 4 * 3);
            }
            window.cwnd = (window.cwnd / 2).max(initial).min(window.cwnd.max(initial));
            self.valid_at = second;
        }
    }
}

/// The state of one recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prr {
    /// prr_delivered: octets delivered since recovery began.
    delivered: u32,
    /// prr_out: octets sent since then.
    out: u32,
    /// RecoverFS: octets in flight when it began.
    flight: u32,
}

impl Prr {
    /// Before any recovery.
    pub(crate) const NONE: Prr = Prr { delivered: 0, out: 0, flight: 1 };

    /// §6: "prr_delivered = prr_out = 0", RecoverFS is the flight without the octets delivered
    /// already.
    pub(crate) fn begin(flight: u32) -> Self {
        Self { delivered: 0, out: 0, flight: flight.max(1) }
    }

    pub(crate) fn sent(&mut self, octets: u32) {
        self.out = self.out.saturating_add(octets);
    }

    /// Sets cwnd after an acknowledgement which delivered so many octets. `pipe`: octets in flight;
    /// `safe`: SND.UNA advanced, and no further loss was found.
    pub(crate) fn acked(&mut self, window: &mut Window, delivered: u32, pipe: u32, safe: bool) {
        self.delivered = self.delivered.saturating_add(delivered);
        let mut count = if pipe > window.ssthresh {
            // "sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out".
            let share = u64::from(self.delivered) * u64::from(window.ssthresh);
            let share = share.div_ceil(u64::from(self.flight));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_sub(self.out)
        } else {
            // PRR-SSRB while it is safe, else PRR-CRB.
            let mut count = self.delivered.saturating_sub(self.out).max(delivered);
            if safe {
                count = count.saturating_add(window.mss);
            }
            count.min(window.ssthresh - pipe)
        };
        if self.out == 0 && count == 0 {
            // "Force a fast retransmit upon entering recovery".
            count = window.mss;
        }
        window.cwnd = pipe.saturating_add(count).max(window.mss);
    }
}
