//! The choice of a connection's next segment.
//!
//! [`Connection::poll_into`] asks in this order: a reset, the handshake, probes, lost data, new
//! data, an acknowledgement. Each segment carries the acknowledgement that is due. New data waits for the
//! peer's window, silly windows and Nagle (RFC 9293 §3.7.4, §3.8.6.2.1).

mod segment;

use weever_wire::tcp::{Seq, flag};

use crate::connection::{AckNeed, Probe, millis};
use crate::recovery::{Frto, Phase, Record};
use crate::segment::Transmit;
use crate::{Connection, NEVER, Nanos, State};

impl Connection {
    /// Whether [`poll_into`](Self::poll_into) may have something.
    #[inline]
    pub(crate) fn may_transmit(&self) -> bool {
        let open = self.state != State::Closed;
        let unsent_syn = open && self.snd.nxt == self.snd.iss;
        self.reset_due
            || unsent_syn
            || self.probe != Probe::None
            || self.ack_need >= AckNeed::Challenge
            || self.sent.lost > 0
            || self.rare.early_ack.is_some()
            || (self.can_send() && self.has_unsent())
    }

    /// The same for a connection of which a segment was just [expected](Self::is_expected), or sent as expected: nothing
    /// of all that is rare.
    #[inline]
    pub(crate) fn may_transmit_if_quiet(&self) -> bool {
        self.ack_need >= AckNeed::Challenge || self.probe != Probe::None || self.snd.unsent() > 0
    }

    /// Whether data or FIN may be sent or sent again.
    #[inline]
    pub(crate) fn can_send(&self) -> bool {
        self.state.can_send() || self.is_early()
    }

    /// Writes the next segment to send to `out`, and says whether there may be more; `None` if there is none.
    #[inline]
    pub(crate) fn poll_into(&mut self, out: &mut Transmit, now: Nanos) -> Option<bool> {
        if let Some(len) = self.expected_len(now) {
            self.write_expected(out, len, now);
            return Some(self.may_transmit_if_quiet());
        }
        *out = self.poll_any(now)?;
        Some(self.may_transmit())
    }

    /// Writes a segment of octets whose length was [expected](Self::expected_len), field by field into `out`: a
    /// segment built elsewhere and moved would have to wait until its small stores reach the cache.
    #[inline(always)]
    fn write_expected(&mut self, out: &mut Transmit, len: u32, now: Nanos) {
        let seq = self.snd.nxt;
        let from = self.snd.offset(seq);
        if self.sent.is_empty() {
            (self.timers.base, self.timers.progress) = (now, millis(now));
        }
        self.snd.nxt = seq + len;
        self.sent.push(Record::new(seq, self.snd.nxt, now, false, false));
        self.recovery.validation.sent(self.snd.nxt - self.snd.una);
        out.options.set_usual(self.rcv.timestamps.then(|| self.timestamps(now)));
        (self.ack_need, self.timers.ack, self.rcv.last_ack) = (AckNeed::None, NEVER, self.rcv.nxt);
        let pushed = if self.snd.unsent() == 0 { flag::PSH } else { 0 };
        let reduced = if self.rcv.ecn && std::mem::take(&mut self.snd.cwr) { flag::CWR } else { 0 };
        let echo = if self.rcv.ecn && self.rcv.echo { flag::ECE } else { 0 };
        // RFC 3168 §6.1.4, §6.1.5: only new data are ECT.
        out.ecn = if self.rcv.ecn { crate::Ecn::Ect0 } else { crate::Ecn::NotEct };
        (out.tuple, out.piece) = (self.tuple, self.window.mss);
        out.payload.start = from;
        out.payload.end = from + u64::from(len);
        let header = &mut out.header;
        (header.src_port, header.dst_port) = (self.tuple.local_port, self.tuple.remote_port);
        (header.seq, header.ack) = (seq.0, self.rcv.nxt.0);
        header.flags = flag::ACK | pushed | reduced | echo;
        header.window = self.rcv.advertise(self.rcv.scale);
        header.urgent = 0;
    }

    /// Octets of the next segment of a connection for which nothing but octets of the stream is to be sent: the
    /// counterpart of the segment that [is expected](Self::is_expected). All else, and octets that have to
    /// wait, goes the long way.
    #[inline(always)]
    fn expected_len(&mut self, now: Nanos) -> Option<u32> {
        let (snd, room) = (&self.snd, self.window.mss);
        let quiet = self.state == State::Established
            && self.rare.is_usual()
            && self.rcv.ahead.is_empty()
            && self.sent.lost + self.sent.sacked == 0
            && self.recovery.phase == Phase::Open
            && self.probe == Probe::None
            && !(snd.fin || self.reset_due || self.config.pacing);
        let len = snd.unsent().min(room);
        if !quiet || len == 0 || len > self.window_room() {
            return None;
        }
        let pipe = self.pipe();
        let may_be_short =
            !self.settings.cork() && (snd.nxt == snd.una || self.settings.no_delay());
        if len < room && !may_be_short {
            return None;
        }
        self.before_new(now);
        if pipe > 0 && pipe + len > self.window.cwnd {
            return None;
        }
        Some(len + self.further(len, pipe))
    }

