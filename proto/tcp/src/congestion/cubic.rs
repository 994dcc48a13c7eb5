//! CUBIC (RFC 9438), with HyStart++ for its slow start.

use super::control::{Acked, Congestion, CongestionControl, MAX_WINDOW, Window};
use super::hystart::HyStart;
use crate::Nanos;

/// RFC 9438 §4.6: β_cubic.
const BETA: f64 = 0.7;
/// RFC 9438 §5: C.
const C: f64 = 0.4;

/// The growth since the last congestion. Windows are in segments, times in seconds, as in the RFC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    /// W_max.
    w_max: f32,
    /// W_est: what Reno would have.
    w_est: f32,
    /// K.
    k: f32,
    /// cwnd_epoch, for the Reno-friendly region.
    cwnd_prior: f32,
    /// When this stage of congestion avoidance began; 0 before it has.
    epoch: Nanos,
    /// Octets of growth that do not make up a segment yet.
    credit: f32,
    hystart: HyStart,
    /// W_max and K before the last reduction, in case that was a mistake.
    before: (f32, f32),
}

impl Cubic {
    /// Begins a stage of congestion avoidance.
    fn begin(&mut self, cwnd: f64, now: Nanos) {
        self.epoch = now.max(1);
        self.w_est = cwnd as f32;
        self.credit = 0.0;
        if cwnd < f64::from(self.w_max) {
            // §4.2 (2): K = cbrt((W_max - cwnd_epoch) / C).
            self.k = ((f64::from(self.w_max) - cwnd) / C).cbrt() as f32;
        } else {
            self.k = 0.0;
            self.w_max = cwnd as f32;
        }
    }

    /// W_cubic(t) of §4.2 (1), in segments.
    fn curve(&self, t: f64) -> f64 {
        C * (t - f64::from(self.k)).powi(3) + f64::from(self.w_max)
    }

    fn avoid_congestion(&mut self, window: &mut Window, acked: &Acked) {
        let mss = f64::from(window.mss);
        let cwnd = f64::from(window.cwnd) / mss;
        let segments = f64::from(acked.octets) / mss;
        if self.epoch == 0 {
            self.begin(cwnd, acked.now);
        }
        let t = acked.now.saturating_sub(self.epoch) as f64 / 1e9;
        let rtt = acked.smoothed_rtt as f64 / 1e9;
        // §4.3 (4): W_est = W_est + α_cubic * (segments_acked / cwnd); α_cubic is 1 "once W_est has
        // grown to reach the cwnd at the time of most recently setting ssthresh".
        let alpha = if f64::from(self.w_est) >= f64::from(self.cwnd_prior) {
            1.0
        } else {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        };
        self.w_est += (alpha * segments / cwnd) as f32;
        let growth = if self.curve(t) < f64::from(self.w_est) {
            // §4.3: "if W_cubic(t) is less than W_est, then CUBIC is in the Reno-friendly region and
            // cwnd SHOULD be set to W_est".
            f64::from(self.w_est) - cwnd
        } else {
            // §4.4: "target ... If W_cubic(t + RTT) < cwnd: cwnd; if > 1.5 * cwnd: 1.5 * cwnd", and
            // "cwnd MUST be incremented by (target - cwnd) / cwnd for each received new ACK".
            let target = self.curve(t + rtt).clamp(cwnd, 1.5 * cwnd);
            (target - cwnd) / cwnd * segments
        };
        self.credit += (growth.max(0.0) * mss) as f32;
        let whole = self.credit.floor();
        self.credit -= whole;
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
        if window.ssthresh == u32::MAX {
            self.hystart.acked(window, acked);
        } else if window.in_slow_start() {
            window.slow_start(acked.octets);
        } else {
            self.avoid_congestion(window, acked);
        }
    }

    fn reduce(&mut self, window: &Window, _cause: Congestion, _now: Nanos) -> u32 {
        let cwnd = window.cwnd as f32 / window.mss as f32;
        self.before = (self.w_max, self.k);
        // §4.7, fast convergence: "if cwnd < W_max ... W_max = cwnd * (1 + β_cubic) / 2".
        let lower = cwnd < self.w_max;
        self.w_max = if lower { cwnd * ((1.0 + BETA as f32) / 2.0) } else { cwnd };
        self.cwnd_prior = cwnd;
        self.epoch = 0;
        // §4.6: "ssthresh = cwnd * β_cubic", at least two segments.
        let fallen = (f64::from(window.cwnd) * BETA) as u32;
        fallen.max(2 * window.mss)
    }

    fn restored(&mut self) {
        (self.w_max, self.k) = self.before;
        self.epoch = 0;
    }

    fn idle(&mut self) {
        // §5.8: the time that nothing was sent must not count as time since the last reduction.
        self.epoch = 0;
    }
}
