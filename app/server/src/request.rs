//! Requests of applications, their results and their refusals, and the lists of `weever sockets`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use weever_app_ring::ChannelError;
use weever_net::demux::{BindError, Binding, Family, Sharing};
use weever_net::stream::{StreamInfo, StreamStatus};

use crate::stats::SocketCounts;

/// The number of an application queue.
pub type QueueId = u32;

/// A port of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransportPort {
    /// TCP; else UDP.
    pub stream: bool,
    /// Its number.
    pub port: u16,
}

impl std::fmt::Display for TransportPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} port {}", if self.stream { "TCP" } else { "UDP" }, self.port)
    }
}

/// An application, as the kernel identifies it (`SO_PEERCRED`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name, for people.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// A socket that an application asks for.
#[derive(Clone, Debug, Default)]
pub struct SocketRequest {
    /// Our address; `None`: any.
    pub local_addr: Option<IpAddr>,
    /// Our port; `None`: an ephemeral one.
    pub local_port: Option<u16>,
    /// Which family, where no address decides it.
    pub family: Family,
    /// The peer of a connected socket, which receives from nobody else.
    pub peer: Option<SocketAddr>,
    /// The interface that packets must come and go by; `None`: any.
    pub interface: Option<String>,
    /// Whether others may have the same binding.
    pub sharing: Sharing,
    /// A listener for streams, with so many that may wait to be accepted; otherwise a socket for
    /// datagrams.
    pub backlog: Option<u32>,
    /// The application has a kernel socket on the same port itself.
    pub in_kernel: bool,
    /// The application reports each connection that was accepted; others go to the next listener when this one is
    /// gone.
    pub accepts_each: bool,
}

impl SocketRequest {
    /// Whether there can be such a socket.
    pub(crate) fn check(&self) -> Result<(), ServerError> {
        let Some(peer) = self.peer else { return Ok(()) };
        if peer.port() == 0 || peer.ip().is_unspecified() {
            return Err(ServerError::Peer(peer));
        }
        match self.local_addr {
            Some(local) if local.is_ipv4() != peer.is_ipv4() => {
                Err(ServerError::Families { local, peer: peer.ip() })
            }
            _ => Ok(()),
        }
    }
}

/// An opened socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedSocket {
    /// Its number, by which entries of the channels name it.
    pub id: u32,
    /// Its local port.
    pub local_port: u16,
}

/// A flow that an application has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredFlow {
    /// Its number, which is never used again.
    pub number: u32,
    /// The peer, with port 0 for all of its ports; none for everything to the socket.
    pub peer: Option<SocketAddr>,
    /// Packets per second, if the application knows.
    pub rate: Option<u64>,
}

/// A socket as `weever sockets` shows it.
#[derive(Clone, Debug)]
pub struct SocketStatus {
    /// Its number.
    pub id: u32,
    /// Its queue.
    pub queue: QueueId,
    /// The application.
    pub owner: Identity,
    /// The packets that it receives.
    pub binding: Binding,
    /// The peer of a connected one.
    pub peer: Option<SocketAddr>,
    /// Whether it is a listener for streams.
    pub listens: bool,
    /// The groups that it has joined, with the names of the interfaces.
    pub groups: Vec<(IpAddr, String)>,
    /// The flows that it has registered.
    pub flows: Vec<RegisteredFlow>,
    /// Its counters, over all workers.
    pub counts: SocketCounts,
}

/// What workers know of the ports that they were asked for.
#[derive(Default)]
pub(crate) struct FoundPorts {
    /// Those with connections.
    pub(crate) connected: BTreeSet<u16>,
    /// Those with connections that their applications have not closed.
    pub(crate) open: BTreeSet<u16>,
    /// How many connections queues have begun at ports of their own.
    pub(crate) begun: BTreeMap<(u32, u16), u64>,
}

impl FoundPorts {
    /// With what another worker knows.
    pub(crate) fn add(&mut self, other: FoundPorts) {
        self.connected.extend(other.connected);
        self.open.extend(other.open);
        for (of, begun) in other.begun {
            *self.begun.entry(of).or_default() += begun;
        }
    }
}

/// One worker's connections, with the queue that each belongs to.
pub(crate) struct Connections {
    pub(crate) all: Vec<(Option<QueueId>, StreamStatus)>,
    /// How many there are, of which as many as were asked for are listed.
    pub(crate) total: usize,
}

/// A TCP connection.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// The worker that has it.
    pub worker: usize,
    /// The queue of its application, and the application; none for the stack's own services, and for
    /// connections whose application is gone.
    pub owner: Option<(QueueId, Identity)>,
    /// Our end.
    pub local: SocketAddr,
    /// The peer.
    pub remote: SocketAddr,
    /// Its state.
    pub info: StreamInfo,
}