    /// The window is validated before new data are sent.
    #[inline]
    fn before_new(&mut self, now: Nanos) {
        let initial =
            crate::congestion::initial_window(self.window.mss, self.config.initial_window);
        self.recovery.validation.before_sending(&mut self.window, initial, now);
        if self.sent.is_empty() && self.timers.silence(now) > self.rtt.timeout(&self.config) {
            self.control.get().idle();
        }
    }

    fn poll_any(&mut self, now: Nanos) -> Option<Transmit> {
        if std::mem::take(&mut self.reset_due) {
            // §3.5.2 group 3: "<SEQ=SND.NXT><ACK=RCV.NXT><CTL=RST,ACK>"; inside the peer's window, so
            // that it is believed.
            return Some(self.segment(self.acceptable_seq(), flag::RST | flag::ACK, 0..0, now));
        }
        match self.state {
            State::Closed => None,
            State::SynSent | State::SynReceived => self.handshake(now),
            _ => self.next_segment(now),
        }
    }

    #[inline]
    fn next_segment(&mut self, now: Nanos) -> Option<Transmit> {
        if let Some(early) = self.early_ack(now) {
            return Some(early);
        }
        if let Some(probe) = self.send_probe(now) {
            return Some(probe);
        }
        if self.rare.pace == NEVER && self.state.can_send() {
            // RFC 5682 §3.1 step 2 b): new data come before data that may not be lost.
            let new_first = self.recovery.frto == Frto::NewData;
            let data = if new_first { self.send_new(now) } else { self.send_lost(now) };
            let data =
                data.or_else(|| if new_first { self.send_lost(now) } else { self.send_new(now) });
            if data.is_some() {
                return data;
            }
        }
        if self.ack_need >= AckNeed::Challenge {
            return Some(self.segment(self.acceptable_seq(), flag::ACK, 0..0, now));
        }
        None
    }

    /// SYN, or SYN and ACK, the first time or again.
    fn handshake(&mut self, now: Nanos) -> Option<Transmit> {
        let first = self.snd.nxt == self.snd.iss;
        let lost = self.sent.front().is_some_and(|front| front.is_syn() && front.is_lost());
        let again = std::mem::replace(&mut self.probe, Probe::None) == Probe::Head || lost;
        if first {
            (self.timers.base, self.timers.progress) = (now, millis(now));
            self.snd.nxt = self.snd.iss + 1;
            self.sent.push(Record::new(self.snd.iss, self.snd.nxt, now, true, false));
            return Some(self.syn_with_octets(now));
        } else if again {
            self.sent.sent_again(self.snd.iss, now);
            self.recovery.resent = self.recovery.resent.saturating_add(1);
        } else if self.is_early()
            && let Some(data) = self.send_new(now)
        {
            return Some(data);
        } else if self.state == State::SynReceived && self.ack_need >= AckNeed::Challenge {
            return Some(self.segment(self.snd.nxt, flag::ACK, 0..0, now));
        } else {
            return None;
        }
        Some(self.syn(now))
    }

    /// Sends segments that are exempt from the congestion window.
    #[inline]
    fn send_probe(&mut self, now: Nanos) -> Option<Transmit> {
        match std::mem::replace(&mut self.probe, Probe::None) {
            Probe::None => None,
            Probe::KeepAlive => {
                // RFC 9293 §3.8.4: "Such a segment generally contains SEG.SEQ = SND.NXT-1", without data
                // (SHLD-12).
                Some(self.segment(self.snd.nxt - 1, flag::ACK, 0..0, now))
            }
            Probe::Head => {
                let room = self.payload_room();
                let record = self.sent.head(room)?;
                Some(self.resend(&record, now))
            }
            Probe::Window => {
                // RFC 9293 §3.8.6.1: "The sending TCP peer must regularly transmit at least one
                // octet of new data (if available)"; as much as fits, if the window is merely
                // small.
                if !self.has_unsent() {
                    return None;
                }
                let len = self.snd.unsent().min(self.window_room().max(1)).min(self.payload_room());
                Some(self.new_segment(len, len == 0, now))
            }
            Probe::Tail => self.send_tail_probe(now),
        }
    }

