//! What applications ask for, and what they and `weever sockets` are told.

use std::net::{IpAddr, SocketAddr};

use weever_net::demux::{Binding, Family, Sharing};

use crate::stats::SocketCounts;

/// The number of an application queue.
pub type QueueId = u32;

/// Who an application is, as the kernel says (`SO_PEERCRED`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name, for people.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// What an application wants to bind.
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
}

/// An opened socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedSocket {
    /// Its number, by which entries of the channels name it.
    pub id: u32,
    /// Its local port.
    pub local_port: u16,
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
    /// What it receives.
    pub binding: Binding,
    /// The peer of a connected one.
    pub peer: Option<SocketAddr>,
    /// The groups that it has joined, with the names of the interfaces.
    pub groups: Vec<(IpAddr, String)>,
    /// Its counters, over all workers.
    pub counts: SocketCounts,
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
}
