//! The control side's end of one worker: changes go to it as commands, through a ring of its own.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use atomic_refcell::AtomicRefCell;
use rtrb::{Producer, PushError};
use weever_app_ring::StackEnd;
use weever_net::demux::{Binding, PortRange, Sharing, SocketTable};
use weever_packet::Exchange;

use crate::holders::Claimed;
use crate::request::{Connections, FoundPorts};
use crate::stats::SocketStats;

/// A worker's table, for its queue of this link and its demux node, which run on one thread.
pub type SharedTable = Arc<AtomicRefCell<SocketTable>>;

/// One change at a worker.
pub(crate) enum Command {
    AddQueue {
        queue: u32,
        channel: Box<StackEnd>,
        /// With the pool of this worker's packets, if the application is trusted with its frames.
        exchange: Option<Exchange>,
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
        stats: Arc<SocketStats>,
    },
    AddListener {
        socket: u32,
        queue: u32,
        binding: Binding,
        backlog: u32,
        accepts_each: bool,
        serves: bool,
    },
    /// Sets whether a listener gets connections.
    Serve {
        socket: u32,
        serves: bool,
    },
    /// Another holder for the streams of one, or for one of them.
    Share {
        from: u32,
        to: u32,
        only: Option<u32>,
    },
    /// Ends the hold of a holder on its streams, or on one of them.
    Release {
        holder: u32,
        only: Option<u32>,
    },
    /// A stream of a holder, by its number there, becomes a queue's.
    Claim {
        stream: (u32, u32),
        queue: u32,
        to: Sender<Claimed>,
    },
    RemoveSocket {
        socket: u32,
    },
    /// The host's addresses are the kernel's, too: connections begin at ports of this range, or at ports that their
    /// queues have taken.
    SharePorts {
        range: PortRange,
    },
    /// Connections of a queue may begin at a port.
    AllowPort {
        queue: u32,
        port: u16,
    },
    /// They may no more.
    ForbidPort {
        queue: u32,
        port: u16,
    },
    /// Waits until the transport knows the listeners, for so many turns at the most.
    AwaitTransport {
        turns: u16,
    },
    /// The connections of these ports.
    FindPorts {
        ports: Arc<BTreeSet<u16>>,
        to: Sender<FoundPorts>,
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
    /// The list of connections, for an operator.
    Report {
        most: usize,
        to: Sender<Connections>,
    },
}

/// How often a full ring of commands is looked at again, and how many times.
const RETRY: Duration = Duration::from_micros(200);
const RETRIES: u32 = 25_000;
/// How often a worker is looked at before this thread begins to sleep in between.
const SPINS: u32 = 100;

/// The control side's end of one worker.
pub(crate) struct WorkerHandle {
    pub(crate) commands: Producer<Command>,
    pub(crate) wake: Arc<OwnedFd>,
    /// How many commands were sent.
    pub(crate) sent: u64,
    /// How many of them the worker has carried out.
    pub(crate) done: Arc<AtomicU64>,
}

impl WorkerHandle {
    pub(crate) fn wake(&self) {
        // The only way to fail is a full counter: then it is readable already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Hands a command over. Blocks while the ring is full, 5 s at the most.
    pub(crate) fn send(&mut self, mut command: Command) -> Result<(), ()> {
        for _ in 0..RETRIES {
            match self.commands.push(command) {
                Ok(()) => {
                    self.sent += 1;
                    return Ok(());
                }
                Err(PushError::Full(back)) => command = back,
            }
            if self.commands.is_abandoned() {
                return Err(());
            }
            self.wake();
            std::thread::sleep(RETRY);
        }
        Err(())
    }

    /// Whether the worker has carried out all its commands.
    pub(crate) fn settled(&self) -> bool {
        // Acquire: the worker's changes come before the caller's next step.
        self.done.load(Ordering::Acquire) >= self.sent
    }

    /// Waits until the worker has carried out all its commands; false after 5 s.
    pub(crate) fn settle(&self) -> bool {
        let mut looks = 0;
        while !self.settled() {
            looks += 1;
            if looks < SPINS {
                std::thread::yield_now();
            } else if looks < RETRIES && !self.commands.is_abandoned() {
                std::thread::sleep(RETRY);
            } else {
                return false;
            }
        }
        true
    }
}
