//! Arrivals from the network: a segment goes to its connection or listener and is answered if there is none;
//! an ICMP error about a connection is believed if it quotes a segment in flight (RFC 5927 §4).

use weever_wire::tcp::{Seq, TcpOptionsRepr, TcpRepr, flag};

use super::open::is_host;
use super::{Endpoint, Handled, MAX_REPLIES};
use crate::connection::Failure;
use crate::segment::Transmit;
use crate::{Connection, Ecn, Id, Nanos, Reject, Segment, State, Tuple};

impl Endpoint {
    /// Takes a segment that arrived between the ends of `tuple`, with a right checksum.
    ///
    /// # Errors
    /// Why it went no further; it is counted, and answered where it has to be.
    #[inline]
    pub fn handle(
        &mut self,
        tuple: &Tuple,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Handled, Reject> {
        self.handle_at(self.lookup(tuple), tuple, segment, now)
    }

    /// The same for a caller that has [looked the connection up](Self::lookup) just before.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    #[inline]
    pub fn handle_at(
        &mut self,
        found: Option<Id>,
        tuple: &Tuple,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Handled, Reject> {
        let handled = match found {
            Some(id) => match self.pass_expected(id, segment, now) {
                Some(handled) => return Ok(handled),
                None => self.pass_or_reuse(id.index, tuple, segment, now),
            },
            None => self.first_contact(tuple, segment, now),
        };
        if let Err(reject) = handled {
            *self.counters.rejected.entry(reject).or_default() += 1;
        }
        handled
    }

    /// No connection has these ends.
    fn first_contact(
        &mut self,
        tuple: &Tuple,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Handled, Reject> {
        // RFC 9293 §3.9.2.3, MUST-57: "A TCP implementation MUST silently discard an incoming SYN
        // segment that is addressed to a broadcast or multicast address."
        let wrong = !is_host(tuple.local) || !is_host(tuple.remote);
        if wrong || tuple.remote_port == 0 || tuple.local_port == 0 {
            return Err(Reject::NoConnection);
        }
        if let Some(listener) = self.listener_for(tuple) {
            return self.listen_state(listener, tuple, segment, now);
        }
        // §3.10.7.1, CLOSED: "An incoming segment containing a RST is discarded. An incoming segment
        // not containing a RST causes a RST to be sent in response."
        if !segment.has(flag::RST) {
            self.reply_reset(tuple, segment);
        }
        Err(Reject::NoConnection)
    }

    fn pass_or_reuse(
        &mut self,
        index: u32,
        tuple: &Tuple,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Handled, Reject> {
        if self.may_reuse(index, segment, now)
            && let Some(listener) = self.listener_for(tuple)
        {
            self.retire(index);
            return self.listen_state(listener, tuple, segment, now);
        }
        self.pass(index, segment, now)
    }

    /// RFC 9293 §3.6.1, MAY-2: "When a connection is closed actively, it MUST linger in the TIME-WAIT
    /// state for a time 2xMSL. However, it MAY accept a new SYN from the remote TCP endpoint to reopen
    /// the connection directly from TIME-WAIT state, if it: (1) assigns its initial sequence number for
    /// the new connection to be larger than the largest sequence number it used on the previous
    /// connection incarnation, and (2) returns to TIME-WAIT state if the SYN turns out to be an old
    /// duplicate." With timestamps, RFC 6191 §2 tells new from old.
    fn may_reuse(&self, index: u32, segment: &Segment<'_>, now: Nanos) -> bool {
        if segment.flags & (flag::SYN | flag::ACK | flag::RST | flag::FIN) != flag::SYN {
            return false;
        }
        let Some(connection) = &self.slots[index].connection else { return false };
        if connection.state == State::Closed {
            return true;
        }
        if connection.state != State::TimeWait {
            return false;
        }
        let larger = self.secrets.isn(&connection.tuple, now).gt(connection.snd.nxt);
        let newer = match segment.options.timestamps.filter(|_| connection.rcv.timestamps) {
            Some(stamps) => Seq(stamps.value).gt(Seq(connection.rcv.stamp)),
            None => false,
        };
        larger && (newer || segment.seq.gt(connection.rcv.nxt))
    }

    /// A connection that is over makes way for a new one between its ends.
    fn retire(&mut self, index: u32) {
        let slot = &mut self.slots[index];
        let Some(connection) = slot.connection.as_mut() else { return };
        connection.finish();
        if connection.released {
            return self.remove(index);
        }
        // The application still holds it: it stays, but can no longer be found by its ends.
        let hash = self.secrets.demux(&connection.tuple);
        self.table.remove(hash, index);
        if !std::mem::replace(&mut slot.in_ready, true) {
            self.ready.push_back(index);
        }
    }

    /// Hands a segment to its connection if that expects it, as nearly always: what follows is known then, and
    /// [`settle`](Self::settle) would look for more.
    #[inline]
    fn pass_expected(&mut self, id: Id, segment: &Segment<'_>, now: Nanos) -> Option<Handled> {
        let slot = &mut self.slots[id.index];
        let accepted = slot.listener().is_none();
        let connection = slot.connection.as_mut().filter(|it| it.is_expected(segment))?;
        let payload = connection.take_expected(segment, now);
        let is_ready = accepted && !connection.events.is_empty();
        let sends = connection.may_transmit_if_quiet();
        let memory = connection.memory();
        self.memory = self.memory - u64::from(slot.memory) + u64::from(memory);
        slot.memory = memory;
        if is_ready && !std::mem::replace(&mut slot.in_ready, true) {
            self.ready.push_back(id.index);
        }
        if !sends {
            slot.set_timer_of_ack(&mut self.wheel, id.index, now);
        } else if !std::mem::replace(&mut slot.in_sends, true) {
            self.sends.push_back(id.index);
        }
        Some(Handled { id: Some(id), payload })
    }

    /// Hands a segment to its connection.
    pub(super) fn pass(
        &mut self,
        index: u32,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Handled, Reject> {
        let slot = &mut self.slots[index];
        let id = Id { index, generation: slot.generation };
        let waits_at = slot.listener();
        let Some(connection) = slot.connection.as_mut() else {
            return Err(Reject::NoConnection);
        };
        let (before, early) = (connection.state, connection.is_early());
        if before == State::SynReceived
            && let Some(listener) = waits_at
            && !early
            && segment.has(flag::ACK)
            && self.listeners[listener as usize].as_ref().is_some_and(super::Listener::is_full)
        {
            // The peer's next segment, or its answer to our SYN-ACK, asks again.
            return Err(Reject::AcceptQueueFull);
        }
        let full = self.memory > self.config.memory_limit;
        if full && segment.seq.gt(connection.rcv.nxt) && !segment.payload.is_empty() {
            // Data out of order can be dropped: the peer sends them again.
            return Err(Reject::NoMemory);
        }
        let result = connection.handle(segment, now);
        let after = connection.state;
        if result.is_ok() && before == after {
            self.settle(index, now);
            return result.map(|payload| Handled { id: Some(id), payload });
        }
        let tuple = connection.tuple;
        let unsynchronized = matches!(before, State::SynSent | State::SynReceived);
        if result == Err(Reject::AckOfUnsent) && unsynchronized && !segment.has(flag::RST) {
            self.reply_reset(&tuple, segment);
        }
        if result == Err(Reject::NoConnection) && before == State::Closed && !segment.has(flag::RST)
        {
            self.reply_reset(&tuple, segment);
        }
        if before == State::SynSent && after.is_synchronized() {
            self.learn_fast_open(index, segment, now);
        }
        if before == State::SynReceived && after != before {
            if after == State::Closed {
                self.drop_half_open(index, now);
            } else {
                self.leave_pending(index, now);
                if let Some(listener) = waits_at.filter(|_| !early) {
                    self.leaves_backlog(listener, id, true);
                }
            }
        }
        self.settle(index, now);
        result.map(|payload| Handled { id: Some(id), payload })
    }

    /// A half-open connection is over: it will never be accepted, unless its application has it already.
    pub(super) fn drop_half_open(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index];
        let early =
            |connection: &Connection| connection.rare.fast_open.is_some_and(|it| it.early > 0);
        if slot.connection.as_ref().is_some_and(early) {
            return self.leave_pending(index, now);
        }
        let id = Id { index, generation: slot.generation };
        if let Some(listener) = slot.take_listener() {
            if let Some(connection) = slot.connection.as_mut() {
                connection.released = true;
            }
            self.leaves_backlog(listener, id, false);
        }
    }

    /// §3.10.7.1: "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN>
    /// <CTL=RST,ACK>. If the ACK bit is on, <SEQ=SEG.ACK><CTL=RST>".
    pub(super) fn reply_reset(&mut self, tuple: &Tuple, segment: &Segment<'_>) {
        let (seq, ack, flags) = if segment.has(flag::ACK) {
            (segment.ack, Seq(0), flag::RST)
        } else {
            (Seq(0), segment.seq + segment.len(), flag::RST | flag::ACK)
        };
        let header = TcpRepr {
            src_port: tuple.local_port,
            dst_port: tuple.remote_port,
            seq: seq.0,
            ack: ack.0,
            flags,
            window: 0,
            checksum: 0,
            urgent: 0,
        };
        let options = TcpOptionsRepr::default();
        let (tuple, ecn) = (*tuple, Ecn::NotEct);
        self.reply(Transmit {
            connection: None,
            tuple,
            ecn,
            header,
            options,
            payload: 0..0,
            piece: 0,
        });
    }

    pub(super) fn reply(&mut self, transmit: Transmit) {
        if self.replies.len() >= MAX_REPLIES {
            self.counters.replies_dropped += 1;
        } else {
            self.replies.push_back(transmit);
        }
    }
}

impl Endpoint {
    /// A router says that packets between these ends must not exceed `mtu` bytes. `seq` is that of
    /// the segment that it quotes. Whether it was believed.
    ///
    /// Connections whose segments were too large send them again at once, in smaller pieces, which
    /// counts as no congestion (RFC 8201 §5.4, RFC 1191 §6.4).
    pub fn handle_mtu(&mut self, tuple: &Tuple, seq: u32, mtu: u16, now: Nanos) -> bool {
        let believed = self.find(tuple).and_then(|index| {
            let connection = self.slots[index].connection.as_mut()?;
            connection.take_mtu(Seq(seq), mtu, now).then_some(index)
        });
        if let Some(index) = believed {
            self.settle(index, now);
        }
        believed.is_some()
    }

    /// The network says that the peer cannot be reached. `seq` is that of the segment that it quotes.
    ///
    /// RFC 1122 §4.2.3.9 and RFC 5461 §4: a connection that is established outlives it; one that is
    /// being opened ends.
    pub fn handle_unreachable(&mut self, tuple: &Tuple, seq: u32, now: Nanos) -> bool {
        let Some(index) = self.find(tuple) else { return false };
        let Some(connection) = self.slots[index].connection.as_mut() else {
            return false;
        };
        let opening = connection.state == State::SynSent;
        if !opening || !connection.is_in_flight(Seq(seq)) {
            return false;
        }
        connection.end(Some(Failure::Unreachable));
        self.settle(index, now);
        true
    }
}
