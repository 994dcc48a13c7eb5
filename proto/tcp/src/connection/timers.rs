//! The deadlines of a connection. The endpoint's wheel knows the earliest of them.

use super::{Failure, Probe, State};
use crate::output::AckNeed;
use crate::{Connection, NEVER, Nanos};

/// What is done when the resend timer runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resend {
    /// The retransmission timeout (RFC 6298).
    Timeout,
    /// The tail is probed (RFC 8985 §7).
    Tail,
    /// What was reordered for too long is lost (RFC 8985 §6).
    Reorder,
    /// A closed window is probed (RFC 9293 §3.8.6.1).
    Window,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    pub(crate) resend: Nanos,
    pub(crate) kind: Resend,
    /// An acknowledgement is held back until then.
    pub(crate) ack: Nanos,
    pub(crate) keep_alive: Nanos,
    /// TIME-WAIT or FIN-WAIT-2 ends.
    pub(crate) end: Nanos,
    /// The next segment may go out (pacing).
    pub(crate) pace: Nanos,
    /// When the next segment would leave at the pace of the window.
    pub(crate) pace_next: Nanos,
    /// RACK's reordering timer, while it runs.
    pub(crate) reorder: Nanos,
    /// The retransmission timeout counts from here.
    pub(crate) base: Nanos,
    /// SND.UNA advanced, or something was sent when nothing was in flight.
    pub(crate) progress: Nanos,
    /// The last acceptable segment came.
    pub(crate) heard: Nanos,
    /// An answer to an unacceptable segment was sent.
    pub(crate) challenged: Nanos,
}

impl Timers {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            resend: NEVER,
            kind: Resend::Timeout,
            ack: NEVER,
            keep_alive: NEVER,
            end: NEVER,
            pace: NEVER,
            pace_next: 0,
            reorder: NEVER,
            base: now,
            progress: now,
            heard: now,
            challenged: 0,
        }
    }
}

impl Connection {
    /// When [`timeout`](Self::timeout) has to be called.
    pub(crate) fn next_deadline(&self) -> Nanos {
        let timers = &self.timers;
        timers.resend.min(timers.ack).min(timers.keep_alive).min(timers.end).min(timers.pace)
    }

    /// Does what is due at `now`.
    pub(crate) fn timeout(&mut self, now: Nanos) {
        if self.timers.ack <= now {
            self.timers.ack = NEVER;
            self.ack_need = AckNeed::Now;
        }
        if self.timers.pace <= now {
            self.timers.pace = NEVER;
        }
        if self.timers.end <= now {
            self.timers.end = NEVER;
            return self.finish();
        }
        if self.timers.keep_alive <= now {
            self.keep_alive_timeout(now);
        }
        // What follows a reordering timer may be due as well: each of the others counts from now on.
        while self.timers.resend <= now && self.state != State::Closed {
            self.timers.resend = NEVER;
            self.resend_timeout(now);
            if self.probe == Probe::None {
                self.arm_resend(now);
            }
        }
        debug_assert!(self.next_deadline() > now, "{:?} is in the past at {now}", self.timers);
    }

    pub(crate) fn arm_keep_alive(&mut self, now: Nanos) {
        let after = self.settings.keep_alive.map(|keep_alive| keep_alive.idle);
        self.timers.keep_alive = after.map_or(NEVER, |after| now.saturating_add(after));
    }

    /// RFC 9293 §3.8.4: probes are sent "only ... when no sent data is outstanding, and no data or
    /// acknowledgment packets have been received for the connection within an interval" (MUST-25).
    fn keep_alive_timeout(&mut self, now: Nanos) {
        self.timers.keep_alive = NEVER;
        let Some(settings) = self.settings.keep_alive else { return };
        if !self.state.is_synchronized() || self.state == State::TimeWait {
            return;
        }
        let silent = now.saturating_sub(self.timers.heard);
        if silent < settings.idle || !self.sent.is_empty() {
            // Heard since, or what is outstanding is a probe itself: idleness begins anew.
            self.keep_alive_probes = 0;
            let from = if silent < settings.idle { self.timers.heard } else { now };
            self.timers.keep_alive = from.saturating_add(settings.idle.max(1));
            return;
        }
        // MUST-28: "failure to respond to any specific probe MUST NOT be interpreted as a dead
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
