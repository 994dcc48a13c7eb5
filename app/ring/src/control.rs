//! The messages between an application and the stack that open and close queues and sockets.
//!
//! They travel over a Unix socket of type `SOCK_SEQPACKET`, one JSON object a message, descriptors
//! beside it. One connection is one application queue: when it ends, whatever the reason, the queue
//! and its sockets are closed. The stack answers every request, in order, so requests may be
//! pipelined.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    recvmsg, sendmsg, socket_with,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::credential::Credential;

/// Bytes of the longest message.
pub const MAX_MESSAGE: usize = 16 * 1024;
/// How long a connection to a stranger may take: some milliseconds where many programs connect at once.
const SOON: Duration = Duration::from_millis(100);
/// Descriptors of one message: a channel, a wake-up and a memory of frames for each of 64 workers, and the queue's own.
const MAX_DESCRIPTORS: usize = 193;

/// A request of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// First of all: the queue of this connection.
    OpenQueue {
        /// [`VERSION`](crate::VERSION) of the library.
        version: u32,
        /// The application's name, for people.
        name: String,
        /// Entries of each ring.
        ring_len: u32,
        /// Frames of each channel.
        frames: u32,
        /// Bytes of a frame.
        frame_size: u32,
        /// Whether the name is a slot, which one queue has at a time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        slot: bool,
    },
    /// Opens a UDP socket.
    BindUdp {
        /// Our address and port; an unspecified address is any of ours, port 0 an ephemeral one.
        local: SocketAddr,
        /// The peer of a connected socket.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<SocketAddr>,
        /// With an unspecified IPv6 address: IPv6 only.
        #[serde(default)]
        v6_only: bool,
        /// Whether others may have the same binding.
        #[serde(default)]
        sharing: Share,
        /// The interface by which packets come and go; any without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// The application has a kernel socket on this port itself, which keeps it from other programs where the stack
        /// has the kernel's addresses.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_kernel: bool,
    },
    /// Opens a listener for streams.
    Listen {
        /// Our address and port; an unspecified address is any of ours, port 0 an ephemeral one.
        local: SocketAddr,
        /// With an unspecified IPv6 address: IPv6 only.
        #[serde(default)]
        v6_only: bool,
        /// Whether others may have the same binding.
        #[serde(default)]
        sharing: Share,
        /// Connections that may wait to be accepted.
        backlog: u32,
        /// Whether the application reports each connection that its program has [accepted](crate::Kind::Accepted).
        /// When the listener or its application is gone, connections that were not accepted go to the next listener
        /// with this binding.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        accepts_each: bool,
        /// As for datagrams.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_kernel: bool,
    },
    /// Takes a port of the kernel's addresses for connections that the queue opens from it, until the queue is closed.
    /// Done at once where the stack has addresses of its own.
    TakePort {
        /// The port.
        port: u16,
        /// The application has a kernel socket on it itself.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_kernel: bool,
    },
    /// Joins a group: the socket receives datagrams to the group and its port as well.
    Join {
        /// The socket's number.
        socket: u32,
        /// The group.
        group: IpAddr,
        /// The interface; without, the one that the route to the group leads by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Leaves a group that was joined with the same interface.
    Leave {
        /// The socket's number.
        socket: u32,
        /// The group.
        group: IpAddr,
        /// The interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
    },
    /// Asks for the way to an address. Nothing changes.
    Route {
        /// The address.
        address: IpAddr,
    },
    /// Registers a flow: all packets to a socket or listener, or those of one peer, with the rate that the
    /// application expects. A policy knows it from the next plan on.
    RegisterFlow {
        /// The socket's number.
        socket: u32,
        /// The peer, with port 0 for all of its ports; `None` for all peers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<SocketAddr>,
        /// Packets per second; `None` if the rate is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<u64>,
    },
    /// Takes back the registration of a flow.
    UnregisterFlow {
        /// The socket's number.
        socket: u32,
        /// The peer that it was registered with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<SocketAddr>,
    },
    /// Asks for a search for a better plan for the present flows and rates.
    Plan,
    /// Closes a socket. From a connection that holds listeners: stops holding one.
    Close {
        /// Its number; of a listener that is held, its number at the queue that opened it.
        socket: u32,
    },
    /// Sets whether a listener gets connections. While no listener with its binding does, connections wait, up to
    /// its backlog.
    Serve {
        /// Its number.
        socket: u32,
        /// Whether it gets connections, as a new listener does.
        serves: bool,
    },
    /// The first request of a connection, instead of [`OpenQueue`](Self::OpenQueue): the connection holds streams of
    /// another holder (a queue, or a connection like this one) for a process that may use them later. The streams
    /// stay open at least as long as this connection.
    Hold {
        /// The holder.
        holder: u32,
        /// Its key.
        key: u64,
        /// One of its streams; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<u32>,
        /// The listeners that [accept each](Self::Listen), instead of streams: while no other serves, connections wait
        /// for the process.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        listeners: bool,
    },
    /// Takes a stream that this connection holds to a queue. Octets that the previous queue has not consumed are
    /// delivered again.
    Claim {
        /// Its number, as the first holder had it.
        stream: u32,
        /// The queue, and its key.
        queue: u32,
        /// The queue's key.
        key: u64,
    },
    /// Stops holding a stream.
    Release {
        /// Its number, as the first holder had it.
        stream: u32,
    },
    /// Asks for a [`Credential`] of the user as which this connection was admitted.
    Credential,
    /// The first request of a connection to the [return path](crate::return_path): from then on it is one of the
    /// credential's user, and goes on as any other.
    Present {
        /// The credential.
        credential: Credential,
    },
}

