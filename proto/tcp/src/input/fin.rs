//! Eighth: FIN (RFC 9293 §3.10.7.4).

use super::Arrival;
use crate::connection::{AckNeed, Events};
use crate::{Connection, Nanos, State};

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
