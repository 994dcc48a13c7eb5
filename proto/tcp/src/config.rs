//! The settings of an operator or an application.

use weever_net::demux::PortRange;
use weever_net::{MILLIS, SECOND};

use crate::Nanos;
use crate::congestion::Algorithm;

/// Settings that all connections of an [`Endpoint`](crate::Endpoint) share.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Largest IP packet of the first hop, in bytes.
    pub mtu: u16,
    /// Ports that connections begin at where the caller gives none (RFC 6335 §6: the dynamic ports).
    pub ports: PortRange,
    /// Octets that a connection's receive region holds at first. Not more than 1 GiB.
    pub receive_capacity: u32,
    /// Octets that it may be enlarged to; the window scale is chosen for it.
    pub max_receive_capacity: u32,
    /// Offer and accept window scaling (RFC 7323 §2).
    pub window_scaling: bool,
    /// Offer and accept timestamps (RFC 7323 §3).
    pub timestamps: bool,
    /// Offer and accept selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// How marks of congestion are treated.
    pub ecn: EcnMode,
    /// Congestion control of new connections.
    pub congestion: Algorithm,
    /// The initial window in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Octets of payload up to which a [`Transmit`](crate::Transmit) may hold several segments, which the
    /// caller or the device cuts; not more than [`MAX_JOINED`](crate::MAX_JOINED). 0: one segment each.
    pub super_segment: u32,
    /// Space segments out over the round trip instead of sending bursts.
    pub pacing: bool,
    /// Lower bound of the retransmission timeout.
    pub min_rto: Nanos,
    /// Upper bound of it, and of the time between probes of a closed window. At least 60 s.
    pub max_rto: Nanos,
    /// The longest time that an acknowledgement is held back. Below 500 ms (RFC 9293 §3.8.6.3).
    pub delayed_ack: Nanos,
    /// Give a new connection up after this time without an answer (RFC 9293 §3.8.3: at least
    /// 3 minutes).
    pub connect_timeout: Nanos,
    /// Give a connection up when nothing was acknowledged for this time (RFC 9293 §3.8.3).
    pub user_timeout: Nanos,
    /// Twice the maximum segment lifetime: how long TIME-WAIT lasts.
    pub time_wait: Nanos,
    /// How long FIN-WAIT-2 lasts for a connection that will not be read from.
    pub fin_wait: Nanos,
    /// Probe idle connections; off unless asked for (RFC 9293 §3.8.4, MUST-25).
    pub keep_alive: Option<KeepAlive>,
    /// Most connections there may be, in any state.
    pub max_connections: usize,
    /// Octets that connections and the unread data in their regions may take up together.
    pub memory_limit: u64,
    /// Challenge ACKs in a second, over all connections (RFC 5961 §7).
    pub challenge_acks: u32,
    /// Keep the ends of connections that are no more for [`Endpoint::poll_gone`](crate::Endpoint::poll_gone),
    /// which then has to be called, and report events of connections that were let go of, too.
    pub report_gone: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            ports: PortRange::default(),
            receive_capacity: 64 << 10,
            max_receive_capacity: 4 << 20,
            window_scaling: true,
            timestamps: true,
            sack: true,
            ecn: EcnMode::Accept,
            congestion: Algorithm::Cubic,
            initial_window: 10,
            super_segment: 0,
            pacing: false,
            min_rto: 200 * MILLIS,
            max_rto: 120 * SECOND,
            delayed_ack: 40 * MILLIS,
            connect_timeout: 180 * SECOND,
            user_timeout: 900 * SECOND,
            time_wait: 60 * SECOND,
            fin_wait: 60 * SECOND,
            keep_alive: None,
            max_connections: 262_144,
            memory_limit: 1 << 30,
            challenge_acks: 100,
            report_gone: false,
        }
    }
}

/// How explicit congestion notification (RFC 3168) is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnMode {
    /// Not at all.
    Off,
    /// If the peer asks for it.
    Accept,
    /// Asked for, too.
    Request,
    /// Asked for, with marks echoed one by one as RFC 8257 §3.2 has it. For data centres with
    /// [`Algorithm::Dctcp`] at both ends.
    Dctcp,
}

/// Probes of idle connections (RFC 9293 §3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence before the first probe. RFC 9293 §3.8.4, MUST-28: "no less than two hours" unless
    /// configured.
    pub idle: Nanos,
    /// Between probes.
    pub interval: Nanos,
    /// Unanswered probes before the connection is given up.
    pub probes: u8,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { idle: 7200 * SECOND, interval: 75 * SECOND, probes: 9 }
    }
}
