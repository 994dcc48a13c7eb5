//! CUBIC (RFC 9438), with HyStart++ for its slow start, which leaves it before the queue is full (RFC 9406).

use weever_net::MILLIS;
use weever_wire::tcp::Seq;

use super::control::{Acked, Congestion, CongestionControl, MAX_WINDOW, Window};
use crate::Nanos;

/// RFC 9438 §4.6: β_cubic.
const BETA: f64 = 0.7;
/// RFC 9438 §5: C.
const C: f64 = 0.4;

/// A time in milliseconds; never 0.
fn millis(now: Nanos) -> u32 {
    ((now / MILLIS) as u32).max(1)
}

/// The growth since the last congestion. Windows are in segments, times in seconds, as in the RFC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    /// W_max.
    w_max: f32,
    /// W_max before the last reduction, in case that was a mistake.
    before: f32,
    /// cwnd_prior, for the Reno-friendly region.
    cwnd_prior: f32,
    stage: Stage,
}

/// A connection is in its initial slow start or past it, never in both.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Start(HyStart),
    Avoidance(Growth),
}

impl Default for Stage {
    fn default() -> Self {
        Stage::Start(HyStart::default())
    }
}

/// One stage of congestion avoidance.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    /// The millisecond in which it began; 0 before it has.
    epoch: u32,
    /// W_est: the window that Reno would have.
    w_est: f32,
    /// K.
    k: f32,
    /// Octets of growth that do not make up a segment yet.
    credit: f32,
}

impl Cubic {
    /// The stage of congestion avoidance, begun now if none was.
    fn growth(&mut self, cwnd: f64, now: Nanos) -> Growth {
        if let Stage::Avoidance(growth) = self.stage
            && growth.epoch != 0
        {
            return growth;
        }
        let mut k = 0.0;
        if cwnd < f64::from(self.w_max) {
            // §4.2 (2): K = cbrt((W_max - cwnd_epoch) / C).
            k = ((f64::from(self.w_max) - cwnd) / C).cbrt() as f32;
        } else {
            self.w_max = cwnd as f32;
        }
        Growth { epoch: millis(now), w_est: cwnd as f32, k, credit: 0.0 }
    }

    /// Congestion avoidance begins anew with the next acknowledgement.
    fn end_stage(&mut self) {
        self.stage = Stage::Avoidance(Growth::default());
    }

    /// W_cubic(t) of §4.2 (1), in segments.
    fn curve(&self, growth: &Growth, t: f64) -> f64 {
        C * (t - f64::from(growth.k)).powi(3) + f64::from(self.w_max)
    }

    fn avoid_congestion(&mut self, window: &mut Window, acked: &Acked) {
        let mss = f64::from(window.mss);
        let cwnd = f64::from(window.cwnd) / mss;
        let segments = f64::from(acked.octets) / mss;
        let mut stage = self.growth(cwnd, acked.now);
        let t = f64::from(millis(acked.now).wrapping_sub(stage.epoch)) / 1e3;
        let rtt = acked.smoothed_rtt as f64 / 1e9;
        // §4.3 (4): W_est = W_est + α_cubic * (segments_acked / cwnd); α_cubic is 1 "once W_est has
        // grown to reach the cwnd at the time of most recently setting ssthresh".
        let alpha = if f64::from(stage.w_est) >= f64::from(self.cwnd_prior) {
            1.0
        } else {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        };
        stage.w_est += (alpha * segments / cwnd) as f32;
        let growth = if self.curve(&stage, t) < f64::from(stage.w_est) {
            // §4.3: "if W_cubic(t) is less than W_est, then CUBIC is in the Reno-friendly region and
            // cwnd SHOULD be set to W_est".
            f64::from(stage.w_est) - cwnd
        } else {
            // §4.4: "target ... If W_cubic(t + RTT) < cwnd: cwnd; if > 1.5 * cwnd: 1.5 * cwnd", and
            // "cwnd MUST be incremented by (target - cwnd) / cwnd for each received new ACK".
            let target = self.curve(&stage, t + rtt).clamp(cwnd, 1.5 * cwnd);
            (target - cwnd) / cwnd * segments
        };
        stage.credit += (growth.max(0.0) * mss) as f32;
        let whole = stage.credit.floor();
        stage.credit -= whole;
        self.stage = Stage::Avoidance(stage);
        window.cwnd = window.cwnd.saturating_add(whole as u32).min(MAX_WINDOW);
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        if !acked.may_grow {
            return;
        }
        // RFC 9406 §4.2: "HyStart++ SHOULD only be used for the initial slow start (when the
        // ssthresh value is at its arbitrarily high maximum value)".
        if let Stage::Start(hystart) = &mut self.stage
            && window.ssthresh == u32::MAX
        {
            hystart.acked(window, acked);
        } else if window.in_slow_start() {
            window.slow_start(acked.octets, 2);
        } else {
            self.avoid_congestion(window, acked);
        }
    }

    fn reduce(&mut self, window: &Window, _cause: Congestion, _now: Nanos) -> u32 {
        let cwnd = window.cwnd as f32 / window.mss as f32;
        self.before = self.w_max;
        // §4.7, fast convergence: "if cwnd < W_max ... W_max = cwnd * (1 + β_cubic) / 2".
        let lower = cwnd < self.w_max;
        self.w_max = if lower { cwnd * ((1.0 + BETA as f32) / 2.0) } else { cwnd };
        self.cwnd_prior = cwnd;
        self.end_stage();
        // §4.6: "ssthresh = cwnd * β_cubic", at least two segments.
        let fallen = (f64::from(window.cwnd) * BETA) as u32;
        fallen.max(2 * window.mss)
    }

    fn restored(&mut self) {
        self.w_max = self.before;
        self.end_stage();
    }

    fn idle(&mut self) {
        // §5.8: the time that nothing was sent must not count as time since the last reduction.
        if matches!(self.stage, Stage::Avoidance(_)) {
            self.end_stage();
        }
    }
}

// RFC 9406 §4.3, times in microseconds.
const MIN_RTT_THRESH: u32 = 4_000;
const MAX_RTT_THRESH: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const RTT_SAMPLES: u8 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u8 = 5;
/// L: "infinity if paced, 8 if non-paced". Receivers that join segments acknowledge many at once.
const LIMIT: u32 = 8;

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
            window.slow_start(acked.octets, LIMIT);
            self.look_for_delay();
            return;
        }
        // "cwnd = cwnd + (min(N, L * SMSS) / CSS_GROWTH_DIVISOR)".
        let most = acked.octets.min(LIMIT * window.mss);
        window.slow_start(most / CSS_GROWTH_DIVISOR, LIMIT);
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
