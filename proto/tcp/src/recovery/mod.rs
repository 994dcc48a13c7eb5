//! The effect of an acknowledgement on segments in flight and on the congestion window.
//!
//! An acknowledgement goes through [`Connection::account`]: the scoreboard takes over its reports,
//! RACK (or, without SACK, three duplicates) finds losses, and the phase decides the window:
//! [`Phase::Open`] lets congestion control grow it, [`Phase::Recovery`] follows proportional rate
//! reduction, [`Phase::Loss`] is slow start after a timeout, with F-RTO.

mod rack;
mod records;
mod rtt;
mod sent;
mod state;
mod timeout;
mod undo;

use std::cell::Cell;

use weever_net::MILLIS;
use weever_wire::tcp::{Seq, flag};

use crate::congestion::{Acked, Congestion, Prr};
use crate::connection::Undo;
use crate::segment::stamp;
use crate::{Connection, NEVER, Nanos, Segment};
pub(crate) use records::Record;
pub(crate) use rtt::Rtt;
pub(crate) use sent::Sent;
pub(crate) use state::{Frto, Phase, Recovery};

/// RFC 5681 §3.2, RFC 8985 §6.2: DupThresh.
const DUP_THRESH: u32 = 3;

/// Records beyond two for each segment in flight that SACK blocks may make.
const SPARE_RECORDS: usize = 64;

/// The octets that one acknowledgement delivered.
#[derive(Default)]
struct Delivery {
    /// Octets that were not known to be received before.
    octets: u32,
    /// When the newest segment that was sent only once was sent.
    newest_original: Option<Nanos>,
    /// A segment from before the timeout arrived that was never sent again.
    original: bool,
    advanced: bool,
    /// It repeats the one before it (RFC 5681 §2).
    duplicate: bool,
    dsack: bool,
    lost: bool,
}

impl Connection {
    /// Octets believed to be in the network: pipe of RFC 6675 §2.
    pub(crate) fn pipe(&self) -> u32 {
        let known = self.sent.sacked + self.sent.lost + self.recovery.duplicate_octets;
        (self.snd.nxt - self.snd.una).saturating_sub(known)
    }

    /// Takes over the reports of an acceptable acknowledgement about octets in flight.
    pub(crate) fn account(&mut self, segment: &Segment<'_>, now: Nanos) {
        let mut delivery =
            Delivery { advanced: segment.ack.gt(self.snd.una), ..Delivery::default() };
        // Answers to probes of a closed window repeat each other, and say nothing about losses.
        delivery.duplicate = !delivery.advanced
            && self.snd.wnd > 0
            && !self.sent.is_empty()
            && segment.is_empty()
            && segment.ack == self.snd.una
            && u32::from(segment.window) << self.snd.scale == self.snd.wnd;
        self.forget_reduction();
        let twice = self.came_twice(segment);
        twice.into_iter().for_each(|octets| self.take_report(octets));
        delivery.dsack = twice.is_some();
        if self.sent.is_empty() {
            return;
        }
        let sacked_before = self.sent.sacked;
        self.take_delivered(segment, &mut delivery, now);
        self.settle_path_probe(now);
        self.take_duplicates(&mut delivery, sacked_before);
        self.settle_tail_probe(segment, &delivery);
        delivery.lost |= self.detect_losses(now);
        self.recovery.validation.acked(delivery.octets, self.snd.una, self.snd.nxt);
        self.proceed(segment, &delivery, now);
    }

    /// Takes over an acknowledgement while nothing is lost, reported or out of order: octets sent
    /// once are acknowledged in their order. The rest, if there is any, goes the long way.
    #[inline]
    pub(crate) fn account_in_order(&mut self, segment: &Segment<'_>, now: Nanos) {
        if let Some(newest) = self.sent.acknowledge_plain(segment.ack) {
            let octets = newest.end - self.snd.una;
            self.snd.una = newest.end;
            let rtt = now.saturating_sub(newest.sent_at());
            self.recovery.rack.delivered(&newest, false, self.rtt.min(), now);
            self.recovery.duplicates = 0;
            self.rtt.sample(rtt, now);
            self.recovery.validation.acked(octets, self.snd.una, self.snd.nxt);
            self.grow((false, true), octets, Some(rtt), now);
        }
        if self.snd.una != segment.ack {
            self.account(segment, now);
        }
    }

