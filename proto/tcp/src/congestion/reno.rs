//! Reno: additive increase, multiplicative decrease (RFC 5681).

use super::control::{Acked, Congestion, CongestionControl, MAX_WINDOW, Window};
use crate::Nanos;

/// Reno with appropriate byte counting (RFC 3465).
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno {
    /// Octets that were acknowledged since the window grew last.
    counted: u32,
}

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        if !acked.may_grow {
            return;
        }
        if window.in_slow_start() {
            return window.slow_start(acked.octets);
        }
        // RFC 5681 §3.1: "The RECOMMENDED way to increase cwnd during congestion avoidance is to
        // count the number of bytes that have been acknowledged by ACK segments for new data", and
        // "when the number of bytes acknowledged reaches cwnd, then cwnd can be incremented by up to
        // SMSS bytes".
        self.counted = self.counted.saturating_add(acked.octets);
        if self.counted >= window.cwnd {
            self.counted -= window.cwnd;
            window.cwnd = window.cwnd.saturating_add(window.mss).min(MAX_WINDOW);
        }
    }

    fn reduce(&mut self, window: &Window, _cause: Congestion, _now: Nanos) -> u32 {
        self.counted = 0;
        // RFC 5681 §3.1 (4): "ssthresh = max (FlightSize / 2, 2*SMSS)".
        (window.cwnd / 2).max(2 * window.mss)
    }
}
