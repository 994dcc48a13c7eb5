//! One connection: the transmission control block (RFC 9293 §3.3.1).

mod deadlines;
mod info;
mod path;
mod rare;
mod state;
mod timers;
mod user;

use std::sync::Arc;

use weever_wire::tcp::{MAX_WINDOW_SCALE, Seq, TIMESTAMPS_LEN, TcpOptions};

use crate::congestion::{Controller, Window, initial_window};
use crate::receive::Receiver;
use crate::recovery::{Recovery, Rtt, Sent};
use crate::{Nanos, TcpConfig, Tuple};
use rare::Seldom;
pub(crate) use rare::Undo;
pub(crate) use state::{AckNeed, Chosen, Probe, Syn};
pub use state::{Events, Failure, Settings, State};
pub(crate) use timers::{Resend, Timers, millis};

/// The send sequence space (RFC 9293 §3.3.1) and the stream that it carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) iss: Seq,
    pub(crate) una: Seq,
    pub(crate) nxt: Seq,
    /// SND.WND in octets.
    pub(crate) wnd: u32,
    pub(crate) wl1: Seq,
    pub(crate) wl2: Seq,
    /// MAX.SND.WND (RFC 5961 §5.2).
    pub(crate) max_wnd: u32,
    /// Sequence number of the stream offset `acked`.
    pub(crate) base: Seq,
    /// Octets of the stream that were acknowledged.
    pub(crate) acked: u64,
    /// Octets of the stream that the application has given.
    pub(crate) queued: u64,
    /// Snd.Wind.Shift (RFC 7323 §2.2).
    pub(crate) scale: u8,
    /// FIN follows the octets that are queued.
    pub(crate) fin: bool,
    /// CWR has to be set on the next new data (RFC 3168 §6.1.2).
    pub(crate) cwr: bool,
    /// MSS that the peer announced, or that is assumed.
    pub(crate) peer_mss: u16,
}

impl Sender {
    /// Where the stream ends, and FIN stands if there is one.
    pub(crate) fn end(&self) -> Seq {
        self.base + (self.queued - self.acked) as u32
    }

    /// The stream offset of a sequence number that is not acknowledged yet.
    pub(crate) fn offset(&self, seq: Seq) -> u64 {
        self.acked + u64::from(seq.max(self.base) - self.base)
    }

    /// Octets of the stream that were never sent.
    pub(crate) fn unsent(&self) -> u32 {
        let end = self.end();
        if self.nxt.lt(end) { end - self.nxt.max(self.base) } else { 0 }
    }

    pub(crate) fn is_fin_sent(&self) -> bool {
        self.fin && self.nxt.gt(self.end())
    }

    pub(crate) fn is_fin_acked(&self) -> bool {
        self.fin && self.una.gt(self.end())
    }
}

/// One connection. A user of an [`Endpoint`](crate::Endpoint) reads it through these getters;
/// changes go through the endpoint, which keeps its timers and lists.
#[derive(Debug)]
pub struct Connection {
    pub(crate) tuple: Tuple,
    pub(crate) state: State,
    /// It came from a listener.
    pub(crate) passive: bool,
    /// The application has let go of it.
    pub(crate) released: bool,
    pub(crate) syn: Syn,
    /// RST is due.
    pub(crate) reset_due: bool,
    pub(crate) probe: Probe,
    pub(crate) ack_need: AckNeed,
    pub(crate) failure: Option<Failure>,
    pub(crate) events: Events,
    pub(crate) keep_alive_probes: u8,
    pub(crate) config: Arc<TcpConfig>,
    pub(crate) settings: Chosen,
    pub(crate) snd: Sender,
    pub(crate) rcv: Receiver,
    pub(crate) sent: Sent,
    pub(crate) rtt: Rtt,
    pub(crate) recovery: Recovery,
    pub(crate) window: Window,
    pub(crate) control: Controller,
    pub(crate) timers: Timers,
    pub(crate) rare: Seldom,
}

/// The initial values of a connection.
pub(crate) struct Birth {
    pub(crate) tuple: Tuple,
    pub(crate) iss: Seq,
    /// Offset of our timestamps.
    pub(crate) stamp_offset: u32,
    pub(crate) passive: bool,
}

