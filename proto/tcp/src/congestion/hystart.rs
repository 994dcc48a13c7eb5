//! HyStart++: leaving slow start before the queue is full (RFC 9406).

use weever_wire::tcp::Seq;

use super::control::{Acked, Window};

// RFC 9406 §4.3, times in microseconds.
const MIN_RTT_THRESH: u32 = 4_000;
const MAX_RTT_THRESH: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const RTT_SAMPLES: u8 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u8 = 5;

const NONE: u32 = u32::MAX;

/// The state of one slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyStart {
    round_end: Option<Seq>,
    last_min: u32,
    current_min: u32,
    /// cssBaselineMinRtt; [`NONE`] outside conservative slow start.
    baseline: u32,
    samples: u8,
    css_rounds: u8,
}

impl Default for HyStart {
    fn default() -> Self {
        Self {
            round_end: None,
            last_min: NONE,
            current_min: NONE,
            baseline: NONE,
            samples: 0,
            css_rounds: 0,
        }
    }
}

impl HyStart {
    /// Slow start for one acknowledgement; ends it by setting ssthresh.
    pub(crate) fn acked(&mut self, window: &mut Window, acked: &Acked) {
        self.rounds(acked);
        if let Some(rtt) = acked.rtt {
            self.current_min = self.current_min.min(u32::try_from(rtt / 1000).unwrap_or(NONE - 1));
            self.samples = self.samples.saturating_add(1);
        }
        if self.baseline == NONE {
            window.slow_start(acked.octets);
            self.look_for_delay();
            return;
        }
        // "cwnd = cwnd + (min(N, L * SMSS) / CSS_GROWTH_DIVISOR)".
        window.slow_start(acked.octets.min(2 * window.mss) / CSS_GROWTH_DIVISOR);
        // "If currentRoundMinRTT >= cssBaselineMinRtt, remain; else resume slow start."
        if self.samples >= RTT_SAMPLES && self.current_min < self.baseline {
            self.baseline = NONE;
        } else if self.css_rounds >= CSS_ROUNDS {
            // "If CSS_ROUNDS rounds are complete, enter congestion avoidance: ssthresh = cwnd".
            window.ssthresh = window.cwnd;
        }
    }

    /// Begins a round when the last one's window was acknowledged.
    fn rounds(&mut self, acked: &Acked) {
        if self.round_end.is_some_and(|end| acked.una.lt(end)) {
            return;
        }
        if self.baseline != NONE && self.round_end.is_some() {
            self.css_rounds += 1;
        }
        self.round_end = Some(acked.nxt);
        (self.last_min, self.current_min) = (self.current_min, NONE);
        self.samples = 0;
    }

    /// "if (currentRoundMinRTT >= (lastRoundMinRTT + RttThresh)) cssBaselineMinRtt =
    /// currentRoundMinRTT, exit slow start and enter CSS".
    fn look_for_delay(&mut self) {
        if self.samples < RTT_SAMPLES || self.last_min == NONE || self.current_min == NONE {
            return;
        }
        let threshold = (self.last_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        if self.current_min >= self.last_min.saturating_add(threshold) {
            self.baseline = self.current_min;
            self.css_rounds = 0;
        }
    }
}