    /// RFC 8985 §7.3, TLP_send_probe().
    fn send_tail_probe(&mut self, now: Nanos) -> Option<Transmit> {
        let unsent = self.snd.unsent().min(self.payload_room());
        let transmit = if unsent > 0 && self.window_room() >= unsent {
            self.recovery.probe_is_retransmission = false;
            self.new_segment(unsent, false, now)
        } else {
            let room = self.payload_room();
            let record = self.sent.tail(room)?;
            self.recovery.probe_is_retransmission = true;
            self.resend(&record, now)
        };
        self.rare.set().probe_end = Some(self.snd.nxt);
        Some(transmit)
    }

    /// The first of the lost records.
    #[inline]
    fn send_lost(&mut self, now: Nanos) -> Option<Transmit> {
        let room = self.payload_room();
        let record = self.sent.next_lost(room)?;
        // RFC 6675 §5 (C): "If cwnd - pipe >= 1 SMSS, the sender SHOULD transmit".
        if self.pipe() + record.len() > self.window.cwnd {
            self.recovery.limited = true;
            return None;
        }
        if self.recovery.phase == Phase::Recovery {
            // RFC 6675 §6: "a more careful variant that re-arms the RTO timer on each retransmission that is
            // sent during recovery MAY be used", since a recovery may last longer than a timeout.
            self.timers.base = now;
        }
        Some(self.resend(&record, now))
    }

    #[inline]
    fn send_new(&mut self, now: Nanos) -> Option<Transmit> {
        let Some((len, fin)) = self.sendable() else {
            self.recovery.limited = false;
            return None;
        };
        self.before_new(now);
        let pipe = self.pipe();
        let probe = self.path_probe(now);
        if pipe > 0 && pipe + probe.unwrap_or(len) > self.window.cwnd {
            self.recovery.limited = true;
            return None;
        }
        if let Some(len) = probe {
            let fits = len <= self.window_room();
            return fits.then(|| self.send_path_probe(len, now));
        }
        let len = if fin { len } else { len + self.further(len, pipe) };
        Some(self.new_segment(len, fin, now))
    }

    /// Octets beyond a full segment of `len` that the same [`Transmit`] may hold: further full
    /// segments, within both windows. The last, short one goes by itself.
    #[inline]
    fn further(&self, len: u32, pipe: u32) -> u32 {
        let room = self.window.mss;
        if len < room { 0 } else { self.further_segments(len, pipe) }
    }

    fn further_segments(&self, len: u32, pipe: u32) -> u32 {
        let room = self.payload_room();
        let most = self.config.super_segment.min(crate::MAX_JOINED);
        if most < 2 * room || room != self.window.mss {
            return 0;
        }
        let window = self.window_room().min(self.window.cwnd.saturating_sub(pipe));
        // Paced segments go out in quanta of time, not of size.
        let paced = if self.config.pacing { self.pace_octets() } else { u32::MAX };
        let whole = self.snd.unsent().min(window).min(most).min(paced);
        (whole - whole % room).saturating_sub(len)
    }

    /// Octets that leave in a quantum at the pace of the window.
    fn pace_octets(&self) -> u32 {
        let rtt = self.rtt.smoothed().max(1);
        let octets = u128::from(self.window.cwnd) * u128::from(PACE_QUANTUM) / u128::from(rtt);
        u32::try_from(octets).unwrap_or(u32::MAX)
    }

    /// A segment with the next `len` octets of the stream, and FIN behind them.
    #[inline(always)]
    pub(crate) fn new_segment(&mut self, len: u32, fin: bool, now: Nanos) -> Transmit {
        let seq = self.snd.nxt;
        let from = self.snd.offset(seq);
        if self.sent.is_empty() {
            (self.timers.base, self.timers.progress) = (now, millis(now));
        }
        self.snd.nxt = seq + len + u32::from(fin);
        if self.snd.nxt != seq {
            self.sent.push(Record::new(seq, self.snd.nxt, now, false, fin));
        }
        let mut flags = flag::ACK;
        if fin {
            flags |= flag::FIN;
        }
        // RFC 9293 §3.9.1.2, MUST-61, where SEND has no flag of its own: it "MUST set the PSH bit in the last
        // buffered segment (i.e., when there is no more queued data to be sent)".
        if len > 0 && self.snd.unsent() == 0 {
            flags |= flag::PSH;
        }
        if self.rcv.ecn && len > 0 && std::mem::take(&mut self.snd.cwr) {
            flags |= flag::CWR;
        }
        let mut transmit = self.segment(seq, flags, from..from + u64::from(len), now);
        // RFC 3168 §6.1.4, §6.1.5: pure acknowledgements and retransmissions are not ECT.
        if self.rcv.ecn && len > 0 {
            transmit.ecn = crate::Ecn::Ect0;
        }
        self.recovery.validation.sent(self.snd.nxt - self.snd.una);
        self.account_sent(len, now);
        transmit
    }

