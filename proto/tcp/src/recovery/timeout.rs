//! Timers of the sender: retransmission (RFC 6298 §5), probes of the tail (RFC 8985 §7), probes of a
//! closed window (RFC 9293 §3.8.6.1), and when to give up.

use weever_net::SECOND;

use super::{Delivery, Frto, Phase};
use crate::congestion::Congestion;
use crate::connection::{Failure, Probe, Resend, Syn};
use crate::{Connection, NEVER, Nanos, State};

impl Connection {
    /// Sets the timer that makes something be sent again. Called once all that an event brings about has
    /// been done and sent.
    #[inline]
    pub(crate) fn arm_resend(&mut self, now: Nanos) {
        let (at, kind) = self.next_resend(now);
        (self.timers.resend, self.recovery.resend) = (at, kind);
    }

    #[inline]
    fn next_resend(&self, now: Nanos) -> (Nanos, Resend) {
        if self.state == State::Closed {
            return (NEVER, Resend::Timeout);
        }
        if self.sent.is_empty() && !self.has_unsent() {
            return (NEVER, Resend::Timeout);
        }
        let timeout = self.timers.base.saturating_add(self.rtt.timeout(&self.config));
        if !self.sent.is_empty() {
            if self.rare.reorder < timeout {
                return (self.rare.reorder, Resend::Reorder);
            }
            return match self.tail_probe_at(now) {
                Some(at) if at < timeout => (at, Resend::Tail),
                _ => (timeout, Resend::Timeout),
            };
        }
        if self.is_blocked_by_window() {
            (timeout, Resend::Window)
        } else {
            (NEVER, Resend::Timeout)
        }
    }

    /// Something is to be sent, nothing is in flight that an answer would come for, and the peer's
    /// window is closed or too small to be worth a segment.
    fn is_blocked_by_window(&self) -> bool {
        self.can_send()
            && self.has_unsent()
            && self.probe == Probe::None
            && self.sendable().is_none()
    }

    /// RFC 8985 §7.2: when to probe the tail, if at all: with SACK, "the sender is not in RTO or fast
    /// recovery", and no probe is out.
    fn tail_probe_at(&self, now: Nanos) -> Option<Nanos> {
        let recovery = &self.recovery;
        let quiet = recovery.phase == Phase::Open && self.sent.sacked == 0 && self.sent.lost == 0;
        let record = self.sent.back()?;
        let usable = self.rcv.sack && quiet && self.rare.probe_end.is_none() && self.snd.wnd > 0;
        if !usable || !self.state.is_synchronized() || self.rtt.backoff > 0 || record.is_syn() {
            return None;
        }
        // "PTO = 2 * SRTT; If FlightSize is one segment: PTO += TLP.max_ack_delay"; 1 s without a
        // measurement.
        let mut after = if self.rtt.smoothed() > 0 { 2 * self.rtt.smoothed() } else { SECOND };
        if self.snd.nxt - self.snd.una <= self.window.mss {
            after += self.config.delayed_ack.max(self.config.min_rto);
        }
        Some(self.timers.base.max(record.sent_at()).saturating_add(after).max(now))
    }

    /// The timer that [`arm_resend`](Self::arm_resend) set has run out.
    pub(crate) fn resend_timeout(&mut self, now: Nanos) {
        match self.recovery.resend {
            Resend::Reorder => {
                // RFC 8985 §6.2 step 5: the reordering timer has losses detected anew.
                if self.detect_losses(now) && self.recovery.phase == Phase::Open {
                    self.respond_to_losses(now);
                }
            }
            Resend::Tail => {
                self.probe = Probe::Tail;
                self.timers.base = now;
            }
            Resend::Window => {
                self.probe = Probe::Window;
                self.rtt.back_off();
                self.timers.base = now;
                if !self.state.is_read_by_application() && self.is_overdue(now) {
                    // RFC 9293 §3.8.6.1 lets a closed window keep a connection open "indefinitely";
                    // a connection without an owner is not worth that.
                    self.fail(Failure::TimedOut, now);
                }
            }
            Resend::Timeout => self.retransmission_timeout(now),
        }
    }

    /// Nothing was acknowledged for as long as the user allows (RFC 9293 §3.8.3, R2).
    fn is_overdue(&self, now: Nanos) -> bool {
        let allowed = match self.state {
            State::SynSent | State::SynReceived => self.config.connect_timeout,
            _ => self.settings.user_timeout(),
        };
        self.timers.standstill(now) >= allowed
    }

