//! Fifth: ACK (RFC 9293 §3.10.7.4).

use weever_wire::tcp::flag;

use super::Reject;
use crate::connection::{Events, Probe, millis};
use crate::{Connection, Nanos, Segment, State};

impl Connection {
    #[inline]
    pub(super) fn check_ack(&mut self, segment: &Segment<'_>, now: Nanos) -> Result<(), Reject> {
        // "if the ACK bit is off, drop the segment and return".
        if !segment.has(flag::ACK) {
            return Err(Reject::NoAck);
        }
        if self.state == State::SynReceived {
            self.complete_handshake(segment, now)?;
        }
        self.check_ack_number(segment, now)?;
        self.take_ack(segment, now);
        match self.state {
            // "FIN-WAIT-1 STATE: ... if the FIN segment is now acknowledged, then enter FIN-WAIT-2".
            State::FinWait1 if self.snd.is_fin_acked() => {
                self.state = State::FinWait2;
                if self.released {
                    self.timers.end = now.saturating_add(self.config.fin_wait);
                }
            }
            // "CLOSING STATE: ... if the ACK acknowledges our FIN, then enter the TIME-WAIT state".
            State::Closing if self.snd.is_fin_acked() => self.enter_time_wait(now),
            // "LAST-ACK STATE: ... If our FIN is now acknowledged, delete the TCB, enter the CLOSED
            // state, and return."
            State::LastAck if self.snd.is_fin_acked() => {
                self.finish();
                return Err(Reject::Finished);
            }
            _ => {}
        }
        Ok(())
    }

    /// "SYN-RECEIVED STATE: If SND.UNA < SEG.ACK =< SND.NXT, then enter ESTABLISHED state ... If the
    /// segment acknowledgment is not acceptable, form a reset segment".
    fn complete_handshake(&mut self, segment: &Segment<'_>, now: Nanos) -> Result<(), Reject> {
        if !segment.ack.gt(self.snd.iss) || segment.ack.gt(self.snd.nxt) {
            // The endpoint sends <SEQ=SEG.ACK><CTL=RST>.
            return Err(Reject::AckOfUnsent);
        }
        // "and continue processing with the variables below set to: SND.WND <- SEG.WND, SND.WL1 <-
        // SEG.SEQ, SND.WL2 <- SEG.ACK".
        self.snd.wnd = u32::from(segment.window) << self.snd.scale;
        (self.snd.wl1, self.snd.wl2) = (segment.seq, segment.ack);
        self.snd.max_wnd = self.snd.max_wnd.max(self.snd.wnd);
        self.establish(now);
        self.events.add(Events::CONNECTED);
        if self.snd.fin {
            // CLOSE was called before.
            self.state = State::FinWait1;
        }
        Ok(())
    }

    /// RFC 5961 §5.2: "The ACK value is considered acceptable only if it is in the range of ((SND.UNA -
    /// MAX.SND.WND) <= SEG.ACK <= SND.NXT). All incoming segments whose ACK value doesn't satisfy the
    /// above condition MUST be discarded and an ACK sent back."
    fn check_ack_number(&mut self, segment: &Segment<'_>, now: Nanos) -> Result<(), Reject> {
        if segment.ack.gt(self.snd.nxt) {
            self.challenge(now);
            return Err(Reject::AckOfUnsent);
        }
        let sent = self.snd.una - self.snd.iss;
        if self.snd.una - segment.ack > self.snd.max_wnd.min(sent) && segment.ack.lt(self.snd.una) {
            self.challenge(now);
            return Err(Reject::OldAck);
        }
        Ok(())
    }

    /// "If SND.UNA < SEG.ACK =< SND.NXT, then set SND.UNA <- SEG.ACK. Any segments on the
    /// retransmission queue that are thereby entirely acknowledged are removed."
    #[inline]
    pub(super) fn take_ack(&mut self, segment: &Segment<'_>, now: Nanos) {
        let una = self.snd.una;
        self.account(segment, now);
        if self.snd.una.gt(una) {
            self.note_progress(now);
        }
        self.update_window(segment, now);
    }

    /// SND.UNA has advanced.
    #[inline]
    pub(super) fn note_progress(&mut self, now: Nanos) {
        self.timers.progress = millis(now);
        // RFC 6298 (5.3): "When an ACK is received that acknowledges new data, restart the
        // retransmission timer so that it will expire after RTO seconds".
        self.timers.base = now;
        self.rtt.backoff = 0;
        self.free_acknowledged();
    }

    /// Counts octets of the stream out of the window: FIN and SYN are none of it.
    #[inline]
    fn free_acknowledged(&mut self) {
        let freed = self.snd.una.min(self.snd.end());
        if freed.gt(self.snd.base) {
            self.snd.acked += u64::from(freed - self.snd.base);
            self.snd.base = freed;
            let acked = self.snd.acked;
            self.rare.reset(|rare| rare.urgent_sent = rare.urgent_sent.filter(|end| *end > acked));
            self.events.add(Events::ACKED);
        }
    }

    /// "If SND.UNA =< SEG.ACK =< SND.NXT, the send window should be updated. If (SND.WL1 < SEG.SEQ or
    /// (SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK)), set SND.WND <- SEG.WND, set SND.WL1 <- SEG.SEQ,
    /// and set SND.WL2 <- SEG.ACK."
    #[inline]
    pub(super) fn update_window(&mut self, segment: &Segment<'_>, now: Nanos) {
        let snd = &mut self.snd;
        if segment.ack.lt(snd.una) {
            return;
        }
        if snd.wl1.lt(segment.seq) || (snd.wl1 == segment.seq && snd.wl2.le(segment.ack)) {
            let before = snd.wnd;
            snd.wnd = u32::from(segment.window) << snd.scale;
            (snd.wl1, snd.wl2) = (segment.seq, segment.ack);
            snd.max_wnd = snd.max_wnd.max(snd.wnd);
            if before == 0 && snd.wnd > 0 {
                // The probe of the closed window was not taken: it is sent again at once, and is no
                // sign of congestion.
                self.timers.base = now;
                self.rtt.backoff = 0;
                if !self.sent.is_empty() {
                    self.probe = Probe::Head;
                }
            }
        }
    }
}
