//! RACK: losses found by time (RFC 8985 §6). A segment sent well before one that was delivered is
//! lost.

use weever_wire::tcp::Seq;

use super::records::Record;
use crate::Nanos;

/// §6.2 step 4: how many recoveries a widened reordering window lasts.
const PERSIST: u8 = 16;

/// The state of RFC 8985 §5.3.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rack {
    /// RACK.xmit_ts: when the newest delivered segment was sent; 0 before the first one.
    sent_at: Nanos,
    /// RACK.rtt.
    rtt: Nanos,
    /// RACK.end_seq.
    end: Seq,
    /// RACK.fack: the end of the octets ever delivered.
    fack: Seq,
    /// RACK.dsack_round, while the multiplier is more than 1.
    dsack_round: Seq,
    /// RACK.reo_wnd_mult.
    multiplier: u8,
    /// RACK.reo_wnd_persist.
    persist: u8,
    /// RACK.reordering_seen.
    reordering: bool,
}

impl Rack {
    pub(crate) fn new(iss: Seq) -> Self {
        Self { end: iss, fack: iss, multiplier: 1, ..Self::default() }
    }

    /// Whether a segment was sent before the newest delivered one: RACK_sent_after(RACK, segment).
    pub(crate) fn is_newer_than(&self, record: &Record) -> bool {
        self.sent_at > record.sent_at()
            || (self.sent_at == record.sent_at() && self.end.gt(record.end))
    }

    /// §6.2 steps 2 and 3: a segment was delivered. `sent_at`, `end` and `again` are of its record
    /// before it was marked; `echo_is_older`: the timestamp that came back is of an earlier
    /// transmission.
    pub(crate) fn delivered(
        &mut self,
        record: &Record,
        echo_is_older: bool,
        min_rtt: Nanos,
        now: Nanos,
    ) {
        // Step 3: RACK_detect_reordering().
        if record.end.gt(self.fack) {
            self.fack = record.end;
        } else if record.end.lt(self.fack) && !record.is_retransmitted() {
            self.reordering = true;
        }
        // Step 2: "If the segment was retransmitted, ... ignore" an acknowledgement that came too
        // early to be one of the retransmission.
        let rtt = now.saturating_sub(record.sent_at());
        if record.is_retransmitted() && (echo_is_older || rtt < min_rtt) {
            return;
        }
        let newer = record.sent_at() > self.sent_at
            || (record.sent_at() == self.sent_at && record.end.gt(self.end));
        if newer {
            (self.sent_at, self.end, self.rtt) = (record.sent_at(), record.end, rtt);
        }
    }

    /// §6.2 step 4: a D-SACK says that something was sent again in vain.
    pub(crate) fn saw_dsack(&mut self, una: Seq, nxt: Seq) {
        if self.multiplier == 1 || una.ge(self.dsack_round) {
            self.dsack_round = nxt;
            self.multiplier = self.multiplier.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// §6.2 step 4: a recovery is over.
    pub(crate) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiplier = 1;
        }
    }

    /// Step 4: RACK_update_reo_wnd(). `urgent`: in recovery, or three segments were reported
    /// received.
    pub(crate) fn reordering_window(&self, urgent: bool, min_rtt: Nanos, srtt: Nanos) -> Nanos {
        if !self.reordering && urgent {
            return 0;
        }
        (Nanos::from(self.multiplier) * (min_rtt / 4)).min(srtt)
    }

    /// When a segment that was sent at `sent_at` is lost.
    pub(crate) fn deadline(&self, sent_at: Nanos, window: Nanos) -> Nanos {
        sent_at + self.rtt + window
    }
}
