//! What the control side tells a worker.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use atomic_refcell::AtomicRefCell;
use weever_app_ring::StackEnd;
use weever_net::demux::{Binding, Sharing, SocketTable};

use crate::stats::SocketStats;

/// A worker's table, for its queue of this link and its demux node, which run on one thread.
pub type SharedTable = Arc<AtomicRefCell<SocketTable>>;

/// One change at a worker.
pub(crate) enum Command {
    AddQueue {
        queue: u32,
        channel: Box<StackEnd>,
        /// The eventfd that wakes the application.
        wake: OwnedFd,
    },
    RemoveQueue {
        queue: u32,
    },
    AddSocket {
        socket: u32,
        queue: u32,
        binding: Binding,
        sharing: Sharing,
        /// The peer of a connected socket.
        peer: Option<SocketAddr>,
        stats: Arc<SocketStats>,
    },
    RemoveSocket {
        socket: u32,
    },
    /// Another binding of a socket, for a group that it has joined.
    AddBinding {
        socket: u32,
        binding: Binding,
    },
    RemoveBinding {
        socket: u32,
        binding: Binding,
    },
}
