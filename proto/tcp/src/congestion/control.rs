//! The inputs and the decisions of an algorithm, and the simplest one: Reno, additive increase and
//! multiplicative decrease (RFC 5681).

use weever_wire::tcp::Seq;

use crate::Nanos;

/// The congestion window of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// cwnd: octets that may be in flight.
    pub cwnd: u32,
    /// ssthresh: below it the window grows exponentially.
    pub ssthresh: u32,
    /// SMSS: octets of a full segment's payload.
    pub mss: u32,
}

impl Window {
    /// Whether the window grows exponentially.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start with appropriate byte counting. RFC 5681 §3.1: "cwnd += min (N, SMSS)", with `most` segments
    /// for an acknowledgement of more: L of RFC 3465 §2.2.
    pub(crate) fn slow_start(&mut self, acked: u32, most: u32) {
        let grown = self.cwnd.saturating_add(acked.min(most * self.mss));
        self.cwnd = grown.min(self.ssthresh.max(self.cwnd)).min(MAX_WINDOW);
    }
}

/// More than any window can be (RFC 7323 §2.2: 2^30).
pub(crate) const MAX_WINDOW: u32 = 1 << 30;

/// An acknowledgement that made progress.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When it came.
    pub now: Nanos,
    /// Octets that it reported as received and no other before it.
    pub octets: u32,
    /// A round trip that it measured.
    pub rtt: Option<Nanos>,
    /// The smoothed round trip time; 0 if none was measured yet.
    pub smoothed_rtt: Nanos,
    /// The least one of the last minutes; 0 if none was measured yet.
    pub min_rtt: Nanos,
    /// SND.UNA behind it.
    pub una: Seq,
    /// SND.NXT.
    pub nxt: Seq,
    /// Whether it echoes a mark of congestion.
    pub marked: bool,
    /// Whether the window may grow: it was used, and nothing is being repaired.
    pub may_grow: bool,
}

/// Why a window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Segments were lost and will be repaired by fast recovery.
    Loss,
    /// A mark of congestion came back.
    Mark,
    /// The retransmission timer ran out.
    Timeout,
}

/// How a window grows and falls. All values are octets.
pub trait CongestionControl {
    /// Its name, as in `TCP_CONGESTION`.
    fn name(&self) -> &'static str;

    /// An acknowledgement made progress: grows the window if it may.
    fn acked(&mut self, window: &mut Window, acked: &Acked);

    /// The slow start threshold after congestion; `window.cwnd` is the part that was really used.
    /// Called once in a window of data.
    fn reduce(&mut self, window: &Window, cause: Congestion, now: Nanos) -> u32;

    /// The last reduction was a mistake and the window has been restored.
    fn restored(&mut self) {}

    /// Nothing was in flight for a while.
    fn idle(&mut self) {}
}

/// RFC 6928 §2: "min (10*MSS, max (2*MSS, 14600))", with the configured number of segments.
pub(crate) fn initial_window(mss: u32, segments: u32) -> u32 {
    let segments = segments.max(1);
    (segments * mss).min((2 * mss).max(1460 * segments)).max(mss)
}

/// Reno with appropriate byte counting (RFC 3465).
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno {
    /// Octets that were acknowledged since the window grew last.
    counted: u32,
}

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn acked(&mut self, window: &mut Window, acked: &Acked) {
        if !acked.may_grow {
            return;
        }
        if window.in_slow_start() {
            return window.slow_start(acked.octets, 2);
        }
        // RFC 5681 §3.1: "The RECOMMENDED way to increase cwnd during congestion avoidance is to
        // count the number of bytes that have been acknowledged by ACK segments for new data", and
        // "when the number of bytes acknowledged reaches cwnd, then cwnd can be incremented by up to
        // SMSS bytes".
        self.counted = self.counted.saturating_add(acked.octets);
        if self.counted >= window.cwnd {
            self.counted -= window.cwnd;
            window.cwnd = window.cwnd.saturating_add(window.mss).min(MAX_WINDOW);
        }
    }

    fn reduce(&mut self, window: &Window, _cause: Congestion, _now: Nanos) -> u32 {
        self.counted = 0;
        // RFC 5681 §3.1 (4): "ssthresh = max (FlightSize / 2, 2*SMSS)".
        (window.cwnd / 2).max(2 * window.mss)
    }
}
