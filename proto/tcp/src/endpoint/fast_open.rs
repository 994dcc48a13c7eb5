//! Fast Open (RFC 7413) at both ends: which SYNs carry octets, and whose octets are accepted.

use super::{Endpoint, ListenerId};
use crate::connection::Events;
use crate::fast_open::{Cookie, FastOpen};
use crate::{Connection, Id, Nanos, Payload, Segment, State, Tuple};
use weever_net::SECOND;

/// A reset handshake counts as pending for this long.
const RESET_COUNTS: Nanos = 60 * SECOND;

impl Endpoint {
    /// The SYN of a connection that was just asked for carries what is queued before it is polled, if the server
    /// has given a cookie to an earlier connection; otherwise it asks for one. Once the SYN was sent it has no
    /// effect. Returns whether octets will go with the SYN.
    ///
    /// Octets in a SYN may reach the server's application twice, if the network duplicates the SYN: it is for
    /// requests that may be repeated (RFC 7413 §6.1).
    pub fn set_fast_open(&mut self, id: Id, now: Nanos) -> bool {
        let Some(connection) = self.get(id) else { return false };
        if connection.state != State::SynSent || connection.snd.nxt != connection.snd.iss {
            return false;
        }
        let fast = self.cookies.open(addresses(connection.tuple()), now);
        self.with(id, now, |connection| connection.rare.set().fast_open = Some(fast));
        fast.option.is_some_and(|cookie| !cookie.is_empty())
    }

    /// Has a listener accept octets in SYNs, of at most `pending` connections at a time whose handshakes have
    /// not ended; with 0 of none.
    pub fn set_listener_fast_open(&mut self, id: ListenerId, pending: u32) {
        if let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) {
            listener.config.fast_open = pending;
        }
    }

    /// How a listener answers the Fast Open option of a SYN (RFC 7413 §4.2.2).
    pub(super) fn answer_fast_open(
        &mut self,
        at: u32,
        tuple: &Tuple,
        segment: &Segment<'_>,
        now: Nanos,
    ) -> Option<FastOpen> {
        let offered = segment.options.fast_open?;
        let listener = self.listeners[at as usize].as_mut().filter(|it| it.config.fast_open > 0)?;
        let fresh = Some(Cookie::new(&self.secrets.fast_open(tuple, now)));
        let Some(is_fresh) = self.secrets.check_fast_open(tuple, offered, now) else {
            // Octets beside a wrong cookie are not used; the client gets the right one.
            return Some(FastOpen { option: fresh, ..FastOpen::default() });
        };
        let mut fast = FastOpen { option: fresh.filter(|_| !is_fresh), ..FastOpen::default() };
        if segment.text_len() == 0 {
            return Some(fast);
        }
        if listener.pending(now) >= listener.config.fast_open {
            // §5.1: above the limit, connections are opened by the usual handshake.
            self.counters.fast_open_full += 1;
            return Some(fast);
        }
        fast.early = segment.text_len();
        Some(fast)
    }

    /// A connection with octets in its SYN waits to be accepted at once.
    pub(super) fn welcome(&mut self, at: u32, id: Id) {
        if let Some(listener) = &mut self.listeners[at as usize] {
            listener.waiting.push_back(id);
            listener.early += 1;
        }
        self.counters.accepted += 1;
        self.counters.fast_opened += 1;
    }

    /// The handshake of a connection has ended, or the connection itself: it does not count as pending any
    /// more.
    pub(super) fn leave_pending(&mut self, index: u32, now: Nanos) {
        let Some(connection) = &mut self.slots[index].connection else { return };
        let failed = connection.state == State::Closed;
        let pending_at = connection.rare.fast_open.and_then(|fast| fast.pending_at);
        connection.end_fast_open(now);
        if let Some(Some(listener)) = pending_at.map(|at| &mut self.listeners[at as usize]) {
            listener.early = listener.early.saturating_sub(1);
            // §5.1: the victim of a forged SYN resets the connection. If it were not counted any longer, an
            // attacker could have any number of requests carried out.
            if failed {
                listener.resets.push_back(now.saturating_add(RESET_COUNTS));
            }
        }
    }

    /// `segment` is the answer to a SYN of ours.
    pub(super) fn learn_fast_open(&mut self, index: u32, segment: &Segment<'_>, now: Nanos) {
        let Some(connection) = &mut self.slots[index].connection else { return };
        let Some(fast) = connection.rare.fast_open else { return };
        let ends = addresses(&connection.tuple);
        if fast.option.is_some() && connection.syn.is_lost() {
            self.cookies.lost(ends, now);
        } else {
            self.cookies.arrived(ends, connection.snd.peer_mss);
        }
        if let Some(cookie) = segment.options.fast_open.filter(|cookie| !cookie.is_empty()) {
            self.cookies.learn(ends, Cookie::new(cookie), connection.snd.peer_mss);
        }
        connection.end_fast_open(now);
    }
}

/// Our address and the peer's.
fn addresses(tuple: &Tuple) -> (std::net::IpAddr, std::net::IpAddr) {
    (tuple.local, tuple.remote)
}

impl Connection {
    /// Whether the application has the connection although its handshake goes on.
    pub(crate) fn is_early(&self) -> bool {
        self.state == State::SynReceived
            && self.passive
            && self.rare.fast_open.is_some_and(|fast| fast.early > 0)
    }

    /// Accepts the octets of a SYN, as far as there is room. The connection counts as pending at
    /// listener `at`.
    pub(super) fn take_early(&mut self, fast: FastOpen, at: u32) -> Option<Payload> {
        let early = fast.early.min(self.rcv.window());
        let pending_at = (early > 0).then_some(at);
        self.rare.set().fast_open = Some(FastOpen { early, pending_at, ..fast });
        if early == 0 {
            return None;
        }
        self.rcv.nxt += early;
        self.rcv.received += u64::from(early);
        self.syn.taken_with_octets();
        self.events.add(Events::READABLE);
        // §4.2.2: the server may answer before the client's first acknowledgement comes.
        self.window.cwnd =
            crate::congestion::initial_window(self.window.mss, self.config.initial_window);
        Some(Payload { offset: 0, range: 0..early as usize, in_order: true })
    }

    /// The handshake is over: the state of it is not needed any more.
    pub(crate) fn end_fast_open(&mut self, now: Nanos) {
        self.rare.reset(|rare| rare.fast_open = None);
        self.rare.trim(now);
    }
}
