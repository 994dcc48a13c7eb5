//! Sixth to eighth: URG, the text, FIN (RFC 9293 §3.10.7.4).

use weever_wire::tcp::flag;

use super::{Arrival, Payload, Reject};
use crate::connection::{AckNeed, Events};
use crate::receive::Inserted;
use crate::{Connection, Ecn, Nanos, State};

impl Connection {
    /// "If the URG bit is set, RCV.UP <- max(RCV.UP,SEG.UP), and signal the user that the remote side
    /// has urgent data if the urgent pointer (RCV.UP) is in advance of the data consumed."
    #[inline]
    pub(super) fn check_urgent(&mut self, arrival: &Arrival<'_, '_>) {
        let segment = arrival.segment;
        if !segment.has(flag::URG) || !self.state.can_receive() {
            return;
        }
        // §3.8.5: the pointer names "the sequence number of the octet following the urgent data"; 0
        // as seen from RCV.NXT would be in the past.
        let ahead = (segment.seq + u32::from(segment.urgent)).distance(self.rcv.nxt);
        let Ok(ahead) = u64::try_from(ahead) else { return };
        let offset = self.rcv.received + ahead;
        if self.rare.urgent.is_none_or(|urgent| offset > urgent) && offset > self.rcv.consumed {
            self.rare.set().urgent = Some(offset);
            self.events.add(Events::URGENT);
        }
    }

    /// "Once in the ESTABLISHED state, it is possible to deliver segment data to user RECEIVE buffers."
    #[inline]
    pub(super) fn take_text(
        &mut self,
        arrival: &Arrival<'_, '_>,
        now: Nanos,
    ) -> Result<Option<Payload>, Reject> {
        self.take_mark(arrival);
        if arrival.range.is_empty() {
            return Ok(None);
        }
        if !self.state.can_receive() {
            // "This should not occur since a FIN has been received from the remote side. Ignore the
            // segment text."
            return Err(Reject::AfterFin);
        }
        if self.released {
            // §3.6.1, SHLD-3: data after CLOSE is answered with RST.
            self.abort();
            return Err(Reject::Unwanted);
        }
        let len = arrival.range.len() as u32;
        let (start, end) = (arrival.seq, arrival.seq + len);
        if self.rcv.fin_known && end.gt(self.rcv.fin) {
            return Err(Reject::AfterFin);
        }
        let offset = self.rcv.received + u64::from(start - self.rcv.nxt);
        if start != self.rcv.nxt {
            // RFC 5681 §4.2: "Out-of-order data segments SHOULD be acknowledged immediately, in order
            // to accelerate loss recovery."
            self.ack_need.raise(AckNeed::Now);
            return match self.rcv.ahead.insert(start, end) {
                Inserted::Full => Err(Reject::TooManyPieces),
                Inserted::Duplicate => {
                    self.rare.set().duplicate = Some((start, end));
                    Ok(None)
                }
                Inserted::New => {
                    Ok(Some(Payload { offset, range: arrival.range.clone(), in_order: false }))
                }
            };
        }
        self.advance(len, now);
        Ok(Some(Payload { offset, range: arrival.range.clone(), in_order: true }))
    }

    /// RCV.NXT moves over octets that came in order, and over those that were waiting behind them.
    #[inline]
    pub(super) fn advance(&mut self, len: u32, now: Nanos) {
        let rcv = &mut self.rcv;
        let mut nxt = rcv.nxt + len;
        let filled = !rcv.ahead.is_empty();
        if filled {
            nxt = rcv.ahead.advance(nxt);
        }
        rcv.received += u64::from(nxt - rcv.nxt);
        rcv.nxt = nxt;
        self.events.add(Events::READABLE);
        // RFC 9293 §3.8.6.3, SHLD-19: "An ACK SHOULD be generated for at least every second full-sized segment
        // or 2*RMSS bytes of new data"; RFC 5681 §4.2: "when the incoming segment fills in all or part of a gap", at once.
        let mss = u32::from(rcv.mss).min(self.window.mss.max(1));
        let due = filled || rcv.unacked() >= 2 * mss || rcv.quick > 0;
        rcv.quick = rcv.quick.saturating_sub(1);
        if due {
            self.ack_need.raise(AckNeed::Now);
        } else {
            self.ack_need.raise(AckNeed::Delayed);
            self.timers.ack = self.timers.ack.min(now.saturating_add(self.config.delayed_ack));
        }
    }

    /// Marks of congestion on arriving segments.
    fn take_mark(&mut self, arrival: &Arrival<'_, '_>) {
        if !self.rcv.ecn {
            return;
        }
        let marked = arrival.segment.ecn == Ecn::Ce;
        if self.rcv.exact_marks {
            // RFC 8257 §3.2: "If the CE codepoint is set and DCTCP.CE is false, set DCTCP.CE to
            // true and send an immediate ACK"; earlier octets are acknowledged under their own
            // mark.
            if marked != self.rcv.echo && !arrival.range.is_empty() {
                if self.ack_need == AckNeed::Delayed {
                    self.rare.set().early_ack = Some(self.rcv.nxt);
                }
                self.rcv.echo = marked;
                self.ack_need.raise(AckNeed::Now);
            }
            return;
        }
        // RFC 3168 §6.1.3: "the TCP receiver ... sets the ECN-Echo flag in the TCP header of the
        // subsequent ACK packet" until "a CWR packet" comes.
        if arrival.segment.has(flag::CWR) {
            self.rcv.echo = false;
        }
        if marked {
            self.rcv.echo = true;
            self.ack_need.raise(AckNeed::Now);
        }
    }
}

impl Connection {
    /// "If the FIN bit is set, signal the user 'connection closing' and return any pending RECEIVEs with
    /// same message, advance RCV.NXT over the FIN, and send an acknowledgment for the FIN." One that
    /// comes before the text does waits for it.
    #[inline]
    pub(super) fn take_fin(&mut self, arrival: &Arrival<'_, '_>, now: Nanos) {
        let fin = arrival.seq + arrival.range.len() as u32;
        // A peer that sent text behind it already contradicts itself: its FIN is not believed.
        let contradicts = self.rcv.ahead.end().is_some_and(|end| end.gt(fin));
        if arrival.fin && !contradicts && !self.rcv.fin_known && self.state.can_receive() {
            (self.rcv.fin, self.rcv.fin_known) = (fin, true);
            self.ack_need.raise(AckNeed::Now);
        }
        if !self.rcv.fin_known || self.rcv.fin != self.rcv.nxt || self.rcv.fin_taken {
            return;
        }
        self.rcv.fin_taken = true;
        self.rcv.nxt += 1;
        self.ack_need.raise(AckNeed::Now);
        self.events.add(Events::FINISHED);
        match self.state {
            State::SynReceived | State::Established => self.state = State::CloseWait,
            // "If our FIN has been ACKed (perhaps in this segment), then enter TIME-WAIT ...;
            // otherwise, enter the CLOSING state." The fifth step has made it FIN-WAIT-2 if it was.
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }
}