/// RFC 9293 §3.7.1: "If an MSS Option is not received at connection setup, TCP implementations
/// MUST assume a default send MSS of 536 (576 - 40) for IPv4 or 1220 (1280 - 60) for IPv6" (MUST-15).
pub(crate) fn default_mss(tuple: &Tuple) -> u16 {
    if tuple.local.is_ipv4() { 536 } else { 1220 }
}

impl Connection {
    /// A connection that will send SYN: an active OPEN (RFC 9293 §3.10.1), or, once
    /// [`accept_syn`](Self::accept_syn) was called, SYN and ACK.
    pub(crate) fn new(birth: &Birth, config: &Arc<TcpConfig>, now: Nanos) -> Self {
        let iss = birth.iss;
        let settings = Settings {
            no_delay: false,
            cork: false,
            keep_alive: config.keep_alive,
            user_timeout: config.user_timeout,
            max_segment: None,
        };
        let mut connection = Self {
            tuple: birth.tuple,
            state: State::SynSent,
            passive: birth.passive,
            released: false,
            syn: Syn::Once,
            reset_due: false,
            probe: Probe::None,
            ack_need: AckNeed::None,
            failure: None,
            events: Events::default(),
            keep_alive_probes: 0,
            config: Arc::clone(config),
            settings: Chosen::new(&settings),
            snd: Sender {
                iss,
                una: iss,
                nxt: iss,
                wnd: 0,
                wl1: Seq(0),
                wl2: Seq(0),
                max_wnd: 0,
                base: iss + 1,
                acked: 0,
                queued: 0,
                scale: 0,
                fin: false,
                cwr: false,
                peer_mss: default_mss(&birth.tuple),
            },
            rcv: Receiver::new(config, &birth.tuple, birth.stamp_offset),
            sent: Sent::default(),
            rtt: Rtt::new(),
            recovery: Recovery::new(iss),
            window: Window { cwnd: 0, ssthresh: u32::MAX, mss: 0 },
            control: Controller::new(config.congestion),
            timers: Timers::new(now),
            rare: Seldom::default(),
        };
        connection.set_segment_size(connection.snd.peer_mss);
        connection
    }

    /// Takes over the values of a SYN or SYN-ACK: RCV.NXT, IRS, and the options.
    pub(crate) fn take_syn(&mut self, seq: Seq, options: &TcpOptions<'_>, now: Nanos) {
        self.rcv.irs = seq;
        self.rcv.nxt = seq + 1;
        self.rcv.edge = self.rcv.nxt + self.rcv.capacity.min(0xffff);
        self.rcv.last_ack = self.rcv.nxt;
        if let Some(mss) = options.mss {
            // RFC 9293 leaves tiny values open; below this nearly all that is sent is headers.
            self.snd.peer_mss = mss.max(MIN_MSS);
        }
        self.rcv.sack &= options.sack_permitted;
        match options.window_scale.filter(|_| self.rcv.scaling) {
            Some(shift) => self.snd.scale = shift.min(MAX_WINDOW_SCALE),
            // RFC 7323 §2.2: both sides must send the option to enable scaling in either direction.
            None => {
                (self.snd.scale, self.rcv.scale) = (0, 0);
                self.rcv.scaling = false;
            }
        }
        match options.timestamps.filter(|_| self.rcv.timestamps) {
            Some(stamps) => self.rcv.note_stamp(stamps.value, now),
            None => self.rcv.timestamps = false,
        }
        self.set_segment_size(self.snd.peer_mss);
    }

    /// Bytes of options in every segment (RFC 9293 §3.7.1: Eff.snd.MSS leaves room for them).
    pub(crate) fn options_len(&self) -> usize {
        if self.rcv.timestamps { TIMESTAMPS_LEN } else { 0 }
    }

    /// ESTABLISHED is entered: the window that slow start begins with (RFC 6928).
    pub(crate) fn establish(&mut self, now: Nanos) {
        self.state = State::Established;
        let mss = self.window.mss;
        // RFC 6928 §2: "If the SYN or SYN/ACK is lost, the initial window used by a sender after a
        // correctly transmitted SYN MUST be one segment".
        let segments = if self.syn.is_lost() { 1 } else { self.config.initial_window };
        self.window.cwnd = initial_window(mss, segments);
        if self.syn.is_lost() {
            self.rtt.after_lost_syn();
        }
        self.recovery.point = self.snd.una;
        self.timers.progress = millis(now);
        self.timers.heard = millis(now);
        self.arm_keep_alive(now);
    }

