//! The receiving side: the octets that have arrived, and the window that is offered.

mod reassembly;

use weever_net::{MILLIS, SECOND};
use weever_wire::tcp::{MAX_WINDOW_SCALE, Seq};

use crate::{EcnMode, Nanos, TcpConfig, Tuple};
pub(crate) use reassembly::{Inserted, Reassembly};

/// Segments that are acknowledged at once when a connection is young, or was idle: slow start at the
/// other end waits for each of them.
const QUICK_ACKS: u8 = 16;
/// RFC 7323 §5.5: a timestamp is outdated after 24 days.
const STAMP_AGE: u32 = 24 * 24 * 3600;

fn seconds(now: Nanos) -> u32 {
    (now / SECOND) as u32
}

/// The receive sequence space (RFC 9293 §3.3.1) and the stream that it carries.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub(crate) irs: Seq,
    pub(crate) nxt: Seq,
    /// RCV.NXT + RCV.WND as it was told to the peer: it never goes back.
    pub(crate) edge: Seq,
    /// Last.ACK.sent (RFC 7323 §4.3).
    pub(crate) last_ack: Seq,
    /// Octets of the stream that arrived in order.
    pub(crate) received: u64,
    /// Octets of it that the application has done with.
    pub(crate) consumed: u64,
    /// Octets that the region holds.
    pub(crate) capacity: u32,
    /// Rcv.Wind.Shift (RFC 7323 §2.2).
    pub(crate) scale: u8,
    /// Whether window scaling was agreed; a shift of 0 is one, too.
    pub(crate) scaling: bool,
    /// Segments that may still be acknowledged at once.
    pub(crate) quick: u8,
    /// Whether selective acknowledgements, timestamps and marks of congestion were agreed.
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) ecn: bool,
    /// Marks are echoed one by one (RFC 8257 §3.2).
    pub(crate) exact_marks: bool,
    /// ECN-Echo is to be set (RFC 3168 §6.1.3).
    pub(crate) echo: bool,
    /// The peer's FIN was taken in order.
    pub(crate) fin_taken: bool,
    /// Size of the peer's segments, for delayed acknowledgements.
    pub(crate) mss: u16,
    /// Sequence number of the peer's FIN, once it is known.
    pub(crate) fin: Seq,
    pub(crate) fin_known: bool,
    pub(crate) stamp_offset: u32,
    /// The millisecond in which reading is measured from, and the low half of `consumed` then.
    tune_at: u32,
    tune_from: u32,
    /// TS.Recent (RFC 7323 §4.3), and the second in which it came.
    pub(crate) stamp: u32,
    stamp_at: u32,
    pub(crate) ahead: Reassembly,
}

impl Receiver {
    pub(crate) fn new(config: &TcpConfig, tuple: &Tuple, stamp_offset: u32) -> Self {
        let scale = if config.window_scaling { scale_for(config) } else { 0 };
        Self {
            irs: Seq(0),
            nxt: Seq(0),
            edge: Seq(0),
            last_ack: Seq(0),
            received: 0,
            consumed: 0,
            capacity: config.receive_capacity.min(MAX_CAPACITY),
            scale,
            scaling: config.window_scaling,
            quick: QUICK_ACKS,
            sack: config.sack,
            timestamps: config.timestamps,
            ecn: false,
            exact_marks: config.ecn == EcnMode::Dctcp,
            echo: false,
            fin_taken: false,
            mss: config.mtu.saturating_sub(tuple.ip_header_len() + 20),
            fin: Seq(0),
            fin_known: false,
            stamp_offset,
            tune_at: 0,
            tune_from: 0,
            stamp: 0,
            stamp_at: 0,
            ahead: Reassembly::default(),
        }
    }

    /// RCV.WND as the peer knows it.
    pub(crate) fn window(&self) -> u32 {
        if self.edge.gt(self.nxt) { self.edge - self.nxt } else { 0 }
    }

    /// Octets that arrived in order since the last acknowledgement was sent.
    pub(crate) fn unacked(&self) -> u32 {
        self.nxt - self.last_ack
    }

    /// The edge that could be offered now.
    fn possible_edge(&self) -> Seq {
        let unread = u32::try_from(self.received - self.consumed).unwrap_or(u32::MAX);
        self.nxt + self.capacity.saturating_sub(unread)
    }

