//! The control side: who has which queue and which sockets.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rtrb::{Producer, PushError};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use weever_app_ring::{ChannelError, Geometry, StackEnd};
use weever_net::demux::{BindError, Binding, Bindings, Family, Holder, PortRange, Sharing};

use crate::command::Command;
use crate::stats::{SocketCounts, SocketStats};

/// How often a full ring of commands is looked at again, and how many times.
const RETRY: Duration = Duration::from_micros(200);
const RETRIES: u32 = 25_000;
/// How often a worker is looked at before this thread begins to sleep in between.
const SPINS: u32 = 100;
/// Ports below this one are privileged, as on Linux.
const FIRST_UNPRIVILEGED: u16 = 1024;

/// The number of an application queue.
pub type QueueId = u32;

/// Why the server cannot do what an application asks for.
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
    /// There is no such socket on the queue.
    #[error("there is no socket {0} on this queue")]
    NoSocket(u32),
    /// A privileged port.
    #[error("port {0} is privileged; run the application as root, or use a port from 1024 on")]
    Privileged(u16),
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
    /// The limit on sockets is reached.
    #[error("all {0} sockets are in use; close some, or raise `sockets` in the configuration")]
    Sockets(usize),
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
}

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
    fn wake(&self) {
        // The only way to fail is a full counter: then it is readable already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Hands a command over. Blocks while the ring is full, 5 s at the most.
    fn send(&mut self, mut command: Command) -> Result<(), ()> {
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
}

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

struct Queue {
    owner: Identity,
    sockets: Vec<u32>,
}

struct Socket {
    queue: QueueId,
    binding: Binding,
    peer: Option<SocketAddr>,
    stats: Vec<Arc<SocketStats>>,
}

/// What an application gets for a new queue. The descriptors go to it.
#[derive(Debug)]
pub struct OpenedQueue {
    /// The queue.
    pub id: QueueId,
    /// A channel for each worker, in their order.
    pub channels: Vec<OwnedFd>,
    /// The application sleeps on it.
    pub wake: OwnedFd,
    /// The application writes to the one of a worker that sleeps, in the channels' order.
    pub worker_wakes: Vec<OwnedFd>,
}

/// What an application wants to bind.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketRequest {
    /// Our address; `None`: any.
    pub local_addr: Option<IpAddr>,
    /// Our port; `None`: an ephemeral one.
    pub local_port: Option<u16>,
    /// Which family, where no address decides it.
    pub family: Family,
    /// The peer of a connected socket, which receives from nobody else.
    pub peer: Option<SocketAddr>,
    /// The interface that packets must come by; `None`: any.
    pub interface: Option<u16>,
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
    /// Its counters, over all workers.
    pub counts: SocketCounts,
}

/// Opens and closes queues and sockets. One thread at a time uses it; its calls do not wait for a
/// worker unless thousands of changes are under way.
pub struct AppServer {
    workers: Vec<WorkerHandle>,
    queues: BTreeMap<QueueId, Queue>,
    sockets: BTreeMap<u32, Socket>,
    bindings: Bindings,
    max_sockets: usize,
    next_queue: QueueId,
    next_socket: u32,
}

impl AppServer {
    pub(crate) fn new(
        workers: Vec<WorkerHandle>,
        secret: [u64; 4],
        max_sockets: usize,
    ) -> AppServer {
        AppServer {
            workers,
            queues: BTreeMap::new(),
            sockets: BTreeMap::new(),
            bindings: Bindings::new(PortRange::default(), [secret[2], secret[3]]),
            max_sockets,
            next_queue: 1,
            next_socket: 1,
        }
    }

    /// Keeps the stack's own services out of applications' reach: `binding` is in use from now on.
    ///
    /// # Errors
    /// [`ServerError::Bind`] when it is taken already.
    pub fn reserve(&mut self, binding: Binding) -> Result<(), ServerError> {
        let holder = Holder { socket: 0, owner: 0, user: 0 };
        Ok(self.bindings.bind(binding, Sharing::Exclusive, holder)?)
    }

    /// Opens a queue with a channel of this geometry for each worker.
    ///
    /// # Errors
    /// [`ServerError::Channel`], [`ServerError::System`], [`ServerError::Stuck`]; nothing is left
    /// behind.
    pub fn open_queue(
        &mut self,
        owner: Identity,
        geometry: Geometry,
    ) -> Result<OpenedQueue, ServerError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(ServerError::system("eventfd"))?;
        let clone = |fd: &OwnedFd| fd.as_fd().try_clone_to_owned();
        let failed = |error: std::io::Error| ServerError::System {
            call: "dup",
            source: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        };
        let (mut channels, mut worker_wakes, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for worker in &self.workers {
            let end = StackEnd::create(geometry)?;
            channels.push(end.fd().try_clone_to_owned().map_err(failed)?);
            worker_wakes.push(clone(&worker.wake).map_err(failed)?);
            ends.push((Box::new(end), clone(&wake).map_err(failed)?));
        }
        let id = self.next_queue;
        self.next_queue += 1;
        self.queues.insert(id, Queue { owner, sockets: Vec::new() });
        for (worker, (channel, wake)) in ends.into_iter().enumerate() {
            if let Err(error) = self.tell(worker, Command::AddQueue { queue: id, channel, wake }) {
                self.close_queue(id)?;
                return Err(error);
            }
        }
        Ok(OpenedQueue { id, channels, wake, worker_wakes })
    }

    /// Closes a queue and all its sockets; what lies in its rings is lost.
    ///
    /// # Errors
    /// [`ServerError::NoQueue`].
    pub fn close_queue(&mut self, queue: QueueId) -> Result<(), ServerError> {
        let there = self.queues.remove(&queue).ok_or(ServerError::NoQueue(queue))?;
        for socket in there.sockets {
            self.forget(socket);
        }
        for worker in 0..self.workers.len() {
            // A worker that is gone has no queue any more.
            let _ = self.tell(worker, Command::RemoveQueue { queue });
        }
        Ok(())
    }

