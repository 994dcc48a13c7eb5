//! Calls of the user (RFC 9293 §3.10.2 to §3.10.5): SEND, RECEIVE, CLOSE, ABORT.

use super::state::{AckNeed, Chosen, Events, Failure, Probe, Settings, State};
use super::timers::millis;
use crate::{Connection, NEVER, Nanos};

/// The most that may be queued and unacknowledged: sequence numbers that are compared must be closer
/// than 2^31.
const MAX_QUEUED: u64 = 1 << 30;

impl Connection {
    /// SEND (§3.10.2): how many of `octets` more octets, which lie in the send region behind those
    /// queued before, were taken. 0 once the sending side is closed.
    #[inline]
    pub(crate) fn queue(&mut self, octets: u64, now: Nanos) -> u64 {
        let open = matches!(
            self.state,
            State::SynSent | State::SynReceived | State::Established | State::CloseWait
        );
        if !open || self.snd.fin {
            return 0;
        }
        let room = MAX_QUEUED - (self.snd.queued - self.snd.acked);
        let taken = octets.min(room);
        if self.snd.unsent() == 0 && self.sent.is_empty() {
            (self.timers.base, self.timers.progress) = (now, millis(now));
        }
        self.snd.queued += taken;
        taken
    }

    /// SEND with the URGENT flag: the octets queued so far are urgent.
    pub(crate) fn mark_urgent(&mut self) {
        if self.snd.queued > self.snd.acked {
            self.rare.set().urgent_sent = Some(self.snd.queued);
        }
    }

    /// RECEIVE (§3.10.3): the application has done with the next `octets` readable octets. Returns
    /// how many there were.
    #[inline]
    pub(crate) fn consume(&mut self, octets: u64, now: Nanos) -> u32 {
        let octets = octets.min(self.rcv.received - self.rcv.consumed);
        self.rcv.consumed += octets;
        if self.state.can_receive() && self.rcv.window_update_is_worth_it() {
            self.ack_need = AckNeed::Now;
        }
        if self.rcv.is_too_small(self.rtt.smoothed(), &self.config, now) {
            self.events.add(Events::CRAMPED);
        }
        octets as u32
    }

    /// CLOSE of the sending side (§3.10.4): FIN follows the queued octets.
    pub(crate) fn shutdown(&mut self, now: Nanos) {
        let next = match self.state {
            // "Delete the TCB and return 'error: closing' responses to any queued SENDs".
            State::SynSent => return self.end(None),
            // "Queue this until all preceding SENDs have been segmentized, then form a FIN segment and
            // send it. In any case, enter FIN-WAIT-1 state." From SYN-RECEIVED this happens once the
            // connection is established.
            State::SynReceived => State::SynReceived,
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            _ => return,
        };
        if self.sent.is_empty() && self.snd.unsent() == 0 {
            (self.timers.base, self.timers.progress) = (now, millis(now));
        }
        self.snd.fin = true;
        self.state = next;
    }

    /// CLOSE of both sides, as `close()` does: the application reads no more.
    pub(crate) fn release(&mut self, now: Nanos) {
        self.released = true;
        let unread = self.rcv.received > self.rcv.consumed;
        // §3.6.1, SHLD-3: "If such a host issues a CLOSE call while received data is still pending in
        // TCP, or if new data is received after CLOSE is called, its TCP SHOULD send a RST to show
        // that data was lost."
        let established = self.state.is_synchronized() || self.is_early();
        if unread && established && self.state != State::TimeWait {
            return self.abort();
        }
        self.shutdown(now);
        if self.state == State::FinWait2 {
            self.timers.end = now.saturating_add(self.config.fin_wait);
        }
    }

    /// ABORT (§3.10.5): "Send a reset segment".
    pub(crate) fn abort(&mut self) {
        self.reset_due = match self.state {
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck => true,
            State::SynSent | State::TimeWait => false,
            // A reset that is due stays due.
            State::Closed => return,
        };
        self.end(Some(Failure::Aborted));
    }

    pub(crate) fn set(&mut self, settings: Settings, now: Nanos) {
        let shorter = settings.max_segment.filter(|most| Some(*most) != self.settings.max_segment);
        self.settings = Chosen::new(&settings);
        if let Some(most) = shorter {
            let now_there = self.window.mss + self.options_len() as u32;
            // Segments only become shorter: a path may take no longer ones than they are now.
            self.set_segment_size(most.get().min(now_there.min(u16::MAX.into()) as u16));
        }
        if self.state.is_synchronized() {
            self.arm_keep_alive(now);
        }
    }

    /// Acknowledges the next segments at once, or lets acknowledgements be delayed (`TCP_QUICKACK`). As on
    /// Linux, it lasts for some segments only.
    pub(crate) fn set_quick(&mut self, quick: bool) {
        self.rcv.set_quick(quick);
        if quick && self.ack_need == AckNeed::Delayed {
            self.ack_need = AckNeed::Now;
        }
    }

    /// The region for received data holds this many octets from now on; what was offered stays offered.
    pub(crate) fn set_receive(&mut self, capacity: u32) {
        self.rcv.set_capacity(capacity, &self.config);
        if self.state.can_receive() && self.rcv.window_update_is_worth_it() {
            self.ack_need = AckNeed::Now;
        }
    }

    /// The region for received data has become larger.
    pub(crate) fn enlarge(&mut self, capacity: u32) {
        self.rcv.enlarge(capacity, &self.config);
        if self.state.can_receive() && self.rcv.window_update_is_worth_it() {
            self.ack_need = AckNeed::Now;
        }
    }

    /// The connection failed. RFC 9293 §3.8.3 (c): "close the connection".
    pub(crate) fn fail(&mut self, failure: Failure, _now: Nanos) {
        self.end(Some(failure));
    }

    /// CLOSED is reached in order.
    pub(crate) fn finish(&mut self) {
        self.end(None);
    }

    pub(crate) fn end(&mut self, failure: Option<Failure>) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        self.failure = failure;
        self.events.add(Events::CLOSED);
        self.ack_need = AckNeed::None;
        self.probe = Probe::None;
        let timers = &mut self.timers;
        (timers.resend, timers.ack, timers.keep_alive) = (NEVER, NEVER, NEVER);
        timers.end = NEVER;
        self.rare.reset(|rare| (rare.pace, rare.reorder) = (NEVER, NEVER));
    }

    /// TIME-WAIT is entered, or entered anew: "start the time-wait timer, turn off the other timers".
    pub(crate) fn enter_time_wait(&mut self, now: Nanos) {
        self.state = State::TimeWait;
        self.timers.end = now.saturating_add(self.config.time_wait);
        (self.timers.resend, self.timers.keep_alive) = (NEVER, NEVER);
    }
}