    /// The ends.
    pub fn tuple(&self) -> &Tuple {
        &self.tuple
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it ended, if it did not end in order.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The stream offsets that can be read from the receive region.
    pub fn readable(&self) -> std::ops::Range<u64> {
        self.rcv.consumed..self.rcv.received
    }

    /// Whether the peer sends no more, and all it sent was read.
    pub fn is_finished(&self) -> bool {
        self.rcv.fin_taken && self.rcv.consumed == self.rcv.received
    }

    /// Whether the peer's end of the stream has come, behind all octets before it.
    pub fn has_ended(&self) -> bool {
        self.rcv.fin_taken
    }

    /// Whether octets have arrived behind others that are missing.
    pub fn has_gaps(&self) -> bool {
        !self.rcv.ahead.is_empty()
    }

    /// Octets of the sent stream that were acknowledged: the region below is free for reuse.
    pub fn acknowledged(&self) -> u64 {
        self.snd.acked
    }

    /// Octets that the application has given to be sent.
    pub fn queued(&self) -> u64 {
        self.snd.queued
    }

    /// The stream offset behind the urgent data that the peer announced last.
    pub fn urgent(&self) -> Option<u64> {
        self.rare.urgent
    }

    /// Octets that the receive region should hold after [`Events::CRAMPED`]: twice as many, up to
    /// the most that was configured. An application that provides it calls
    /// [`enlarge_receive`](crate::Endpoint::enlarge_receive).
    pub fn wanted_receive(&self) -> u32 {
        let most = self.config.max_receive_capacity.max(self.rcv.capacity);
        self.rcv.capacity.saturating_mul(2).min(most)
    }

    /// Octets that the send region has use for: twice the congestion window, so that one window can be
    /// in flight while the next is written.
    pub fn wanted_send(&self) -> u32 {
        self.window.cwnd.saturating_mul(2)
    }

    /// The application's settings.
    pub fn settings(&self) -> Settings {
        self.settings.settings()
    }

    /// The congestion window and the segment size.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The smoothed round trip time in nanoseconds; 0 before the first measurement.
    pub fn round_trip(&self) -> Nanos {
        self.rtt.smoothed()
    }

    /// Octets that are sent and not acknowledged, and how many of them were lost or reported.
    pub fn in_flight(&self) -> u32 {
        self.snd.nxt - self.snd.una
    }

    /// The peer's window in octets.
    pub fn peer_window(&self) -> u32 {
        self.snd.wnd
    }
}

/// Segments are never made smaller than this: IPv4's least datagram (RFC 791) without headers, less
/// than which only an attacker announces.
pub(crate) const MIN_MSS: u16 = 88;

impl Connection {
    /// Invariants that hold between any two calls.
    ///
    /// # Panics
    /// If one does not.
    pub(crate) fn check(&self) {
        let snd = &self.snd;
        assert!(snd.una.le(snd.nxt), "SND.UNA does not pass SND.NXT");
        assert!(snd.acked <= snd.queued, "only queued octets are acknowledged");
        assert!(snd.nxt.le(snd.end() + 1), "only queued octets are sent");
        assert!(snd.nxt.le(snd.end()) || snd.fin, "FIN is sent only if it was asked for");
        if self.state != State::Closed {
            self.sent.check(snd.una, snd.nxt);
        }
        let rcv = &self.rcv;
        assert!(rcv.consumed <= rcv.received, "only arrived octets are read");
        assert!(rcv.received - rcv.consumed <= u64::from(rcv.capacity), "the region is big enough");
        if rcv.fin_taken {
            assert!(rcv.ahead.is_empty(), "nothing is behind FIN");
        }
        assert!(self.window.mss >= 64 && self.window.mss <= 65535, "{:?}", self.window);
        if self.state.is_synchronized() {
            assert!(self.window.cwnd >= self.window.mss / 2, "{:?}", self.window);
        }
        assert!(self.pipe() <= snd.nxt - snd.una);
    }
}