    /// Scoreboard, round trip times and RACK.
    fn take_delivered(&mut self, segment: &Segment<'_>, delivery: &mut Delivery, now: Nanos) {
        let echo = self.echo_of(segment);
        let (point, min_rtt, offset) = (self.recovery.point, self.rtt.min(), self.rcv.stamp_offset);
        let rack = &mut self.recovery.rack;
        // A segment out of order does not change the timestamp that the peer echoes, so the echo
        // tells the transmission only of octets acknowledged in order.
        let in_order = Cell::new(false);
        let mut arrived = |record: &Record| {
            if record.is_sacked() {
                return;
            }
            delivery.octets += record.len();
            if !record.is_retransmitted() {
                let newest = delivery.newest_original.get_or_insert(record.sent_at());
                *newest = (*newest).max(record.sent_at());
                delivery.original |= record.end.le(point);
            }
            let sent_stamp = stamp(record.sent_at(), offset);
            let older = in_order.get() && echo.is_some_and(|echo| Seq(echo).lt(Seq(sent_stamp)));
            rack.delivered(record, older, min_rtt, now);
        };
        if self.rcv.sack && !segment.options.sack.is_empty() {
            let (una, nxt) = (self.snd.una, self.snd.nxt);
            // Honest blocks end where segments do.
            let most = SPARE_RECORDS + 2 * ((nxt - una) / self.window.mss) as usize;
            let blocks = segment.options.sack_blocks().skip(usize::from(delivery.dsack));
            for (start, end) in blocks {
                if start.lt(end) && start.ge(una) && end.le(nxt) {
                    self.sent.sack(start, end, most, &mut arrived);
                }
            }
        }
        if delivery.advanced {
            in_order.set(true);
            self.sent.acknowledge(segment.ack, &mut arrived);
            self.snd.una = segment.ack;
        }
        self.measure(delivery, echo, now);
    }

    /// RFC 6298 §3: "RTT samples MUST NOT be made using segments that were retransmitted (and thus for
    /// which it is ambiguous whether the reply was for the first instance of the packet or a later
    /// instance)", unless the timestamp option tells them apart.
    fn measure(&mut self, delivery: &Delivery, echo: Option<u32>, now: Nanos) {
        let sample = match (delivery.newest_original, echo) {
            (Some(sent_at), _) => Some(now.saturating_sub(sent_at)),
            (None, Some(echo)) if delivery.advanced => {
                let age = stamp(now, self.rcv.stamp_offset).wrapping_sub(echo);
                (age < 1 << 20).then(|| Nanos::from(age) * MILLIS)
            }
            _ => None,
        };
        if let Some(rtt) = sample {
            self.rtt.sample(rtt, now);
        }
    }

    fn echo_of(&self, segment: &Segment<'_>) -> Option<u32> {
        let stamps = segment.options.timestamps.filter(|_| self.rcv.timestamps)?;
        Some(stamps.echo)
    }

    /// Duplicates: counted always, and without SACK the sign of losses (RFC 5681 §3.2).
    fn take_duplicates(&mut self, delivery: &mut Delivery, sacked_before: u32) {
        let mss = self.window.mss;
        if delivery.advanced {
            self.recovery.duplicates = 0;
            let besides = delivery.octets.saturating_sub(mss);
            let left = self.recovery.duplicate_octets.saturating_sub(besides);
            self.recovery.duplicate_octets = left;
        }
        if self.rcv.sack {
            delivery.duplicate |= self.sent.sacked > sacked_before && !delivery.advanced;
            return;
        }
        if delivery.duplicate {
            self.recovery.duplicates = self.recovery.duplicates.saturating_add(1);
            let flight = self.snd.nxt - self.snd.una;
            let most = flight.saturating_sub(self.sent.front().map_or(0, Record::len));
            let counted = self.recovery.duplicate_octets.saturating_add(mss).min(most);
            delivery.octets += counted.saturating_sub(self.recovery.duplicate_octets);
            self.recovery.duplicate_octets = counted;
            // RFC 6582 §3.2 step 1: only "if the Cumulative Acknowledgment field covers more than
            // recover", lest retransmissions of one window begin a second reduction.
            let enough = u32::from(self.recovery.duplicates) == DUP_THRESH;
            if enough && self.recovery.phase == Phase::Open && self.snd.una.gt(self.recovery.point)
            {
                delivery.lost = self.lose_head();
            }
        } else if delivery.advanced && self.recovery.phase == Phase::Recovery {
            // RFC 6582 §3.2 step 3, partial acknowledgements: "retransmit the first unacknowledged
            // segment".
            if self.snd.una.lt(self.recovery.point) {
                self.lose_head();
            }
        }
    }

