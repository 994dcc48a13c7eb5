//! SEGMENT ARRIVES (RFC 9293 §3.10.7).
//!
//! The steps stand below each other in [`Connection::handle`]. Each returns the reason why the
//! segment goes no further, or nothing. The answer to send is noted in the connection, and leaves with
//! the next [`poll_transmit`](crate::Endpoint::poll_transmit).
//!
//! Nearly all segments are expected: the next one in order, or an acknowledgement of octets sent once,
//! while nothing is lost or missing. For them the eight steps come down to
//! [`Connection::take_expected`] (V. Jacobson's header prediction), which the endpoint calls instead.

mod ack;
mod sequence;
mod syn_sent;
mod text;

use core::ops::Range;

use weever_net::MILLIS;
use weever_wire::tcp::{Seq, flag};

use crate::connection::{AckNeed, millis};
use crate::recovery::Phase;
use crate::{Connection, Nanos, Segment, State};

/// Payload that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Stream offset of its first octet.
    pub offset: u64,
    /// Where it lies in the segment's payload.
    pub range: Range<usize>,
    /// Whether it can be read at once, as the next of the stream. Otherwise it has to be copied to
    /// its offset in the receive region, and becomes readable when the octets before it have come.
    pub in_order: bool,
}

/// Why a segment went no further than some step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reject {
    /// No connection and no listener: answered with RST.
    NoConnection,
    /// The options cannot be read.
    BadOptions,
    /// Flags that make no sense together, or none at all.
    BadFlags,
    /// Its timestamp is older than one that came before it (RFC 7323 §5).
    OldTimestamp,
    /// No timestamp although they were agreed upon (RFC 7323 §3.2).
    NoTimestamp,
    /// Outside the receive window.
    OutsideWindow,
    /// RST that is not exactly the next one: challenged (RFC 5961 §3).
    InexactReset,
    /// RST that ended the connection.
    Reset,
    /// SYN in a synchronised state: challenged (RFC 5961 §4).
    UnexpectedSyn,
    /// It acknowledged our FIN and so ended the connection: nothing is wrong with it.
    Finished,
    /// ACK is missing.
    NoAck,
    /// It acknowledges octets that were never sent.
    AckOfUnsent,
    /// It acknowledges octets that were acknowledged long ago (RFC 5961 §5).
    OldAck,
    /// Data after the application let go of the connection: answered with RST.
    Unwanted,
    /// Data after the peer's FIN.
    AfterFin,
    /// Too many pieces out of order.
    TooManyPieces,
    /// The memory limit of the endpoint is reached.
    NoMemory,
    /// The listener's backlog of half-open connections is full, and cookies are off.
    BacklogFull,
    /// The listener's queue of accepted connections is full.
    AcceptQueueFull,
    /// The acknowledgement of a SYN cookie that was not ours, or is too old.
    BadCookie,
    /// There are as many connections as there may be.
    TooManyConnections,
}

/// A segment as far as it lies in the window.
pub(crate) struct Arrival<'a, 's> {
    pub(crate) segment: &'s Segment<'a>,
    /// Sequence number of the first octet that is left of the payload.
    pub(crate) seq: Seq,
    /// The remaining part of the payload.
    pub(crate) range: Range<usize>,
    /// Whether FIN is left.
    pub(crate) fin: bool,
}

/// Answers to unacceptable segments: one in this time for each connection, so that two ends that
/// disagree do not answer each other for ever (RFC 5961 §7).
const CHALLENGE_INTERVAL: Nanos = 500 * MILLIS;

impl Connection {
    /// Takes a segment of this connection. The payload that was accepted, if any.
    pub(crate) fn handle(
        &mut self,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Option<Payload>, Reject> {
        match self.state {
            State::Closed => return Err(Reject::NoConnection),
            State::SynSent => return self.syn_sent(segment, now),
            _ => {}
        }
        // First: the sequence number; timestamps belong to this step (RFC 7323 §5.2).
        self.check_timestamp(segment, now)?;
        let arrival = self.check_sequence(segment, now)?;
        self.timers.heard = millis(now);
        self.keep_alive_probes = 0;
        // Second: RST.
        self.check_reset(segment, now)?;
        // Third: security and compartments, which weever does not have (docs/rfc-exceptions.md).
        // Fourth: SYN.
        self.check_syn(segment, now)?;
        // Fifth: ACK.
        self.check_ack(segment, now)?;
        self.note_timestamp(segment, now);
        // Sixth: URG.
        self.check_urgent(&arrival);
        // Seventh: text.
        let payload = self.take_text(&arrival, now)?;
        // Eighth: FIN.
        self.take_fin(&arrival, now);
        Ok(payload)
    }

    /// An acknowledgement in answer to a segment that could not be taken, if none was sent lately.
    pub(crate) fn challenge(&mut self, now: Nanos) {
        if self.may_challenge(now) {
            self.ack_need = AckNeed::Challenge;
        }
    }

    /// Whether an answer to something unacceptable may be given, which then counts as given.
    fn may_challenge(&mut self, now: Nanos) -> bool {
        let last = self.rare.challenged;
        if last != 0 && now.saturating_sub(last) < CHALLENGE_INTERVAL {
            return false;
        }
        self.rare.set().challenged = now.max(1);
        true
    }
}

/// Flags that say more than that a segment acknowledges; PSH says nothing to a receiver.
const TELLING: u8 =
    flag::SYN | flag::FIN | flag::RST | flag::URG | flag::ACK | flag::ECE | flag::CWR;

impl Connection {
    /// Whether the steps would let all of a segment pass, with no answer due but the acknowledgement of
    /// its text, and with nothing to repair.
    #[inline]
    pub(crate) fn is_expected(&self, segment: &Segment<'_>) -> bool {
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
    pub(crate) fn take_expected(&mut self, segment: &Segment<'_>, now: Nanos) -> Option<Payload> {
        self.timers.heard = millis(now);
        self.keep_alive_probes = 0;
        if segment.ack != self.snd.una {
            self.account_in_order(segment, now);
            self.note_progress(now);
        }
        self.update_window(segment, now);
        if let Some(stamp) =
            segment.options.timestamps.filter(|_| segment.seq.le(self.rcv.last_ack))
        {
            self.rcv.note_stamp(stamp.value, now);
        }
        let len = segment.text_len();
        if len == 0 {
            return None;
        }
        let offset = self.rcv.received;
        self.advance(len, now);
        Some(Payload { offset, range: 0..len as usize, in_order: true })
    }
}