/// A queue as `weever sockets` shows it.
#[derive(Clone, Debug)]
pub struct QueueStatus {
    /// Its number.
    pub id: QueueId,
    /// The application.
    pub owner: Identity,
    /// Its open sockets.
    pub sockets: usize,
    /// The counters of its sockets, open and closed.
    pub counts: SocketCounts,
    /// The frames of its channel to each worker.
    pub frames: u32,
    /// The workers in whose own frames its channel is.
    pub trusted: Vec<u32>,
}

/// Why the server refuses a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The channel cannot be made.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The address or port is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There is no such queue, or it is another application's.
    #[error("there is no application queue {0}")]
    NoQueue(QueueId),
    /// There is no such holder of streams or listeners, or it belongs to another application.
    #[error("there is no holder {0}, or the key is not its own")]
    NoHolder(u32),
    /// There is no such stream.
    #[error("stream {0} is not held here: it has ended, or another process has claimed it")]
    NoStream(u32),
    /// There is no such socket on the queue.
    #[error("there is no socket {0} on this queue")]
    NoSocket(u32),
    /// A privileged port.
    #[error(
        "port {port} is privileged; run the application as root, use a port from {first} on, or set \
         `apps-first-port` in the stack's configuration"
    )]
    Privileged {
        /// The port.
        port: u16,
        /// The first that is not privileged.
        first: u16,
    },
    /// The kernel does not let the port go.
    #[error("{port}: {why}")]
    Kernel {
        /// The port.
        port: TransportPort,
        /// Why.
        why: String,
    },
    /// Too many ports of the kernel's addresses are taken.
    #[error("{0} ports are taken, the most that are possible; close some sockets, or use port 0")]
    Ports(usize),
    /// The peer is not one.
    #[error("{0} is no peer to connect to: it needs an address and a port")]
    Peer(SocketAddr),
    /// Addresses of two families.
    #[error("{local} and {peer} are of different families")]
    Families {
        /// Our end.
        local: IpAddr,
        /// The peer's.
        peer: IpAddr,
    },
    /// There is no such interface.
    #[error("there is no interface `{0}`; `weever status` lists them")]
    Interface(String),
    /// The address is not the host's.
    #[error("{0} is none of this host's addresses; bind one of them, or any (0.0.0.0 or ::)")]
    NotOurs(IpAddr),
    /// A group cannot be joined.
    #[error("{group} cannot be joined: {why}")]
    Group {
        /// The group.
        group: IpAddr,
        /// The reason.
        why: String,
    },
    /// The socket is not in the group.
    #[error("socket {socket} has not joined {group} on that interface")]
    NotJoined {
        /// The socket.
        socket: u32,
        /// The group.
        group: IpAddr,
    },
    /// The limit on sockets is reached.
    #[error("all {0} sockets are in use; close some, or raise `sockets` in the configuration")]
    Sockets(usize),
    /// Applications have as much memory as they may.
    #[error(
        "an application queue of {} KiB does not fit: {queues} others have {} KiB of {} KiB; ask for fewer \
         frames, close a queue, or raise `apps-memory` in the stack's configuration", wanted >> 10, held >> 10, most >> 10
    )]
    Memory {
        /// Bytes of the queue.
        wanted: usize,
        /// Bytes of the others.
        held: usize,
        /// How many others there are.
        queues: usize,
        /// The most bytes of all.
        most: usize,
    },
    /// The socket receives no packets of this flow.
    #[error(
        "socket {socket} receives nothing from {peer}; name its connected peer, or a peer with an address of its family"
    )]
    FlowPeer {
        /// The socket.
        socket: u32,
        /// The peer.
        peer: SocketAddr,
    },
    /// A queue has registered as many flows as it may.
    #[error(
        "this queue has registered {0} flows, the most that are allowed; register all packets to a socket as one flow"
    )]
    Flows(usize),
    /// There is no such flow.
    #[error("socket {0} has registered no flow of that peer")]
    NoFlow(u32),
    /// The stack has no policy.
    #[error("the stack has no policy, and makes no plans; start it with `weever up --policy`")]
    NoPolicy,
    /// The policy gives the application no tokens.
    #[error("the policy does not let {0:?} ask for plans; raise `tokens` in its `[searches]`")]
    NoTokens(String),
    /// A worker did not take commands for seconds.
    #[error("worker {0} takes no commands; it may be stopped")]
    Stuck(usize),
    /// A system call failed.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The system's error.
        source: Errno,
    },
}

impl ServerError {
    pub(crate) fn system(call: &'static str) -> impl Fn(Errno) -> ServerError {
        move |source| ServerError::System { call, source }
    }

    /// For a descriptor that cannot be had twice.
    pub(crate) fn dup(error: std::io::Error) -> ServerError {
        let source = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        ServerError::System { call: "dup", source }
    }
}
