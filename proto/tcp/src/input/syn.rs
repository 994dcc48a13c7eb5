//! Fourth: SYN (RFC 9293 §3.10.7.4, RFC 5961 §4).

use weever_wire::tcp::flag;

use super::Reject;
use crate::connection::Failure;
use crate::{Connection, Nanos, Segment, State};

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
