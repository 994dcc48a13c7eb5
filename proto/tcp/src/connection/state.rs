//! The status of a connection: its state, the events for the application, and the work that is due.

use core::num::NonZeroU16;

use weever_net::MILLIS;

use crate::{KeepAlive, Nanos};

/// The states of RFC 9293 §3.3.2. LISTEN is a listener of the endpoint's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the states are named and documented in RFC 9293 §3.3.2")]
pub enum State {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

impl State {
    /// Whether both ends know each other's sequence numbers.
    pub fn is_synchronized(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }

    /// Whether data or FIN may be sent or sent again.
    pub(crate) fn can_send(self) -> bool {
        use State::{CloseWait, Closing, Established, FinWait1, LastAck};
        matches!(self, Established | CloseWait | FinWait1 | Closing | LastAck)
    }

    /// Whether data of the peer's may arrive.
    pub(crate) fn can_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Whether the application may still hold the connection for reading or writing.
    pub(crate) fn is_read_by_application(self) -> bool {
        matches!(self, State::Established | State::CloseWait | State::FinWait2)
    }
}

/// Why a connection ended before both sides had closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The peer refused it: "connection refused".
    Refused,
    /// The peer reset it: "connection reset".
    Reset,
    /// No answer for as long as the settings allow: "connection aborted due to user timeout".
    TimedOut,
    /// The application aborted it.
    Aborted,
    /// The network says that the peer cannot be reached.
    Unreachable,
}

/// Events for an application, as bits; several may have come together.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Events(u8);

impl Events {
    /// The connection that was asked for is established.
    pub const CONNECTED: Events = Events(1);
    /// There is more to read, see [`Connection::readable`](crate::Connection::readable).
    pub const READABLE: Events = Events(2);
    /// Data was acknowledged, see [`Connection::acknowledged`](crate::Connection::acknowledged): its
    /// place is free.
    pub const ACKED: Events = Events(4);
    /// The peer will send no more; all it sent is readable.
    pub const FINISHED: Events = Events(8);
    /// The connection is over, see [`Connection::failure`](crate::Connection::failure).
    pub const CLOSED: Events = Events(16);
    /// The peer announced urgent data, see [`Connection::urgent`](crate::Connection::urgent).
    pub const URGENT: Events = Events(32);

    /// The receive region limits the peer: a larger one, of
    /// [`wanted_receive`](crate::Connection::wanted_receive) octets, would let it send quicker.
    pub const CRAMPED: Events = Events(64);

    /// Whether any of `events` is among these.
    pub const fn has(self, events: Events) -> bool {
        self.0 & events.0 != 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn add(&mut self, events: Events) {
        self.0 |= events.0;
    }

    pub(crate) const fn remove(&mut self, events: Events) {
        self.0 &= !events.0;
    }

    pub(crate) const fn take(&mut self) -> Events {
        let all = *self;
        self.0 = 0;
        all
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [&str; 7] =
            ["CONNECTED", "READABLE", "ACKED", "FINISHED", "CLOSED", "URGENT", "CRAMPED"];
        let names = NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 != 0);
        f.debug_set().entries(names.map(|(_, name)| name)).finish()
    }
}

/// An application's settings for one connection. Times are rounded up to milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Send small segments at once: the Nagle algorithm is off (RFC 9293 §3.7.4, MUST-17).
    pub no_delay: bool,
    /// Hold segments that are not full back, as `TCP_CORK` and `MSG_MORE` do, until this is taken back, the
    /// connection is closed, or a retransmission timeout has passed.
    pub cork: bool,
    /// Probes of the idle connection.
    pub keep_alive: Option<KeepAlive>,
    /// Nanoseconds without an acknowledgement before the connection is given up.
    pub user_timeout: Nanos,
    /// The longest segment to send and, before the handshake, to announce, in octets with the options
    /// (`TCP_MAXSEG`); `None`: as the path allows.
    pub max_segment: Option<NonZeroU16>,
}

/// [`Settings`] as a connection keeps them: times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    user_timeout: u32,
    idle: u32,
    interval: u32,
    /// 0: idle connections are not probed.
    probes: u8,
    flags: u8,
    pub(crate) max_segment: Option<NonZeroU16>,
}

const NO_DELAY: u8 = 1;
const CORK: u8 = 2;

/// More than this many milliseconds never pass.
const FOREVER: u32 = u32::MAX;

fn millis(time: Nanos) -> u32 {
    u32::try_from(time.div_ceil(MILLIS)).unwrap_or(FOREVER)
}

fn nanos(millis: u32) -> Nanos {
    if millis == FOREVER { Nanos::MAX } else { Nanos::from(millis) * MILLIS }
}

impl Chosen {
    pub(crate) fn new(settings: &Settings) -> Self {
        let Settings { no_delay, cork, keep_alive, user_timeout, max_segment } = *settings;
        let probes = keep_alive.map_or(0, |keep_alive| keep_alive.probes.max(1));
        let KeepAlive { idle, interval, .. } = keep_alive.unwrap_or_default();
        let (idle, interval) = (millis(idle), millis(interval));
        let flags = (u8::from(no_delay) * NO_DELAY) | (u8::from(cork) * CORK);
        Self { user_timeout: millis(user_timeout), idle, interval, probes, flags, max_segment }
    }

    #[inline]
    pub(crate) fn no_delay(&self) -> bool {
        self.flags & NO_DELAY != 0
    }

    #[inline]
    pub(crate) fn cork(&self) -> bool {
        self.flags & CORK != 0
    }

    pub(crate) fn user_timeout(&self) -> Nanos {
        nanos(self.user_timeout)
    }

    pub(crate) fn keep_alive(&self) -> Option<KeepAlive> {
        let (idle, interval) = (nanos(self.idle), nanos(self.interval));
        (self.probes > 0).then_some(KeepAlive { idle, interval, probes: self.probes })
    }

    pub(crate) fn settings(&self) -> Settings {
        let (keep_alive, user_timeout) = (self.keep_alive(), self.user_timeout());
        let (no_delay, cork, max_segment) = (self.no_delay(), self.cork(), self.max_segment);
        Settings { no_delay, cork, keep_alive, user_timeout, max_segment }
    }
}

/// A segment that is due although neither window nor congestion control ask for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    None,
    /// Of the last segment (RFC 8985 §7).
    Tail,
    /// The first segment, after a timeout.
    Head,
    /// Of a closed window.
    Window,
    /// Of a silent peer.
    KeepAlive,
}

/// The outcome of our SYN or SYN-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syn {
    /// It was sent once.
    Once,
    /// It had to be sent again.
    Lost,
    /// Octets went with the SYN, ours or the peer's, and were taken (RFC 7413).
    Octets,
}

impl Syn {
    pub(crate) fn is_lost(self) -> bool {
        self == Syn::Lost
    }

    pub(crate) fn taken_with_octets(&mut self) {
        if *self == Syn::Once {
            *self = Syn::Octets;
        }
    }
}

/// How urgently an acknowledgement has to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AckNeed {
    None,
    /// With the next segment, or when the timer runs out.
    Delayed,
    /// In answer to something unacceptable: within the endpoint's limit.
    Challenge,
    Now,
}

impl AckNeed {
    pub(crate) fn raise(&mut self, need: AckNeed) {
        *self = (*self).max(need);
    }
}
