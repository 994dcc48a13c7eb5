//! Second: RST (RFC 9293 §3.10.7.4, RFC 5961 §3).

use weever_wire::tcp::flag;

use super::Reject;
use crate::connection::Failure;
use crate::{Connection, Nanos, Segment, State};

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
            State::SynReceived => self.end(Some(Failure::Refused)),
            State::Closing | State::LastAck => self.finish(),
            // "Users should also receive an unsolicited general 'connection reset' signal."
            _ => self.end(Some(Failure::Reset)),
        }
        Err(Reject::Reset)
    }
}