    /// A segment that was sent before.
    fn resend(&mut self, record: &Record, now: Nanos) -> Transmit {
        let (from, fin) = (self.snd.offset(record.start), record.is_fin());
        let len = record.len() - u32::from(fin);
        self.sent.sent_again(record.start, now);
        self.recovery.resent = self.recovery.resent.saturating_add(1);
        self.note_resent(record);
        self.doubt_path_probe((record.start, record.end), now);
        let mut flags = flag::ACK;
        if fin {
            flags |= flag::FIN;
        }
        if len > 0 && record.end == self.snd.nxt && self.snd.unsent() == 0 {
            flags |= flag::PSH;
        }
        let transmit = self.segment(record.start, flags, from..from + u64::from(len), now);
        self.account_sent(len, now);
        transmit
    }

    fn account_sent(&mut self, len: u32, now: Nanos) {
        if self.recovery.phase == Phase::Recovery {
            self.rare.set().prr.sent(len);
        }
        self.pace(len, now);
    }

    /// Spaces segments out: at twice the rate of the window in slow start, else at 1.2 times.
    fn pace(&mut self, len: u32, now: Nanos) {
        let (rtt, cwnd) = (self.rtt.smoothed(), u64::from(self.window.cwnd.max(1)));
        if !self.config.pacing || rtt == 0 || len == 0 {
            return;
        }
        let tenths = if self.window.in_slow_start() { 20 } else { 12 };
        let gap = (u128::from(rtt) * u128::from(len) * 10 / u128::from(cwnd * tenths)) as u64;
        let rare = self.rare.set();
        rare.pace_next = rare.pace_next.max(now) + gap;
        if rare.pace_next > now + PACE_QUANTUM {
            rare.pace = rare.pace_next - PACE_QUANTUM;
        }
    }
}

/// Timers are not finer than this: segments of one quantum go out together.
const PACE_QUANTUM: Nanos = weever_net::MILLIS;

impl Connection {
    /// Octets that the peer's window still has room for: U.
    pub(crate) fn window_room(&self) -> u32 {
        let edge = self.snd.una + self.snd.wnd;
        if edge.gt(self.snd.nxt) { edge - self.snd.nxt } else { 0 }
    }

    /// Whether data or FIN has never been sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.snd.unsent() > 0 || (self.snd.fin && !self.snd.is_fin_sent())
    }

    /// Octets of payload that a segment can hold beside its options: Eff.snd.MSS.
    pub(crate) fn payload_room(&self) -> u32 {
        self.window.mss.saturating_sub(self.selective_len()).max(1)
    }

    /// How much new data to send now, and whether with FIN; congestion is not asked about.
    #[inline]
    pub(crate) fn sendable(&self) -> Option<(u32, bool)> {
        let unsent = self.snd.unsent();
        let fin_due = self.snd.fin && !self.snd.is_fin_sent();
        if !self.can_send() || (unsent == 0 && !fin_due) {
            return None;
        }
        let (room, window) = (self.payload_room(), self.window_room());
        let len = unsent.min(window).min(room);
        // FIN occupies a sequence number, which has to lie in the window as well.
        let fin = fin_due && len == unsent && window > len;
        if len == 0 && !fin {
            return None;
        }
        // "Send data: (1) if a maximum-sized segment can be sent, i.e., if: min(D,U) >= Eff.snd.MSS".
        if len == room || fin {
            return Some((len, fin));
        }
        if self.settings.cork() {
            return None;
        }
        // "(2) or if the data is pushed and all queued data can be sent now, i.e., if: [SND.NXT =
        // SND.UNA and] PUSHed and D <= U (the bracketed condition is imposed by the Nagle
        // algorithm)". Data that an application queues count as pushed. A SYN that is not
        // acknowledged does not hold octets back here, nor at the peer.
        let idle = self.snd.nxt.max(self.snd.base) == self.snd.una.max(self.snd.base);
        if len == unsent && (idle || self.settings.no_delay()) {
            return Some((len, false));
        }
        // "(3) or if at least a fraction Fs of the maximum window can be sent, i.e., if: [SND.NXT =
        // SND.UNA and] min(D,U) >= Fs * Max(SND.WND)", Fs = 1/2. (4), the override timeout, is the
        // probe of a closed window.
        let fraction = len >= self.snd.max_wnd / 2;
        (len < unsent && fraction && (idle || self.settings.no_delay())).then_some((len, false))
    }

    /// SND.NXT, or the end of the peer's window if that is before it: probes beyond it were not
    /// taken, and an acknowledgement with their number would not be, either.
    pub(crate) fn acceptable_seq(&self) -> Seq {
        let edge = self.snd.una + self.snd.wnd;
        if self.state < State::Established || edge.ge(self.snd.nxt) {
            self.snd.nxt
        } else {
            edge.max(self.snd.una)
        }
    }
}