/// How sockets with one binding divide its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Nobody else may have the binding.
    #[default]
    Exclusive,
    /// The latest receives datagrams to one address, all receive those to a group.
    Latest,
    /// By a hash of the flow.
    ByFlow,
    /// By the worker that received the packet.
    ByWorker,
}

/// An answer of the stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Response {
    /// The queue is open. Descriptors: one that the application sleeps on, then for each worker its
    /// channel, the descriptor that wakes it, and for a trusted channel the memory that its frames are in.
    Queue {
        /// Its number.
        queue: u32,
        /// How many channels there are.
        channels: u32,
        /// Proves in other connections that they belong to this queue's application.
        key: u64,
        /// The stack's addresses are the kernel's: a port is taken before connections begin at it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        shares_ports: bool,
        /// The channels whose frames are the stack's own.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        trusted: Vec<u32>,
    },
    /// The credential that was asked for.
    Credential {
        /// The credential.
        credential: Credential,
    },
    /// The connection holds streams.
    Held {
        /// Its number, as a holder.
        holder: u32,
        /// Proves in other connections that they belong to the same application.
        key: u64,
    },
    /// The stream belongs to the queue: the channel carries its entries, with this number.
    Claimed {
        /// Its number on the queue.
        stream: u32,
        /// The channel.
        channel: u16,
        /// Its own end.
        local: SocketAddr,
        /// The peer.
        remote: SocketAddr,
    },
    /// The socket is open and in effect.
    Socket {
        /// Its number on the channels.
        socket: u32,
        /// Its port.
        local_port: u16,
    },
    /// The way to an address.
    Route {
        /// It is one of the stack's own.
        own: bool,
        /// The interface by which packets go there; without, there is no route.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// The address from which they are sent where the socket is bound to none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<IpAddr>,
    },
    /// It is done.
    Done,
    /// No plan is made: the application has no token left.
    TooSoon {
        /// The time after which it may ask again, in milliseconds.
        wait_ms: u64,
    },
    /// It cannot be done; nothing has changed.
    Refused {
        /// For programs.
        kind: Refusal,
        /// For people.
        message: String,
    },
}

/// Why the stack refused, in the terms of `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// `EADDRINUSE`.
    InUse,
    /// `EADDRNOTAVAIL`.
    NotAvailable,
    /// `EACCES`.
    Permission,
    /// `EINVAL`.
    Invalid,
    /// `ENOBUFS`.
    Limit,
    /// `EOPNOTSUPP`: this stack does not do that, as it is configured.
    Unsupported,
    /// `EPROTO`: another version, or requests out of order.
    Protocol,
    /// `EIO`: the stack failed.
    Internal,
}

