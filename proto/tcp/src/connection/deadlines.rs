//! The actions at a deadline, and the probes of an idle connection.

use super::state::{AckNeed, Failure, Probe, State};
use crate::{Connection, NEVER, Nanos};

impl Connection {
    /// When [`timeout`](Self::timeout) has to be called.
    pub(crate) fn next_deadline(&self) -> Nanos {
        let timers = &self.timers;
        let rare = self.rare.pace.min(self.end_of_reports());
        timers.resend.min(timers.ack).min(timers.keep_alive).min(timers.end).min(rare)
    }

    /// A time before which nothing can be due, found without a look at what is in flight.
    #[inline]
    pub(crate) fn earliest_deadline(&self) -> Nanos {
        if !self.rare.is_usual() || self.state != State::Established {
            return 0;
        }
        let timers = &self.timers;
        // A probe of the tail waits for two round trips, and longer for a single segment; everything else for
        // the retransmission timeout.
        let alone = self.snd.nxt - self.snd.una <= self.window.mss;
        let round_trips = if alone { NEVER } else { 2 * self.rtt.smoothed() };
        let resend = timers.base.saturating_add(self.config.min_rto.min(round_trips));
        resend.min(timers.ack).min(timers.keep_alive).min(timers.end)
    }

    /// Does all work due at `now`.
    pub(crate) fn timeout(&mut self, now: Nanos) {
        if self.timers.ack <= now {
            self.timers.ack = NEVER;
            self.ack_need = AckNeed::Now;
        }
        if self.rare.pace <= now {
            self.rare.reset(|rare| rare.pace = NEVER);
        }
        if self.end_of_reports() <= now {
            self.rare.reset(|rare| rare.undo = None);
        }
        if self.timers.end <= now {
            self.timers.end = NEVER;
            return self.finish();
        }
        if self.timers.keep_alive <= now {
            self.keep_alive_timeout(now);
        }
        // The timer that follows a reordering timer may be due as well: each of the others counts
        // from now on.
        while self.timers.resend <= now && self.state != State::Closed {
            self.timers.resend = NEVER;
            self.resend_timeout(now);
            if self.probe == Probe::None {
                self.arm_resend(now);
            }
        }
        debug_assert!(self.next_deadline() > now, "{:?} is in the past at {now}", self.timers);
    }

    /// Gives memory back that an idle connection does not need.
    pub(crate) fn shed(&mut self, now: Nanos) {
        if self.sent.is_empty() {
            self.sent.trim();
            self.rare.trim(now);
        }
    }

    pub(crate) fn arm_keep_alive(&mut self, now: Nanos) {
        let after = self.settings.keep_alive().map(|keep_alive| keep_alive.idle);
        self.timers.keep_alive = after.map_or(NEVER, |after| now.saturating_add(after));
    }

    /// RFC 9293 §3.8.4: probes are sent "only ... when no sent data is outstanding, and no data or
    /// acknowledgment packets have been received for the connection within an interval" (MUST-26).
    fn keep_alive_timeout(&mut self, now: Nanos) {
        self.timers.keep_alive = NEVER;
        let Some(settings) = self.settings.keep_alive() else { return };
        if !self.state.is_synchronized() || self.state == State::TimeWait {
            return;
        }
        let silent = self.timers.silence(now);
        if silent < settings.idle || !self.sent.is_empty() {
            // Heard since, or the outstanding octet is a probe itself: idleness begins anew.
            self.keep_alive_probes = 0;
            let from = if silent < settings.idle { now - silent.min(now) } else { now };
            self.timers.keep_alive = from.saturating_add(settings.idle.max(1));
            return;
        }
        // MUST-29: an implementation "MUST NOT interpret failure to respond to any specific probe as a dead
        // connection".
        if self.keep_alive_probes >= settings.probes.max(1) {
            self.fail(Failure::TimedOut, now);
            self.reset_due = true;
            return;
        }
        self.keep_alive_probes += 1;
        self.probe = Probe::KeepAlive;
        self.timers.keep_alive = now.saturating_add(settings.interval.max(1));
    }
}