    fn lose_head(&mut self) -> bool {
        let una = self.snd.una;
        // Of a super-segment, only the first segment is known to be missing.
        self.sent.head(self.window.mss);
        self.sent.mark_lost(|record| record.start == una)
    }

    /// RFC 8985 §6.2 step 5: RACK_detect_loss(); whether there were any.
    pub(crate) fn detect_losses(&mut self, now: Nanos) -> bool {
        self.rare.reset(|rare| rare.reorder = NEVER);
        let Some(front) = self.sent.front().filter(|_| self.rcv.sack) else { return false };
        let rack = &self.recovery.rack;
        // In order, the first one was sent first: if that is too new, so are the others.
        let in_order = self.sent.sacked == 0 && !front.is_retransmitted();
        if in_order && self.recovery.phase == Phase::Open && !rack.is_newer_than(front) {
            return false;
        }
        let urgent =
            self.recovery.phase != Phase::Open || self.sent.sacked >= DUP_THRESH * self.window.mss;
        let window = rack.reordering_window(urgent, self.rtt.min(), self.rtt.smoothed());
        let mut wait = 0;
        let lost = self.sent.mark_lost(|record| {
            let deadline = rack.deadline(record.sent_at(), window);
            if !rack.is_newer_than(record) {
                return false;
            }
            if deadline > now {
                wait = wait.max(deadline);
            }
            deadline <= now
        });
        if wait > 0 {
            self.rare.set().reorder = wait;
        }
        lost
    }

    /// The window after an acknowledgement, by phase.
    fn proceed(&mut self, segment: &Segment<'_>, delivery: &Delivery, now: Nanos) {
        let done = self.snd.una.ge(self.recovery.point);
        match self.recovery.phase {
            Phase::Open if delivery.lost => self.respond_to_losses(now),
            Phase::Open => {}
            Phase::Recovery if done => {
                // RFC 9937 §6: on exit, "cwnd = ssthresh".
                self.window.cwnd = self.window.ssthresh.max(self.window.mss);
                self.end_phase();
            }
            Phase::Recovery => {
                let (pipe, safe) = (self.pipe(), delivery.advanced && !delivery.lost);
                self.rare.set().prr.acked(&mut self.window, delivery.octets, pipe, safe);
            }
            Phase::Loss => self.proceed_after_timeout(delivery, done),
        }
        if delivery.octets > 0 {
            let marked = segment.has(flag::ECE) && self.rcv.ecn;
            let rtt = delivery.newest_original.map(|sent_at| now.saturating_sub(sent_at));
            self.grow((marked, delivery.advanced), delivery.octets, rtt, now);
        }
        self.react_to_mark(segment, now);
    }

    fn end_phase(&mut self) {
        self.recovery.phase = Phase::Open;
        self.recovery.frto = Frto::Off;
        self.await_reports();
        self.recovery.duplicates = 0;
        self.recovery.duplicate_octets = 0;
        self.recovery.rack.recovered();
    }