    /// RFC 9293 §3.8.6.2.2: "keep RCV.NXT+RCV.WND fixed until: RCV.BUFF - RCV.USER - RCV.WND >= min (
    /// Fr * RCV.BUFF, Eff.snd.MSS )", with Fr = 1/2.
    pub(crate) fn window_update_is_worth_it(&self) -> bool {
        let possible = self.possible_edge();
        let least = (self.capacity / 2).min(u32::from(self.mss)).max(1);
        // A peer that still has room hears of more with the next acknowledgement.
        let small = self.window() < 2 * u32::from(self.mss);
        let step = if small { least } else { self.capacity / 2 };
        possible.gt(self.edge) && possible - self.edge >= step
    }

    /// The value of the window field, whose right edge from now on counts as offered.
    pub(crate) fn advertise(&mut self, shift: u8) -> u16 {
        let possible = self.possible_edge();
        let least = (self.capacity / 2).min(u32::from(self.mss)).max(1);
        let grown = possible.gt(self.edge) && possible - self.edge >= least;
        // RFC 9293 §3.8.6: "A TCP receiver SHOULD NOT shrink the window, i.e., move the right window
        // edge to the left".
        let edge = if grown { possible } else { self.edge };
        let window = if edge.gt(self.nxt) { edge - self.nxt } else { 0 };
        let field = (window >> shift).min(0xffff);
        // The octets that the shift cuts off are not offered, unless they were before.
        self.edge = self.edge.max(self.nxt + (field << shift));
        field as u16
    }

    pub(crate) fn enlarge(&mut self, capacity: u32, config: &TcpConfig) {
        self.capacity = self.capacity.max(capacity.min(most_capacity(config)));
    }

    /// The capacity from now on, which may be less than before.
    pub(crate) fn set_capacity(&mut self, capacity: u32, config: &TcpConfig) {
        self.capacity = capacity.clamp(u32::from(self.mss), most_capacity(config));
    }

    pub(crate) fn set_quick(&mut self, quick: bool) {
        self.quick = if quick { QUICK_ACKS } else { 0 };
    }

    /// Whether the region limits the peer: in the last round trip, more than half of it was read (dynamic
    /// right-sizing, Fisk and Feng 2001). Asked once a round trip.
    pub(crate) fn is_too_small(
        &mut self,
        round_trip: Nanos,
        config: &TcpConfig,
        now: Nanos,
    ) -> bool {
        let (now, rtt) = (now / MILLIS, round_trip.div_ceil(MILLIS));
        if u64::from((now as u32).wrapping_sub(self.tune_at)) < rtt || rtt == 0 {
            return false;
        }
        let read = (self.consumed as u32).wrapping_sub(self.tune_from);
        (self.tune_at, self.tune_from) = (now as u32, self.consumed as u32);
        read > self.capacity / 2 && self.capacity < most_capacity(config)
    }

    /// Takes a timestamp over as TS.Recent.
    pub(crate) fn note_stamp(&mut self, stamp: u32, now: Nanos) {
        (self.stamp, self.stamp_at) = (stamp, seconds(now));
    }

    /// RFC 7323 §5.3 R1 and §5.5: whether a timestamp is from before TS.Recent, and that is not
    /// outdated.
    pub(crate) fn is_old_stamp(&self, stamp: u32, now: Nanos) -> bool {
        Seq(stamp).lt(Seq(self.stamp)) && seconds(now).wrapping_sub(self.stamp_at) < STAMP_AGE
    }
}

/// RFC 7323 §2.3: the window is at most 2^30.
const MAX_CAPACITY: u32 = 1 << 30;

/// Octets that a region may be enlarged to.
fn most_capacity(config: &TcpConfig) -> u32 {
    config.max_receive_capacity.max(config.receive_capacity).min(MAX_CAPACITY)
}

/// The shift with which the largest region can be offered.
fn scale_for(config: &TcpConfig) -> u8 {
    let most = most_capacity(config);
    (0..MAX_WINDOW_SCALE).find(|shift| most >> shift <= 0xffff).unwrap_or(MAX_WINDOW_SCALE)
}