/// What to do when no descriptors are free.
pub const NO_DESCRIPTORS: &str = "no file descriptor is free for the application queue: raise the limit of open files \
     (`ulimit -n`, `LimitNOFILE=` of a service), or close some";

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The other side has closed the connection.
    #[error("the other side has closed the connection")]
    Closed,
    /// The message is none of this protocol.
    #[error("not a message of the application protocol: {0}")]
    Malformed(String),
    /// A message is too long, or has too many descriptors.
    #[error("a message of more than {MAX_MESSAGE} bytes or {MAX_DESCRIPTORS} descriptors")]
    TooLong,
    /// The descriptors that came with a message could not be taken: the process, or the system, has as many open as
    /// it may.
    #[error("{NO_DESCRIPTORS}")]
    NoDescriptors,
    /// A system call failed.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The system's error.
        source: Errno,
    },
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Connects to the stack's socket at `path`. Blocks until the stack accepts.
    ///
    /// # Errors
    /// [`ControlError::System`]: `ENOENT` and `ECONNREFUSED` mean that no stack listens there.
    pub fn connect(path: &Path) -> Result<Connection, ControlError> {
        let failed = |call| move |source| ControlError::System { call, source };
        let address = SocketAddrUnix::new(path).map_err(failed("socket address"))?;
        let socket = seqpacket().map_err(failed("socket"))?;
        rustix::net::connect(&socket, &address).map_err(failed("connect"))?;
        Ok(Connection { socket })
    }

    /// Connects to a socket at `path` that anybody may have made. Blocks for a tenth of a second at most.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); `EAGAIN` where too many others wait to be accepted.
    pub fn connect_soon(path: &Path) -> Result<Connection, ControlError> {
        Connection::soon(SocketAddrUnix::new(path))
    }

    /// The same by an abstract name (unix(7)).
    ///
    /// # Errors
    /// As [`connect_soon`](Self::connect_soon).
    pub fn connect_to_name(name: &[u8]) -> Result<Connection, ControlError> {
        Connection::soon(SocketAddrUnix::new_abstract_name(name))
    }

    /// One that never accepts could hold up those who wait for it.
    fn soon(address: Result<SocketAddrUnix, Errno>) -> Result<Connection, ControlError> {
        let failed = |call| move |source| ControlError::System { call, source };
        let address = address.map_err(failed("socket address"))?;
        let socket = seqpacket().map_err(failed("socket"))?;
        let limit =
            |limit| set_socket_timeout(&socket, Timeout::Send, limit).map_err(failed("setsockopt"));
        limit(Some(SOON))?;
        rustix::net::connect(&socket, &address).map_err(failed("connect"))?;
        limit(None)?;
        Ok(Connection { socket })
    }

    /// The user of the process at the other end: of an end that has connected, the one that listens there.
    ///
    /// # Errors
    /// [`ControlError::System`].
    pub fn peer_user(&self) -> Result<u32, ControlError> {
        let failed = |source| ControlError::System { call: "getsockopt", source };
        let peer = rustix::net::sockopt::socket_peercred(&self.socket).map_err(failed)?;
        Ok(peer.uid.as_raw())
    }

    /// A connection over an accepted socket.
    pub fn over(socket: OwnedFd) -> Connection {
        Connection { socket }
    }

    /// Sends a message with descriptors. Blocks while the other side does not read, unless the
    /// socket is non-blocking.
    ///
    /// # Errors
    /// Any but [`ControlError::Malformed`].
    pub fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ControlError> {
        let text =
            serde_json::to_vec(message).map_err(|e| ControlError::Malformed(e.to_string()))?;
        if text.len() > MAX_MESSAGE || descriptors.len() > MAX_DESCRIPTORS {
            return Err(ControlError::TooLong);
        }
        let mut space =
            vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        match sendmsg(&self.socket, &[IoSlice::new(&text)], &mut beside, SendFlags::NOSIGNAL) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(ControlError::Closed),
            Err(source) => Err(ControlError::System { call: "sendmsg", source }),
        }
    }

    /// Receives a message with its descriptors. Blocks until one comes, unless the socket is
    /// non-blocking.
    ///
    /// # Errors
    /// Any. After [`ControlError::Malformed`], [`ControlError::TooLong`] and [`ControlError::NoDescriptors`] the next
    /// message can be received.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), ControlError> {
        self.receive_with(RecvFlags::CMSG_CLOEXEC)
    }

    /// As [`receive`](Self::receive), but `None` when no message is there. Does not block.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_now<T: DeserializeOwned>(
        &self,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, ControlError> {
        match self.receive_with(RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT) {
            Err(ControlError::System { source: Errno::AGAIN, .. }) => Ok(None),
            received => received.map(Some),
        }
    }

    fn receive_with<T: DeserializeOwned>(
        &self,
        flags: RecvFlags,
    ) -> Result<(T, Vec<OwnedFd>), ControlError> {
        let mut text = vec![0; MAX_MESSAGE];
        let mut space =
            vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut text)];
        let received = loop {
            match recvmsg(&self.socket, into, &mut beside, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(ControlError::Closed),
                Err(source) => return Err(ControlError::System { call: "recvmsg", source }),
                Ok(received) => break received,
            }
        };
        let mut descriptors = Vec::new();
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                descriptors.extend(fds);
            }
        }
        if received.bytes == 0 {
            return Err(ControlError::Closed);
        }
        if received.flags.contains(ReturnFlags::CTRUNC) && descriptors.len() < MAX_DESCRIPTORS {
            // There was room for more: the process could not have them.
            return Err(ControlError::NoDescriptors);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(ControlError::TooLong);
        }
        let message = serde_json::from_slice(&text[..received.bytes])
            .map_err(|e| ControlError::Malformed(e.to_string()))?;
        Ok((message, descriptors))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A Unix socket that keeps messages apart.
