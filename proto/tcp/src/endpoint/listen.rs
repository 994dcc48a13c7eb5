//! The LISTEN state (RFC 9293 §3.10.7.2), with a backlog, an accept queue and SYN cookies (RFC 4987).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use weever_wire::tcp::{Seq, TcpOptionsRepr, TcpRepr, Timestamps, flag};

use super::listener::{ListenError, Listener, ListenerConfig, ListenerId};
use super::secrets::{Remembered, Secrets};
use super::{Endpoint, Handled};
use crate::connection::{Birth, Events};
use crate::input::Reject;
use crate::segment::Transmit;
use crate::{Connection, Ecn, EcnMode, Id, Nanos, Segment, State, Tuple};

impl Endpoint {
    /// Passive OPEN (RFC 9293 §3.10.1).
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&mut self, config: ListenerConfig) -> Result<ListenerId, ListenError> {
        if config.port == 0 {
            return Err(ListenError::NoPort);
        }
        let same = |other: &Listener| {
            other.config.port == config.port && other.config.address == config.address
        };
        if self.listeners.iter().flatten().any(same) {
            return Err(ListenError::InUse);
        }
        let listener = Listener::new(config);
        let free = self.listeners.iter().position(Option::is_none);
        let at = free.unwrap_or(self.listeners.len());
        match free {
            Some(at) => self.listeners[at] = Some(listener),
            None => self.listeners.push(Some(listener)),
        }
        self.ports.entry(config.port).or_default().push(at as u32);
        Ok(ListenerId(at as u32))
    }

    /// Ends a listener. Connections not yet accepted are reset.
    pub fn stop_listening(&mut self, id: ListenerId, now: Nanos) {
        let Some(listener) = self.listeners.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        if let Some(of_port) = self.ports.get_mut(&listener.config.port) {
            of_port.retain(|at| *at != id.0);
        }
        for waiting in listener.waiting {
            self.abort(waiting, now);
            self.close(waiting, now);
        }
        for index in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[index];
            if slot.listener() == Some(id.0) {
                slot.take_listener();
                if let Some(connection) = &mut slot.connection {
                    connection.abort();
                    connection.released = true;
                }
                self.settle(index, now);
                continue;
            }
            // Accepted connections go on, and do not count at the listener any more.
            if let Some(connection) = &mut slot.connection {
                connection.rare.reset(|rare| {
                    if let Some(fast) = &mut rare.fast_open {
                        fast.pending_at = fast.pending_at.filter(|at| *at != id.0);
                    }
                });
            }
        }
    }

    /// The next established connection of a listener. Its events come after this.
    pub fn accept(&mut self, id: ListenerId) -> Option<Id> {
        let accepted = self.listeners.get_mut(id.0 as usize)?.as_mut()?.waiting.pop_front()?;
        if let Some(slot) = self.slots.get_mut(accepted.index) {
            slot.take_listener();
            if slot.connection.as_ref().is_some_and(|connection| !connection.events.is_empty())
                && !std::mem::replace(&mut slot.in_ready, true)
            {
                self.ready.push_back(accepted.index);
            }
        }
        Some(accepted)
    }

    /// The listener for segments to these ends: one of the address goes before one of the family, and that
    /// before one of any.
    pub(super) fn listener_for(&self, tuple: &Tuple) -> Option<u32> {
        let of_port = self.ports.get(&tuple.local_port)?;
        let of_family = match tuple.local {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let with = |address: Option<IpAddr>| {
            let is_it = |at: &&u32| {
                let listener = self.listeners[**at as usize].as_ref();
                listener.is_some_and(|listener| listener.config.address == address)
            };
            of_port.iter().find(is_it).copied()
        };
        with(Some(tuple.local)).or_else(|| with(Some(of_family))).or_else(|| with(None))
    }

    /// A segment for a listener (§3.10.7.2).
    pub(super) fn listen_state(
        &mut self,
        at: u32,
        tuple: &Tuple,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Handled, Reject> {
        // "First, check for a RST: An incoming RST should be ignored."
        if segment.has(flag::RST) {
            return Err(Reject::Reset);
        }
        // "Second, check for an ACK: Any acknowledgment is bad if it arrives on a connection still in
        // the LISTEN state", unless it is for a cookie.
        if segment.has(flag::ACK) {
            return self.take_cookie(at, tuple, segment, now);
        }
        // "Third, check for a SYN". RFC 9293 lets FIN with SYN pass; no real sender sets both.
        if !segment.has(flag::SYN) || segment.has(flag::FIN) {
            return Err(Reject::BadFlags);
        }
        let Some(listener) = &self.listeners[at as usize] else { return Err(Reject::NoConnection) };
        if listener.is_full() {
            return Err(Reject::AcceptQueueFull);
        }
        let (backlog_full, config) =
            (listener.half_open >= listener.config.backlog, listener.config);
        let fast = self.answer_fast_open(at, tuple, segment, now);
        let is_early = fast.is_some_and(|fast| fast.early > 0);
        // A valid cookie proves the source address; such connections have a limit of their own.
        if backlog_full && !is_early {
            if !config.cookies {
                return Err(Reject::BacklogFull);
            }
            let max_segment = config.max_segment;
            self.send_cookie(tuple, segment, max_segment, now);
            return Ok(Handled { id: None, payload: None });
        }
        self.has_room()?;
        let birth = Birth {
            tuple: *tuple,
            iss: self.secrets.isn(tuple, now),
            stamp_offset: self.secrets.stamp_offset(tuple),
            passive: true,
        };
        let mut connection = Connection::new(&birth, &self.config, now);
        connection.settings.max_segment = config.max_segment;
        connection.accept_syn(segment, now);
        let payload = fast.and_then(|fast| connection.take_early(fast, at));
        let id = self.add(connection);
        self.slots[id.index].set_listener(at);
        if payload.is_some() {
            self.welcome(at, id);
        } else if let Some(listener) = &mut self.listeners[at as usize] {
            listener.half_open += 1;
        }
        self.settle(id.index, now);
        Ok(Handled { id: Some(id), payload })
    }

    /// A half-open connection is established or over.
    pub(super) fn leaves_backlog(&mut self, at: u32, id: Id, established: bool) {
        let Some(listener) = self.listeners[at as usize].as_mut() else { return };
        listener.half_open = listener.half_open.saturating_sub(1);
        if established {
            listener.waiting.push_back(id);
            self.counters.accepted += 1;
        }
    }

    /// A waiting connection is gone before it was accepted.
    pub(super) fn leaves_accept_queue(&mut self, id: Id) {
        for listener in self.listeners.iter_mut().flatten() {
            listener.waiting.retain(|other| *other != id);
        }
    }

    /// A SYN-ACK that nothing has to be kept for.
    fn send_cookie(
        &mut self,
        tuple: &Tuple,
        segment: &Segment<'_>,
        max_segment: Option<NonZeroU16>,
        now: Nanos,
    ) {
        let offered = segment.options;
        let mss = offered.mss.unwrap_or(crate::connection::default_mss(tuple));
        let iss = self.secrets.cookie(tuple, segment.seq, mss, now);
        let timestamps = offered.timestamps.filter(|_| self.config.timestamps);
        let ecn = self.answers_ecn(segment);
        // Without timestamps there is no place to remember the other options in.
        let remembered = Remembered {
            mss,
            window_scale: offered.window_scale.filter(|_| self.config.window_scaling),
            sack: offered.sack_permitted && self.config.sack,
            ecn,
        };
        let fresh = crate::receive::Receiver::new(&self.config, tuple, 0);
        let whole = self.config.mtu.saturating_sub(tuple.ip_header_len() + 20);
        let mut options = TcpOptionsRepr {
            mss: Some(max_segment.map_or(whole, |most| whole.min(most.get()))),
            ..TcpOptionsRepr::default()
        };
        if let Some(theirs) = timestamps {
            let value = self.secrets.cookie_stamp(tuple, remembered, now);
            options.timestamps = Some(Timestamps { value, echo: theirs.value });
            options.window_scale = remembered.window_scale.map(|_| fresh.scale);
            options.sack_permitted = remembered.sack;
        }
        let echo = if ecn && timestamps.is_some() { flag::ECE } else { 0 };
        let header = TcpRepr {
            src_port: tuple.local_port,
            dst_port: tuple.remote_port,
            seq: iss.0,
            ack: (segment.seq + 1).0,
            flags: flag::SYN | flag::ACK | echo,
            window: fresh.capacity.min(0xffff) as u16,
            checksum: 0,
            urgent: 0,
        };
        self.counters.cookies_sent += 1;
        self.reply(Transmit {
            connection: None,
            tuple: *tuple,
            ecn: Ecn::NotEct,
            header,
            options,
            payload: 0..0,
            piece: 0,
        });
    }

    /// Whether a SYN asks for ECN (RFC 3168 §6.1.1: ECE and CWR) and gets it.
    fn answers_ecn(&self, segment: &Segment<'_>) -> bool {
        let asks = segment.flags & (flag::ECE | flag::CWR) == flag::ECE | flag::CWR;
        asks && self.config.ecn != EcnMode::Off
    }

    /// An acknowledgement that may answer a cookie: then the connection is made as it would be.
    fn take_cookie(
        &mut self,
        at: u32,
        tuple: &Tuple,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Result<Handled, Reject> {
        let listener = self.listeners[at as usize].as_ref().ok_or(Reject::NoConnection)?;
        let (irs, iss) = (segment.seq - 1, segment.ack - 1);
        let mss = (listener.config.cookies && !segment.has(flag::SYN))
            .then(|| self.secrets.check_cookie(tuple, irs, iss, now))
            .flatten();
        let Some(mss) = mss else {
            self.reply_reset(tuple, segment);
            return Err(Reject::BadCookie);
        };
        if listener.is_full() {
            return Err(Reject::AcceptQueueFull);
        }
        self.has_room()?;
        let stamps = segment.options.timestamps.filter(|_| self.config.timestamps);
        let remembered = Secrets::remembered(mss, stamps.map(|stamps| stamps.echo));
        let stamp_offset = self.secrets.stamp_offset(tuple);
        let birth = Birth { tuple: *tuple, iss, stamp_offset, passive: true };
        let max_segment = listener.config.max_segment;
        let mut connection = Connection::new(&birth, &self.config, now);
        connection.settings.max_segment = max_segment;
        connection.resume(irs, &remembered, segment, now);
        let id = self.add(connection);
        self.slots[id.index].set_listener(at);
        if let Some(listener) = &mut self.listeners[at as usize] {
            listener.waiting.push_back(id);
        }
        self.counters.accepted += 1;
        self.counters.cookies_taken += 1;
        self.pass(id.index, segment, now)
    }
}

impl Connection {
    /// "Third, check for a SYN: ... RCV.NXT is set to SEG.SEQ+1, IRS is set to SEG.SEQ, and any other
    /// control or text should be queued for processing later. ISS should be selected and a SYN segment
    /// sent of the form: <SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK> ... The connection state should be changed
    /// to SYN-RECEIVED." Text in it is not queued: it is not acknowledged, and so will come again.
    fn accept_syn(&mut self, segment: &Segment<'_>, now: Nanos) {
        let asks = segment.flags & (flag::ECE | flag::CWR) == flag::ECE | flag::CWR;
        self.rcv.ecn = asks && self.config.ecn != EcnMode::Off;
        self.take_syn(segment.seq, &segment.options, now);
        self.snd.wnd = u32::from(segment.window);
        (self.snd.wl1, self.snd.max_wnd) = (segment.seq, self.snd.wnd);
        self.state = State::SynReceived;
    }

    /// A connection that only a cookie remembers, established by `segment`.
    fn resume(&mut self, irs: Seq, options: &Remembered, segment: &Segment<'_>, now: Nanos) {
        let said = weever_wire::tcp::TcpOptions {
            mss: Some(options.mss),
            window_scale: options.window_scale,
            sack_permitted: options.sack,
            timestamps: segment.options.timestamps,
            ..weever_wire::tcp::TcpOptions::default()
        };
        self.rcv.ecn = options.ecn;
        self.take_syn(irs, &said, now);
        self.snd.una = self.snd.iss + 1;
        self.snd.nxt = self.snd.una;
        self.snd.wnd = u32::from(segment.window) << self.snd.scale;
        (self.snd.wl1, self.snd.wl2) = (segment.seq, segment.ack);
        self.snd.max_wnd = self.snd.wnd;
        self.establish(now);
        self.events.add(Events::CONNECTED);
    }
}
