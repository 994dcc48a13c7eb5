//! DCTCP: reductions in proportion to the marks (RFC 8257).

use weever_wire::tcp::Seq;

use super::control::{Acked, Congestion, CongestionControl, Reno, Window};
use crate::Nanos;

/// RFC 8257 §3.3: g, as a shift: 1/16.
const GAIN_SHIFT: u32 = 4;
/// DCTCP.Alpha is a fraction of this.
const ONE: u32 = 1 << 16;

/// Growth as with Reno, falls by half the fraction of marked octets.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    reno: Reno,
    /// DCTCP.Alpha. §3.3 leaves its first value open; 1 is the careful one.
    alpha: u32,
    acked: u32,
    marked: u32,
    window_end: Option<Seq>,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self { reno: Reno::default(), alpha: ONE, acked: 0, marked: 0, window_end: None }
    }
}

impl CongestionControl for Dctcp {
    fn name(&self) -> &'static str {
        "dctcp"
    }

    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        // §3.3 (2) to (4): the octets of this window of data, and those that were marked.
        self.acked = self.acked.saturating_add(acked.octets);
        if acked.marked {
            self.marked = self.marked.saturating_add(acked.octets);
        }
        if self.window_end.is_none_or(|end| acked.una.ge(end)) {
            // (5), (6): "DCTCP.Alpha = DCTCP.Alpha * (1 - g) + g * M".
            let fraction = u64::from(self.marked) * u64::from(ONE) / u64::from(self.acked.max(1));
            self.alpha = self.alpha - (self.alpha >> GAIN_SHIFT)
                + (u32::try_from(fraction).unwrap_or(ONE) >> GAIN_SHIFT);
            (self.acked, self.marked) = (0, 0);
            self.window_end = Some(acked.nxt);
        }
        self.reno.acked(window, acked);
    }

    fn reduce(&mut self, window: &Window, cause: Congestion, now: Nanos) -> u32 {
        if cause != Congestion::Mark {
            // §3.4: "A DCTCP sender MUST react to loss episodes in the same way as conventional TCP".
            return self.reno.reduce(window, cause, now);
        }
        // §3.3 (9): "cwnd = cwnd * (1 - DCTCP.Alpha / 2)".
        let cut = u64::from(window.cwnd) * u64::from(self.alpha.min(ONE)) / u64::from(2 * ONE);
        (window.cwnd - u32::try_from(cut).unwrap_or(window.cwnd / 2)).max(2 * window.mss)
    }
}