    /// Opens a socket on a queue. Packets that arrive after it returns are the socket's.
    ///
    /// # Errors
    /// Any but [`ServerError::Channel`]; nothing is left behind.
    pub fn open_socket(
        &mut self,
        queue: QueueId,
        request: &SocketRequest,
    ) -> Result<OpenedSocket, ServerError> {
        let owner = &self.queues.get(&queue).ok_or(ServerError::NoQueue(queue))?.owner;
        let user = owner.uid;
        check(request, user)?;
        if self.sockets.len() >= self.max_sockets {
            return Err(ServerError::Sockets(self.max_sockets));
        }
        let id = self.next_id();
        let holder = Holder { socket: id, owner: queue.into(), user };
        let mut binding = Binding {
            family: request.family,
            local_addr: request.local_addr,
            local_port: request.local_port,
            remote_addr: request.peer.map(|peer| peer.ip()),
            remote_port: request.peer.map(|peer| peer.port()),
            interface: request.interface,
        };
        let local_port = match request.local_port {
            Some(port) => {
                self.bindings.bind(binding, request.sharing, holder)?;
                port
            }
            None => self.bindings.bind_ephemeral(binding, request.sharing, holder, |_| true)?,
        };
        binding.local_port = Some(local_port);
        let stats: Vec<_> = self.workers.iter().map(|_| Arc::default()).collect();
        let peer = request.peer;
        let socket = Socket { queue, binding, peer, stats: stats.clone() };
        self.sockets.insert(id, socket);
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.sockets.push(id);
        }
        for (worker, stats) in stats.into_iter().enumerate() {
            let sharing = request.sharing;
            let command = Command::AddSocket { socket: id, queue, binding, sharing, peer, stats };
            if let Err(error) = self.tell(worker, command) {
                self.close_socket(queue, id)?;
                return Err(error);
            }
        }
        Ok(OpenedSocket { id, local_port })
    }

    /// Closes a socket. What was delivered before stays in the application's rings.
    ///
    /// # Errors
    /// [`ServerError::NoQueue`] and [`ServerError::NoSocket`].
    pub fn close_socket(&mut self, queue: QueueId, socket: u32) -> Result<(), ServerError> {
        let owner = self.queues.get_mut(&queue).ok_or(ServerError::NoQueue(queue))?;
        let place = owner.sockets.iter().position(|there| *there == socket);
        owner.sockets.swap_remove(place.ok_or(ServerError::NoSocket(socket))?);
        self.forget(socket);
        Ok(())
    }

    fn forget(&mut self, socket: u32) {
        let Some(there) = self.sockets.remove(&socket) else { return };
        self.bindings.release(&there.binding, socket);
        for worker in 0..self.workers.len() {
            let _ = self.tell(worker, Command::RemoveSocket { socket });
        }
    }

    /// Every socket, in the order of their numbers.
    pub fn sockets(&self) -> impl Iterator<Item = SocketStatus> + '_ {
        self.sockets.iter().filter_map(|(id, socket)| {
            let mut counts = SocketCounts::default();
            socket.stats.iter().for_each(|stats| counts += stats.counts());
            Some(SocketStatus {
                id: *id,
                queue: socket.queue,
                owner: self.queues.get(&socket.queue)?.owner.clone(),
                binding: socket.binding,
                peer: socket.peer,
                counts,
            })
        })
    }

    /// Wakes the workers, so that commands are carried out by those that sleep. Call it after a
    /// row of changes; packets that arrive wake them as well.
    pub fn wake(&self) {
        self.workers.iter().for_each(WorkerHandle::wake);
    }

    /// Waits until every worker has carried out what it was told: what arrives from then on is
    /// received by the sockets that were opened, and by none that was closed. Workers must be
    /// running.
    ///
    /// # Errors
    /// [`ServerError::Stuck`] after 5 s.
    pub fn settle(&self) -> Result<(), ServerError> {
        self.wake();
        for (number, worker) in self.workers.iter().enumerate() {
            let mut looks = 0;
            // Acquire: what the worker did comes before what the caller does next.
            while worker.done.load(Ordering::Acquire) < worker.sent {
                looks += 1;
                if looks < SPINS {
                    std::thread::yield_now();
                } else if looks < RETRIES && !worker.commands.is_abandoned() {
                    std::thread::sleep(RETRY);
                } else {
                    return Err(ServerError::Stuck(number));
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, worker: usize, command: Command) -> Result<(), ServerError> {
        self.workers[worker].send(command).map_err(|()| ServerError::Stuck(worker))
    }

    /// A number that no socket has: they are reused as late as can be.
    fn next_id(&mut self) -> u32 {
        loop {
            let id = self.next_socket;
            self.next_socket = self.next_socket.checked_add(1).unwrap_or(1);
            if !self.sockets.contains_key(&id) {
                return id;
            }
        }
    }
}

fn check(request: &SocketRequest, user: u32) -> Result<(), ServerError> {
    if let Some(port) = request.local_port.filter(|port| *port < FIRST_UNPRIVILEGED)
        && user != 0
    {
        return Err(ServerError::Privileged(port));
    }
    let Some(peer) = request.peer else { return Ok(()) };
    if peer.port() == 0 || peer.ip().is_unspecified() {
        return Err(ServerError::Peer(peer));
    }
    match request.local_addr {
        Some(local) if local.is_ipv4() != peer.is_ipv4() => {
            Err(ServerError::Families { local, peer: peer.ip() })
        }
        _ => Ok(()),
    }
}
