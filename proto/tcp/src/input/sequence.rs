//! First to fourth: sequence number and timestamps, RST, security, SYN (RFC 9293 §3.10.7.4, RFC 7323 §5,
//! RFC 5961 §3 and §4). They decide whether a segment belongs to the connection at all.

use weever_wire::tcp::{Seq, flag};

use super::{Arrival, Reject};
use crate::connection::{AckNeed, Failure};
use crate::{Connection, Nanos, Segment, State};

impl Connection {
    /// PAWS.
    pub(super) fn check_timestamp(
        &mut self,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<(), Reject> {
        // RFC 7323 §5.2: "RST segments are not subject to the PAWS check".
        if !self.rcv.timestamps || segment.has(flag::RST) {
            return Ok(());
        }
        let Some(stamps) = segment.options.timestamps else {
            // §3.2: "If a non-<RST> segment is received without a TSopt, a TCP SHOULD silently drop
            // the segment."
            return Err(Reject::NoTimestamp);
        };
        if self.rcv.is_old_stamp(stamps.value, now) {
            // §5.3 R1: "Send an acknowledgment in reply as specified in Section 3.10.7.4 of [RFC9293]
            // ... and drop the segment."
            self.answer_unacceptable(segment, now);
            return Err(Reject::OldTimestamp);
        }
        Ok(())
    }

    /// §4.3 (2): "If SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent, then SEG.TSval is copied to
    /// TS.Recent; otherwise, it is ignored."
    pub(super) fn note_timestamp(&mut self, segment: &Segment<'_>, now: Nanos) {
        if !self.rcv.timestamps || segment.seq.gt(self.rcv.last_ack) {
            return;
        }
        if let Some(stamps) = segment.options.timestamps
            && !self.rcv.is_old_stamp(stamps.value, now)
        {
            self.rcv.note_stamp(stamps.value, now);
        }
    }

    /// Whether the segment lies in the window, and its part that does.
    #[inline]
    pub(super) fn check_sequence<'a, 's>(
        &mut self,
        segment: &'s Segment<'a>,
        now: Nanos,
    ) -> Result<Arrival<'a, 's>, Reject> {
        if self.is_syn_again(segment) {
            // The peer sends its SYN again, since ours or its acknowledgement was lost. Octets in it that were not
            // accepted make no difference.
            self.answer_unacceptable(segment, now);
            return Err(Reject::OutsideWindow);
        }
        let (seq, len) = (segment.seq, segment.len());
        let (nxt, window) = (self.rcv.nxt, self.rcv.window());
        // "There are four cases for the acceptability test for an incoming segment".
        let inside = |seq: Seq| seq.ge(nxt) && seq.lt(nxt + window);
        let acceptable = match (len, window) {
            (0, 0) => seq == nxt,
            (0, _) => inside(seq),
            (_, 0) => false,
            _ => inside(seq) || inside(seq + (len - 1)) || (seq.lt(nxt) && (seq + len).gt(nxt)),
        };
        // The other end of a simultaneous open answers our SYN with its own and an ACK: figure 7 of §3.5
        // has it accepted, although its number was taken with the first SYN.
        let both_open = self.state == State::SynReceived
            && segment.flags & (flag::SYN | flag::ACK) == flag::SYN | flag::ACK
            && seq == self.rcv.irs;
        if acceptable || both_open {
            return Ok(self.trim(segment));
        }
        // "If the RCV.WND is zero, no segments will be acceptable, but special allowance should be
        // made to accept valid ACKs, URGs, and RSTs" (MUST-66).
        if window == 0 && seq == nxt && self.state.is_synchronized() {
            self.ack_need.raise(AckNeed::Now);
            return Ok(Arrival { segment, seq: nxt, range: 0..0, fin: false });
        }
        // "If an incoming segment is not acceptable, an acknowledgment should be sent in reply (unless
        // the RST bit is set, if so drop the segment and return)".
        if !segment.has(flag::RST) {
            self.answer_unacceptable(segment, now);
        }
        Err(Reject::OutsideWindow)
    }

    /// Whether it is the SYN that began the handshake, which goes on.
    fn is_syn_again(&self, segment: &Segment<'_>) -> bool {
        self.state == State::SynReceived
            && segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN
            && segment.seq == self.rcv.irs
    }

    /// The acknowledgement for a segment outside the window. One with payload may be a
    /// retransmission whose acknowledgement was lost: that is answered each time, with a D-SACK.
    fn answer_unacceptable(&mut self, segment: &Segment<'_>, now: Nanos) {
        if self.is_syn_again(segment) {
            if self.may_challenge(now) {
                self.sent.mark_lost(|record| record.is_syn());
            }
            return;
        }
        let end = segment.seq + segment.len();
        if self.state == State::TimeWait && segment.has(flag::FIN) && end == self.rcv.nxt {
            // §3.10.7.4, eighth, TIME-WAIT: "Restart the 2 MSL time-wait timeout."
            self.enter_time_wait(now);
        }
        // A retransmission is from within one window; an older one was forged by a guess, or is so
        // late that one answer in half a second suffices.
        let recent = self.rcv.nxt - segment.seq <= self.rcv.capacity.saturating_add(1);
        let repeated = !segment.is_empty() && end.le(self.rcv.nxt) && recent;
        if repeated && self.state.is_synchronized() {
            self.ack_need.raise(AckNeed::Now);
            if self.rcv.sack && !segment.payload.is_empty() {
                // RFC 2883 §4.1: "The D-SACK block is only used to report a duplicate contiguous
                // sequence of data received by the receiver in the most recent packet."
                let len = segment.text_len();
                self.rare.set().duplicate = Some((segment.seq, segment.seq + len));
            }
        } else {
            self.challenge(now);
        }
    }

    /// "If a segment's contents straddle the boundary between old and new, only the new parts are
    /// processed": octets before RCV.NXT or beyond the window are cut off.
    fn trim<'a, 's>(&mut self, segment: &'s Segment<'a>) -> Arrival<'a, 's> {
        let (nxt, edge) = (self.rcv.nxt, self.rcv.nxt + self.rcv.window());
        let start = segment.seq + u32::from(segment.has(flag::SYN));
        let end = start + segment.text_len();
        let skip = if start.lt(nxt) { (nxt - start).min(end - start) } else { 0 };
        let over = if end.gt(edge) { (end - edge).min(end - start - skip) } else { 0 };
        if skip > 0 && self.rcv.sack {
            self.rare.set().duplicate = Some((start, start + skip));
            self.ack_need.raise(AckNeed::Now);
        }
        let range = skip as usize..(segment.text_len() - over) as usize;
        // FIN stands behind the payload and needs room of its own.
        let fin = segment.has(flag::FIN) && end.lt(edge) && end.ge(nxt);
        Arrival { segment, seq: start + skip, range, fin }
    }
}

impl Connection {
    #[inline]
    pub(super) fn check_reset(&mut self, segment: &Segment<'_>, now: Nanos) -> Result<(), Reject> {
        if !segment.has(flag::RST) {
            return Ok(());
        }
        // "2) If the RST bit is set and the sequence number exactly matches the next expected sequence
        // number (RCV.NXT), then TCP endpoints MUST reset the connection in the manner prescribed
        // below according to the connection state. 3) If the RST bit is set and the sequence number
        // does not exactly match the next expected sequence value, yet is within the current receive
        // window, TCP endpoints MUST send an acknowledgment (challenge ACK)".
        if segment.seq != self.rcv.nxt {
            self.challenge(now);
            return Err(Reject::InexactReset);
        }
        match self.state {
            // RFC 1337 §3 (fix F1): RSTs are ignored in TIME-WAIT, lest old duplicates cut it short.
            State::TimeWait => return Err(Reject::Reset),
            // "If this connection was initiated with a passive OPEN ... return this connection to the
            // LISTEN state"; the listener is still there. "If [active] ... connection refused".
            State::SynReceived if !self.is_early() => self.end(Some(Failure::Refused)),
            State::Closing | State::LastAck => self.finish(),
            // "Users should also receive an unsolicited general 'connection reset' signal."
            _ => self.end(Some(Failure::Reset)),
        }
        Err(Reject::Reset)
    }
}

impl Connection {
    #[inline]
    pub(super) fn check_syn(&mut self, segment: &Segment<'_>, now: Nanos) -> Result<(), Reject> {
        // The SYN of a simultaneous open, with an ACK this time: its number is taken already.
        let again = self.state == State::SynReceived && segment.seq == self.rcv.irs;
        if !segment.has(flag::SYN) || (again && segment.has(flag::ACK)) {
            return Ok(());
        }
        if self.state == State::SynReceived && self.passive {
            // "If the connection was initiated with a passive OPEN, then return this connection to
            // the LISTEN state and return."
            self.end(Some(Failure::Refused));
            return Err(Reject::UnexpectedSyn);
        }
        // "If the SYN bit is set in these synchronized states ... TCP endpoints MUST send a
        // 'challenge ACK' to the remote peer" with any sequence number (RFC 5961 §4.2).
        self.challenge(now);
        Err(Reject::UnexpectedSyn)
    }
}