pub fn seqpacket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

#[cfg(test)]
mod tests {
    use rustix::net::socketpair;

    use super::*;

    fn pair() -> (Connection, Connection) {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (a, b) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        (Connection::over(a), Connection::over(b))
    }

    #[test]
    fn messages_and_descriptors_arrive_together() {
        let (app, stack) = pair();
        let request = Request::BindUdp {
            local: "[::]:53".parse().unwrap(),
            peer: None,
            v6_only: true,
            sharing: Share::ByFlow,
            interface: Some("eth0".into()),
            in_kernel: true,
        };
        app.send(&request, &[]).unwrap();
        app.send(&Request::Close { socket: 7 }, &[]).unwrap();
        assert_eq!(stack.receive::<Request>().unwrap().0, request);
        assert_eq!(stack.receive::<Request>().unwrap().0, Request::Close { socket: 7 });
        let (reader, writer) = std::io::pipe().unwrap();
        let (shares_ports, trusted) = (false, Vec::new());
        let queue = Response::Queue { queue: 1, channels: 0, key: 3, shares_ports, trusted };
        stack.send(&queue, &[reader.as_fd(), writer.as_fd()]).unwrap();
        let (answer, descriptors) = app.receive::<Response>().unwrap();
        assert_eq!((answer, descriptors.len()), (queue, 2));
        drop(stack);
        assert!(matches!(app.receive::<Response>(), Err(ControlError::Closed)));
    }

    #[test]
    fn garbage_is_refused_and_the_next_message_understood() {
        let (app, stack) = pair();
        for bytes in
            [&b"{"[..], b"{\"request\":\"fly\"}", &[0xff; 100], &vec![b'x'; MAX_MESSAGE + 1]]
        {
            rustix::net::send(&app, bytes, SendFlags::empty()).unwrap();
            assert!(matches!(
                stack.receive::<Request>(),
                Err(ControlError::Malformed(_) | ControlError::TooLong)
            ));
        }
        app.send(&Request::Close { socket: 7 }, &[]).unwrap();
        assert!(stack.receive::<Request>().is_ok());
    }
}