    fn retransmission_timeout(&mut self, now: Nanos) {
        let closed = self.snd.wnd == 0 && self.state.is_synchronized();
        // RFC 9293 §3.8.6.1, MUST-37: "As long as the receiving TCP peer continues to send
        // acknowledgments in response to the probe segments, the sending TCP peer MUST allow the
        // connection to stay open." `base` is when the last one was sent.
        let silent = self.timers.silence(now);
        let answered =
            silent <= now.saturating_sub(self.timers.base) || silent < self.settings.user_timeout();
        if !(closed && answered) && self.is_overdue(now) {
            return self.fail(Failure::TimedOut, now);
        }
        self.timers.base = now;
        self.rare.reset(|rare| rare.probe_end = None);
        self.rare.reset(|rare| rare.reorder = NEVER);
        if closed {
            self.rtt.back_off();
            self.probe = Probe::Head;
            return;
        }
        let handshake = self.sent.front().is_some_and(super::Record::is_syn);
        if handshake {
            self.syn = Syn::Lost;
        } else {
            self.shrink_for_black_hole(now);
            self.begin_loss_phase(now);
        }
        self.mark_after_timeout(now);
        self.rtt.back_off();
        // RFC 6298 (5.4): "Retransmit the earliest segment that has not been acknowledged", for any
        // window.
        self.probe = Probe::Head;
    }

    fn begin_loss_phase(&mut self, now: Nanos) {
        // RFC 5682 §3.1 leaves F-RTO at a second timeout; it goes on here while nothing has arrived since
        // the first one, as only the first segment was sent again until then.
        let again = self.recovery.phase == Phase::Loss && self.recovery.frto == Frto::First;
        if !again {
            self.recovery.frto = Frto::Off;
        }
        if self.recovery.phase != Phase::Loss {
            // RFC 5682 §3.1 step 1: F-RTO, unless the timeout hit a fast recovery.
            let before = self.before_reduction().filter(|_| self.recovery.phase == Phase::Open);
            if before.is_some() {
                self.recovery.frto = Frto::First;
            }
            // RFC 5681 §3.1: "when a TCP sender detects segment loss using the retransmission timer
            // and the given segment has already been retransmitted by way of the retransmission timer
            // at least once, the value of ssthresh is held constant".
            self.reduce(Congestion::Timeout, before, now);
        }
        // "cwnd MUST be set to no more than the loss window, LW, which equals 1 full-sized segment".
        self.window.cwnd = self.window.mss;
        self.recovery.phase = Phase::Loss;
        self.recovery.point = self.snd.nxt;
        self.recovery.duplicates = 0;
        self.recovery.duplicate_octets = 0;
        self.rare.reset(|rare| rare.reduced_until = None);
        self.snd.cwr = self.rcv.ecn;
    }

    fn mark_after_timeout(&mut self, now: Nanos) {
        // RFC 2018 §8: a receiver may have dropped octets that it reported; if SND.UNA itself was
        // reported, it has.
        if self.sent.front().is_some_and(super::Record::is_sacked) {
            self.sent.forget_sacked();
        }
        let una = self.snd.una;
        let (rack, sack) = (&self.recovery.rack, self.rcv.sack);
        let window = rack.reordering_window(false, self.rtt.min(), self.rtt.smoothed());
        let handshake = self.sent.front().is_some_and(super::Record::is_syn);
        // RFC 8985 §6.3, RACK_mark_losses_on_RTO(): the first one, and those that are old enough. Octets that went
        // with a SYN wait for its answer.
        self.sent.mark_lost(|record| {
            let old = !sack || rack.deadline(record.sent_at(), window) <= now;
            record.start == una || (old && !handshake)
        });
    }

    /// RFC 5682 §3.1 with SACK, and slow start for lost octets.
    pub(super) fn proceed_after_timeout(&mut self, delivery: &Delivery, done: bool) {
        // Step 3 b): an acknowledgement of octets not sent again: "declare the timeout spurious".
        if self.recovery.frto != Frto::Off && delivery.original {
            return self.undo();
        }
        if done {
            return self.end_phase();
        }
        self.recovery.frto = match (self.recovery.frto, delivery.advanced) {
            // Step 2 b): "transmit up to two new (previously unsent) segments".
            (Frto::First, true) => {
                self.window.cwnd = self.pipe() + 2 * self.window.mss;
                Frto::NewData
            }
            // Step 2 a), 3 a): a duplicate: conventional recovery.
            _ => Frto::Off,
        };
        if self.recovery.frto == Frto::Off && delivery.advanced {
            let una = self.snd.una;
            self.sent.head(self.window.mss);
            self.sent.mark_lost(|record| record.start == una && !record.is_retransmitted());
        }
    }
}
