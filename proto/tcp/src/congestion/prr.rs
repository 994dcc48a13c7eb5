//! Proportional rate reduction: how much is sent while losses are repaired (RFC 9937).

use super::control::Window;

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
