//! SYN-SENT (RFC 9293 §3.10.7.3).

use weever_wire::tcp::flag;

use super::{Arrival, Payload, Reject};
use crate::connection::{AckNeed, Events, Failure, millis};
use crate::{Connection, EcnMode, Nanos, Segment, State};

impl Connection {
    pub(super) fn syn_sent(
        &mut self,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Option<Payload>, Reject> {
        // "First, check the ACK bit: If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset (unless the
        // RST bit is set, if so drop the segment and return)". The endpoint sends it.
        let ack = segment.has(flag::ACK);
        if ack && (segment.ack.le(self.snd.iss) || segment.ack.gt(self.snd.nxt)) {
            return Err(Reject::AckOfUnsent);
        }
        // "Second, check the RST bit: ... If the ACK was acceptable, then signal to the user 'error:
        // connection reset', drop the segment, enter CLOSED state, delete TCB, and return. Otherwise
        // (no ACK), drop the segment and return."
        if segment.has(flag::RST) {
            if ack {
                self.end(Some(Failure::Refused));
            }
            return Err(Reject::Reset);
        }
        // Third, security: absent. "Fifth, if neither of the SYN or RST bits is set, then drop the
        // segment and return."
        if !segment.has(flag::SYN) {
            return Err(Reject::BadFlags);
        }
        // "Fourth, check the SYN bit: ... RCV.NXT is set to SEG.SEQ+1, IRS is set to SEG.SEQ."
        self.take_syn(segment.seq, &segment.options, now);
        self.timers.heard = millis(now);
        if !ack {
            return self.simultaneous_open(segment, now);
        }
        // RFC 3168 §6.1.1: an ECN-setup SYN-ACK has ECE and not CWR.
        let asked = matches!(self.config.ecn, EcnMode::Request | EcnMode::Dctcp);
        self.rcv.ecn =
            asked && !self.syn.is_lost() && segment.flags & (flag::ECE | flag::CWR) == flag::ECE;
        // RFC 7323 §2.2: "the window field in a segment where the SYN bit is set (i.e., a <SYN> or
        // <SYN,ACK>) MUST NOT be scaled".
        self.snd.wnd = u32::from(segment.window);
        (self.snd.wl1, self.snd.wl2) = (segment.seq, segment.ack);
        self.snd.max_wnd = self.snd.wnd;
        self.establish(now);
        self.events.add(Events::CONNECTED);
        self.take_ack(segment, now);
        // RFC 7413 §4.2.2: octets of the SYN that were not taken are sent at once, which counts as no congestion.
        let all_taken = self.snd.una == self.snd.nxt;
        if self.rare.fast_open.is_some_and(|fast| fast.early > 0) && all_taken {
            self.syn.taken_with_octets();
        }
        if !all_taken {
            self.sent.mark_lost(|_| true);
        }
        self.recovery.point = self.snd.una;
        self.ack_need.raise(AckNeed::Now);
        if self.snd.fin {
            self.state = State::FinWait1;
        }
        // "If there are other controls or text in the segment, then continue processing at the sixth
        // step".
        let range = 0..segment.text_len().min(self.rcv.window()) as usize;
        let whole = range.len() == segment.text_len() as usize;
        let fin = segment.has(flag::FIN) && whole;
        let arrival = Arrival { segment, seq: self.rcv.nxt, range, fin };
        self.check_urgent(&arrival);
        let payload = self.take_text(&arrival, now)?;
        self.take_fin(&arrival, now);
        Ok(payload)
    }

    /// "Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment <SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK> and
    /// send it." Text in it is not queued: it is not acknowledged, and so will come again.
    fn simultaneous_open(
        &mut self,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Option<Payload>, Reject> {
        self.state = State::SynReceived;
        self.snd.wnd = u32::from(segment.window);
        self.snd.wl1 = segment.seq;
        self.snd.max_wnd = self.snd.wnd;
        self.sent.mark_lost(|record| record.is_syn());
        self.timers.base = now;
        Ok(None)
    }
}
