//! The segment that is expected: the next one in order, or an acknowledgement of octets sent once,
//! while nothing is lost or missing. Nearly all segments are one of these, and for them the eight
//! steps come down to the code here (V. Jacobson's header prediction).

use weever_wire::tcp::{Seq, flag};

use super::Payload;
use crate::connection::millis;
use crate::recovery::Phase;
use crate::{Connection, Nanos, Segment, State};

/// Flags that say more than that a segment acknowledges; PSH says nothing to a receiver.
const TELLING: u8 =
    flag::SYN | flag::FIN | flag::RST | flag::URG | flag::ACK | flag::ECE | flag::CWR;

impl Connection {
    /// Whether the steps would let all of a segment pass, with no answer due but the acknowledgement of
    /// its text, and with nothing to repair.
    #[inline]
    pub(super) fn is_expected(&self, segment: &Segment<'_>) -> bool {
        let (rcv, snd) = (&self.rcv, &self.snd);
        let stamp = segment.options.timestamps;
        let stamped = stamp
            .map_or(!rcv.timestamps, |stamp| rcv.timestamps && Seq(stamp.value).ge(Seq(rcv.stamp)));
        let advances = segment.ack.gt(snd.una) && segment.ack.le(snd.nxt);
        let settled = rcv.ahead.is_empty()
            && self.sent.sacked + self.sent.lost == 0
            && self.recovery.phase == Phase::Open
            && self.rare.is_usual();
        self.state == State::Established
            && segment.flags & TELLING == flag::ACK
            && segment.seq == rcv.nxt
            && segment.text_len() <= rcv.window()
            && (advances || (segment.ack == snd.una && segment.text_len() > 0))
            && segment.options.sack.is_empty()
            && stamped
            && settled
            && !(rcv.ecn || rcv.fin_known || self.released)
    }

    /// Takes a segment that [is expected](Self::is_expected).
    #[inline]
    pub(super) fn take_expected(&mut self, segment: &Segment<'_>, now: Nanos) -> Option<Payload> {
        self.timers.heard = millis(now);
        self.keep_alive_probes = 0;
        if segment.ack != self.snd.una {
            self.account_in_order(segment, now);
            self.note_progress(now);
        }
        self.update_window(segment, now);
        self.note_timestamp(segment, now);
        let len = segment.text_len();
        if len == 0 {
            return None;
        }
        let offset = self.rcv.received;
        self.advance(len, now);
        Some(Payload { offset, range: 0..len as usize, in_order: true })
    }
}
