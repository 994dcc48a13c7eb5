//! Reductions of the window that were a mistake, and are taken back.
//!
//! Two tests find them: F-RTO (RFC 5682) after a timeout, and reports of the peer (D-SACK, RFC 2883) that everything
//! that was sent again had arrived already (RFC 3708 §3).

use weever_net::SECOND;
use weever_wire::tcp::Seq;

use super::{Phase, Record};
use crate::connection::Undo;
use crate::{Connection, NEVER, Nanos, Segment};

/// Reports come within a round trip after the last acknowledgement.
const PATIENCE: Nanos = SECOND;

impl Connection {
    /// The state that a reduction which begins now would be taken back to. Without SACK nothing tells a mistake.
    pub(super) fn before_reduction(&self) -> Option<Undo> {
        let (cwnd, ssthresh) = (self.window.cwnd, self.window.ssthresh);
        let (from, until) = (self.snd.una, self.snd.nxt);
        let before = Undo { cwnd, ssthresh, from, until, resent: 0, twice: 0, last: None };
        self.rcv.sack.then_some(before)
    }

    /// A record is sent again.
    pub(crate) fn note_resent(&mut self, record: &Record) {
        if self.recovery.phase == Phase::Open {
            return;
        }
        self.rare.reset(|rare| {
            if let Some(undo) = &mut rare.undo {
                undo.resent = undo.resent.saturating_add(record.len());
            }
        });
    }

    /// The repair is over; reports about it may still come.
    pub(super) fn await_reports(&mut self) {
        let last = Some(self.snd.nxt);
        self.rare.reset(|rare| rare.undo = rare.undo.map(|undo| Undo { last, ..undo }));
    }

    /// Octets of which a segment reports that they came twice. RFC 2883 §4: the first block tells, if it lies below
    /// the acknowledgement, or within the second one.
    pub(super) fn came_twice(&self, segment: &Segment<'_>) -> Option<(Seq, Seq)> {
        if !self.rcv.sack || segment.options.sack.is_empty() {
            return None;
        }
        let mut blocks = segment.options.sack_blocks();
        let (start, end) = blocks.next()?;
        let inside = blocks.next().is_some_and(|(a, b)| start.ge(a) && end.le(b));
        let plausible = start.lt(end) && end.le(self.snd.nxt);
        (plausible && (end.le(segment.ack) || inside)).then_some((start, end))
    }

    /// The peer reports octets that came twice. RFC 3708 §3 (C): if that was so with all that was sent again, nothing
    /// was lost.
    pub(super) fn take_report(&mut self, (start, end): (Seq, Seq)) {
        self.recovery.rack.saw_dsack(self.snd.una, self.snd.nxt);
        let Some(undo) = self.rare.undo else { return };
        if start.lt(undo.from) || end.gt(undo.until) {
            return;
        }
        let twice = undo.twice.saturating_add(end - start);
        self.rare.set().undo = Some(Undo { twice, ..undo });
        if undo.resent > 0 && twice >= undo.resent {
            self.undo();
        }
    }

    /// The window is restored. RFC 5682 §4 leaves the response open; RFC 4015 §3.2 allows this one once the round trip
    /// time was measured anew.
    pub(super) fn undo(&mut self) {
        if let Some(undo) = self.rare.undo {
            self.rare.reset(|rare| (rare.undo, rare.reduced_until) = (None, None));
            self.window.cwnd = self.window.cwnd.max(undo.cwnd);
            self.window.ssthresh = self.window.ssthresh.max(undo.ssthresh);
            self.control.get().restored();
        }
        if self.recovery.phase != Phase::Open {
            // They are on their way.
            self.sent.unmark_lost();
            self.end_phase();
        }
    }

    /// When reports about a reduction are no longer waited for, with nothing in flight.
    pub(crate) fn end_of_reports(&self) -> Nanos {
        let waits = self.rare.undo.is_some() && self.sent.is_empty();
        if waits { self.timers.base.saturating_add(PATIENCE) } else { NEVER }
    }

    /// Forgets a reduction about which no more reports come.
    pub(super) fn forget_reduction(&mut self) {
        let una = self.snd.una;
        let awaited = |undo: &Undo| undo.last.is_none_or(|last| una.le(last));
        self.rare.reset(|rare| rare.undo = rare.undo.filter(awaited));
    }
}
