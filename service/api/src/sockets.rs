//! Method `sockets`: applications' open sockets.

use serde::{Deserialize, Serialize};

use crate::Method;

/// The most sockets that one answer has.
pub const MAX_SOCKETS: usize = 2000;

/// Parameters of `sockets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SocketsRequest {
    /// The most sockets to list, up to [`MAX_SOCKETS`].
    pub most: usize,
}

impl Default for SocketsRequest {
    fn default() -> SocketsRequest {
        SocketsRequest { most: MAX_SOCKETS }
    }
}

impl Method for SocketsRequest {
    const NAME: &'static str = "sockets";
    type Answer = Sockets;
}

/// Answer to `sockets`: applications and their open sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sockets {
    /// Nanoseconds since the stack was started.
    pub uptime_ns: u64,
    /// The socket on which applications are served; none if they are not.
    pub path: Option<String>,
    /// The application queues, in the order in which they were opened.
    pub queues: Vec<AppQueueStatus>,
    /// The number of sockets; at most as many as requested are listed.
    pub total: u64,
    /// The sockets, in the order of their numbers.
    pub sockets: Vec<SocketStatus>,
    /// The number of TCP connections; at most as many as requested are listed.
    pub connections_total: u64,
    /// TCP connections of applications and of the stack's own services, in any state.
    pub connections: Vec<ConnectionStatus>,
}

/// A TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionStatus {
    /// The worker that has it.
    pub worker: u64,
    /// The application's name; none for the stack's own services, and for a connection whose application is
    /// gone.
    pub application: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// The state, as `ss` has it: `established`, `time-wait`, …
    pub state: String,
    /// Our end.
    pub local: String,
    /// The peer.
    pub peer: String,
    /// Octets received that the application has not read.
    pub receive_queue: u64,
    /// Octets of the application's that the peer has not acknowledged.
    pub send_queue: u64,
    /// Octets received in order.
    pub received: u64,
    /// Octets that the peer has acknowledged.
    pub acknowledged: u64,
    /// Segments that were sent again, up to 65,535.
    pub retransmissions: u64,
    /// The smoothed round trip time in nanoseconds; 0 before it is measured.
    pub round_trip_ns: u64,
    /// The congestion window in octets.
    pub window: u64,
    /// The congestion control.
    pub congestion: String,
}

/// An application queue. It has a channel to every worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AppQueueStatus {
    /// Its number.
    pub queue: u32,
    /// The application's name.
    pub application: String,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its open sockets.
    pub sockets: u64,
    /// The counts of its sockets that are open and of those that were closed.
    #[serde(flatten)]
    pub counts: SocketCounts,
    /// The workers in whose own frames it works, so that nothing is copied.
    pub zero_copy: Vec<u32>,
}

/// A socket of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketStatus {
    /// Its number.
    pub socket: u32,
    /// The number of its application queue, or of what holds it.
    pub queue: u32,
    /// The application's name.
    pub application: String,
    /// Its process; of one that is held, the one from which others inherit it, which may have ended.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// `open`, `connected` to a peer, `listening` for TCP connections, or `held`: a listener of a program that has forked
    /// or has closed its queue, which keeps its port and has connections wait for a process that listens there.
    pub state: String,
    /// The packets it receives: our address and port, with `*` for any, then the source or the
    /// interface that they must come by.
    pub local: String,
    /// Its peer, if it is connected.
    pub peer: Option<String>,
    /// The groups that it has joined, each with its interface: `239.1.1.1%eth0`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Its counters.
    #[serde(flatten)]
    pub counts: SocketCounts,
}

/// The counters of sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketCounts {
    /// Datagrams given to the application.
    pub received: u64,
    /// Datagrams taken from the application.
    pub sent: u64,
    /// Datagrams lost because the application did not read.
    pub dropped: u64,
    /// Datagrams of the application that could not be sent.
    pub refused: u64,
    /// Errors that the application was told of.
    pub errors: u64,
}