    /// Lets congestion control grow the window after so many octets were delivered. RFC 3042 §2: duplicates that let
    /// new segments go do not change the window; it grows when SND.UNA has `advanced`.
    #[inline]
    fn grow(
        &mut self,
        (marked, advanced): (bool, bool),
        octets: u32,
        rtt: Option<Nanos>,
        now: Nanos,
    ) {
        let (window, validation) = (&self.window, &self.recovery.validation);
        let window_used = validation.is_half_used(window)
            || (self.recovery.limited && validation.is_valid(window));
        let waits_for_cwr = marked || self.rare.reduced_until.is_some();
        let may_grow =
            window_used && advanced && self.recovery.phase != Phase::Recovery && !waits_for_cwr;
        if !may_grow && self.control.only_grows() {
            return;
        }
        let acked = Acked {
            now,
            octets,
            rtt,
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            una: self.snd.una,
            nxt: self.snd.nxt,
            marked,
            may_grow,
        };
        self.control.get().acked(&mut self.window, &acked);
    }

    /// RFC 3168 §6.1.2: "TCP should react to an ECN-Echo at most once per window of data"; the sender
    /// then sets CWR on the first new data.
    fn react_to_mark(&mut self, segment: &Segment<'_>, now: Nanos) {
        if self.rare.reduced_until.is_some_and(|until| self.snd.una.ge(until)) {
            self.rare.reset(|rare| rare.reduced_until = None);
        }
        let again = self.rare.reduced_until.is_some() || self.recovery.phase != Phase::Open;
        if !self.rcv.ecn || !segment.has(flag::ECE) || again {
            return;
        }
        self.reduce(Congestion::Mark, None, now);
        self.window.cwnd = self.window.ssthresh;
        self.rare.set().reduced_until = Some(self.snd.nxt);
        self.snd.cwr = true;
    }

    /// Has congestion control set the threshold anew. `before`: what that may be taken back to.
    fn reduce(&mut self, cause: Congestion, before: Option<Undo>, now: Nanos) {
        match before {
            Some(_) => self.rare.set().undo = before,
            None => self.rare.reset(|rare| rare.undo = None),
        }
        let flight = self.snd.nxt - self.snd.una;
        let used = self.recovery.validation.used(&self.window, flight);
        let window = crate::congestion::Window { cwnd: used, ..self.window };
        self.window.ssthresh = self.control.get().reduce(&window, cause, now).max(2 * window.mss);
    }

    /// Losses were found while nothing was being repaired.
    fn respond_to_losses(&mut self, now: Nanos) {
        if !self.only_path_probe_was_lost(now) {
            self.enter_recovery(now);
        }
    }

    /// Fast recovery begins (RFC 5681 §3.2, RFC 6675 §5 step 4).
    pub(crate) fn enter_recovery(&mut self, now: Nanos) {
        let flight = (self.snd.nxt - self.snd.una).saturating_sub(self.sent.sacked);
        self.reduce(Congestion::Loss, self.before_reduction(), now);
        self.recovery.phase = Phase::Recovery;
        self.recovery.point = self.snd.nxt;
        self.rare.reset(|rare| rare.probe_end = None);
        self.rare.set().prr = Prr::begin(flight);
        self.rare.set().reduced_until = Some(self.snd.nxt);
        self.snd.cwr = self.rcv.ecn;
        let pipe = self.pipe();
        self.rare.set().prr.acked(&mut self.window, 0, pipe, false);
    }

    /// RFC 8985 §7.4, TLP_process_ack(): evaluates an acknowledgement of a probe of the tail.
    fn settle_tail_probe(&mut self, segment: &Segment<'_>, delivery: &Delivery) {
        let Some(end) = self.rare.probe_end.filter(|end| segment.ack.ge(*end)) else { return };
        let again = self.recovery.probe_is_retransmission;
        // All is well if the probe was new data, if it is reported as a duplicate, or if the octets
        // before it were acknowledged twice.
        if !again || delivery.dsack || (segment.ack == end && delivery.duplicate) {
            self.rare.reset(|rare| rare.probe_end = None);
        } else if segment.ack.gt(end) {
            // No such report came before later data was acknowledged: the probe repaired a loss, and
            // "MUST invoke a congestion control response".
            self.rare.reset(|rare| rare.probe_end = None);
            self.reduce(Congestion::Loss, None, 0);
            self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
        }
    }
}
