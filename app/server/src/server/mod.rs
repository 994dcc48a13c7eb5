//! The control side: the queues and sockets of each application.

mod groups;
mod holders;
mod ports;
mod status;

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use weever_app_ring::control::Response;
use weever_app_ring::{Geometry, StackEnd};
use weever_net::demux::{Binding, Bindings, Holder, PortRange, Sharing};
use weever_packet::Pool;

use crate::flows::Flows;
use crate::holders::{HolderEntry, LastingListener};
use crate::memory::{MemoryBound, QueueMemory};
use crate::network::HostNetwork;
use crate::network::{Groups, Joined};
use crate::ports::Ports;
use crate::request::ServerError;
use crate::request::{Identity, OpenedSocket, QueueId, SocketRequest, TransportPort};
use crate::stats::{SocketCounts, SocketStats};
use crate::trust::{Lender, Trusted};
use crate::worker::Command;
use crate::worker::WorkerHandle;

/// Turns of a worker in which its transport takes a request: it is woken in the first one, unless its graph has none.
const TRANSPORT_TURNS: u16 = 64;
/// Ports below this one are privileged, as on Linux.
const FIRST_UNPRIVILEGED: u16 = 1024;

struct Queue {
    /// The key that proves that another connection belongs to the same application.
    key: u64,
    owner: Identity,
    /// The frames of the channel to each worker.
    frames: u32,
    /// The workers in whose frames its channel is.
    trusted: Vec<u32>,
    memory: QueueMemory,
    sockets: HashSet<u32>,
    /// The counters of its closed sockets.
    closed: SocketCounts,
}

struct Socket {
    queue: QueueId,
    binding: Binding,
    listens: bool,
    /// How other processes may hold it, if it is a listener.
    lasting: Option<LastingListener>,
    groups: Joined,
    stats: Box<[Arc<SocketStats>]>,
}

impl Socket {
    /// Its counters, over all workers.
    fn counts(&self) -> SocketCounts {
        let mut counts = SocketCounts::default();
        self.stats.iter().for_each(|stats| counts += stats.counts());
        counts
    }
}

/// A new queue. Its descriptors go to the application.
#[derive(Debug)]
pub struct OpenedQueue {
    /// The queue.
    pub id: QueueId,
    /// A connection that knows it may hold and claim streams of the queue.
    pub key: u64,
    /// A channel for each worker, in their order.
    pub channels: Vec<OwnedFd>,
    /// For those whose frames are the worker's own, by number, the memory that these are in.
    pub trusted: Vec<(u32, OwnedFd)>,
    /// The application sleeps on it.
    pub wake: OwnedFd,
    /// The application writes to the one of a worker that sleeps, in the channels' order.
    pub worker_wakes: Vec<OwnedFd>,
}

/// Opens and closes queues and sockets. One thread at a time uses it; its calls do not wait for a
/// worker unless thousands of changes are under way.
pub struct AppServer {
    workers: Vec<WorkerHandle>,
    queues: BTreeMap<QueueId, Queue>,
    sockets: BTreeMap<u32, Socket>,
    bindings: Bindings,
    /// Those of listeners: ports of streams are apart from ports of datagrams.
    listeners: Bindings,
    large: Option<Pool>,
    network: Box<dyn HostNetwork>,
    groups: Groups,
    /// Bindings in the workers' tables: sockets, and their memberships in groups.
    entries: usize,
    max_sockets: usize,
    /// The first port that is not root's.
    first_port: u16,
    memory: MemoryBound,
    /// The pool of each worker in whose frames applications may work.
    pub(crate) lenders: Vec<Option<Lender>>,
    /// The ports of addresses that are the kernel's as well.
    pub(crate) ports: Option<Ports>,
    pub(crate) flows: Flows,
    /// How often a socket was opened or closed.
    changes: u64,
    /// Connections that hold streams or listeners.
    holders: BTreeMap<u32, HolderEntry>,
    /// The number of the next queue or holder.
    next_queue: QueueId,
    next_socket: u32,
}

impl AppServer {
    pub(crate) fn new(
        workers: Vec<WorkerHandle>,
        large: Option<Pool>,
        network: Box<dyn HostNetwork>,
        secret: [u64; 4],
        max_sockets: usize,
    ) -> AppServer {
        AppServer {
            lenders: workers.iter().map(|_| None).collect(),
            workers,
            queues: BTreeMap::new(),
            sockets: BTreeMap::new(),
            bindings: Bindings::new(PortRange::default(), [secret[2], secret[3]]),
            listeners: Bindings::new(PortRange::default(), [secret[3], secret[2]]),
            large,
            network,
            groups: Groups::default(),
            entries: 0,
            max_sockets,
            first_port: FIRST_UNPRIVILEGED,
            memory: MemoryBound::none(),
            ports: None,
            flows: Flows::default(),
            changes: 0,
            holders: BTreeMap::new(),
            next_queue: 1,
            next_socket: 1,
        }
    }

    /// Says which port is the first that others than root may bind; 1024 at first.
    pub fn set_first_port(&mut self, port: u16) {
        self.first_port = port;
    }

    /// Says which ports are ephemeral; those of [`PortRange::default`] at first.
    pub fn set_ephemeral(&mut self, ports: PortRange) {
        self.bindings.set_ports(ports);
        self.listeners.set_ports(ports);
    }

    /// Whether a user may have a port.
    pub(crate) fn check_port(&self, port: u16, user: u32) -> Result<(), ServerError> {
        if user != 0 && port < self.first_port {
            return Err(ServerError::Privileged { port, first: self.first_port });
        }
        Ok(())
    }

    /// Bounds the memory that applications' queues have together, in bytes; without bound at first. Queues
    /// that are there keep theirs, and closed ones count until workers and connections have let go of them.
    pub fn set_memory(&mut self, most: usize) {
        self.memory.most = most;
    }

    /// Has trusted applications, besides those that are already, work in the frames of a worker's packets, which are of
    /// this pool: in `most` more of them. False when its memory [cannot be shared](Pool::shareable), or there is no such
    /// worker. Queues that are open stay as they are.
    pub fn lend_frames(
        &mut self,
        worker: usize,
        pool: &Pool,
        most: usize,
        trusted: Trusted,
    ) -> bool {
        let Some(place) = self.lenders.get_mut(worker) else { return false };
        let Some(mut lender) = place.take().or_else(|| Lender::new(pool)) else { return false };
        lender.trust(trusted, most);
        *place = Some(lender);
        true
    }

    /// Keeps the stack's own services out of applications' reach: `binding` is in use from now on, for
    /// datagrams, or with `listens` for streams.
    ///
    /// # Errors
    /// [`ServerError::Bind`] when it is taken already.
    pub fn reserve(&mut self, binding: Binding, listens: bool) -> Result<(), ServerError> {
        let holder = Holder { socket: 0, owner: 0, user: 0 };
        let bindings = if listens { &mut self.listeners } else { &mut self.bindings };
        Ok(bindings.bind(binding, Sharing::Exclusive, holder)?)
    }

    /// Gives back what [`reserve`](Self::reserve) has taken.
    pub fn unreserve(&mut self, binding: &Binding, listens: bool) {
        let bindings = if listens { &mut self.listeners } else { &mut self.bindings };
        bindings.release(binding, 0);
    }

    pub(crate) fn worker_count(&self) -> usize {
        self.workers.len()
    }

    /// The application of a queue.
    pub(crate) fn owner(&self, queue: QueueId) -> Option<&Identity> {
        self.queues.get(&queue).map(|queue| &queue.owner)
    }

    /// The application with a queue of this name, if there is one.
    pub(crate) fn owner_of(&self, name: &str) -> Option<&Identity> {
        self.queues.values().map(|queue| &queue.owner).find(|owner| owner.name == name)
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
        geometry.check()?;
        let each = geometry.total_size();
        let open = self.queues.values().map(|queue| &queue.memory);
        self.memory.check(each.saturating_mul(self.workers.len()), open)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(ServerError::system("eventfd"))?;
        let clone = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(ServerError::dup);
        let (mut channels, mut trusted) = (Vec::new(), Vec::new());
        let (mut worker_wakes, mut ends) = (Vec::new(), Vec::new());
        for (number, worker) in (0..).zip(&self.workers) {
            let lender = self.lenders[number as usize].as_mut();
            let lent = lender.map(|lender| lender.channel(&owner, geometry)).transpose()?.flatten();
            let (end, exchange) = match lent {
                Some((end, exchange)) => (end, Some(exchange)),
                None => (StackEnd::create(geometry)?, None),
            };
            channels.push(clone(end.fd())?);
            if let Some(memory) = end.frames_fd() {
                trusted.push((number, clone(memory)?));
            }
            worker_wakes.push(clone(worker.wake.as_fd())?);
            ends.push((Box::new(end), exchange, clone(wake.as_fd())?));
        }
        let channels_use = ends.iter().map(|(end, ..)| end.memory_use()).collect();
        let memory = QueueMemory { each, channels: channels_use };
        let id = self.next_queue;
        self.next_queue += 1;
        let key = new_key();
        self.queues.insert(
            id,
            Queue {
                key,
                owner,
                frames: geometry.frames,
                trusted: trusted.iter().map(|(worker, _)| *worker).collect(),
                memory,
                sockets: HashSet::new(),
                closed: SocketCounts::default(),
            },
        );
        for (worker, (channel, exchange, wake)) in ends.into_iter().enumerate() {
            let add = Command::AddQueue { queue: id, channel, exchange, wake };
            if let Err(error) = self.tell(worker, add) {
                self.close_queue(id)?;
                return Err(error);
            }
        }
        Ok(OpenedQueue { id, key, channels, trusted, wake, worker_wakes })
    }

    /// Closes a queue and all its sockets; the content of its rings is lost.
    ///
    /// # Errors
    /// [`ServerError::NoQueue`].
    pub fn close_queue(&mut self, queue: QueueId) -> Result<(), ServerError> {
        let there = self.queues.remove(&queue).ok_or(ServerError::NoQueue(queue))?;
        self.memory.close(there.memory);
        for socket in there.sockets {
            self.forget(socket);
        }
        self.flows.forget_queue(queue);
        self.ports.iter_mut().for_each(|ports| ports.release_queue(queue));
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
        request.local_port.map_or(Ok(()), |port| self.check_port(port, user))?;
        request.check()?;
        let interface =
            request.interface.as_deref().map(|name| self.interface(name)).transpose()?;
        if let Some(address) = request.local_addr.filter(|address| !address.is_multicast())
            && !self.network.has_address(address)
        {
            return Err(ServerError::NotOurs(address));
        }
        if self.entries >= self.max_sockets {
            return Err(ServerError::Sockets(self.max_sockets));
        }
        let id = self.next_id();
        self.changes += 1;
        let holder = Holder { socket: id, owner: queue.into(), user };
        let mut binding = Binding {
            family: request.family,
            local_addr: request.local_addr,
            local_port: request.local_port,
            remote_addr: request.peer.map(|peer| peer.ip()),
            remote_port: request.peer.map(|peer| peer.port()),
            interface,
        };
        let listens = request.backlog.is_some();
        let bindings = if listens { &mut self.listeners } else { &mut self.bindings };
        let local_port = match request.local_port {
            Some(port) => {
                bindings.bind(binding, request.sharing, holder)?;
                port
            }
            None => bindings.bind_ephemeral(binding, request.sharing, holder, |_| true)?,
        };
        binding.local_port = Some(local_port);
        let port = TransportPort { stream: listens, port: local_port };
        let own = request.in_kernel.then_some(user);
        if let Some(Err(error)) = self.ports.as_mut().map(|ports| ports.reserve(port, own)) {
            let bindings = if listens { &mut self.listeners } else { &mut self.bindings };
            bindings.release(&binding, id);
            return Err(error);
        }
        let stats: Vec<_> = self.workers.iter().map(|_| Arc::default()).collect();
        let stats_here = if listens { Box::default() } else { stats.clone().into() };
        let lasting = request.backlog.filter(|_| request.accepts_each);
        let lasting =
            lasting.map(|backlog| LastingListener { backlog, sharing: request.sharing, user, own });
        let socket = Socket { queue, binding, listens, lasting, groups: None, stats: stats_here };
        self.sockets.insert(id, socket);
        self.entries += 1;
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.sockets.insert(id);
        }
        for (worker, stats) in stats.into_iter().enumerate() {
            let sharing = request.sharing;
            let command = match request.backlog {
                Some(backlog) => {
                    let accepts_each = request.accepts_each;
                    let (socket, serves) = (id, true);
                    Command::AddListener { socket, queue, binding, backlog, accepts_each, serves }
                }
                None => Command::AddSocket { socket: id, queue, binding, sharing, stats },
            };
            if let Err(error) = self.tell(worker, command) {
                self.close_socket(queue, id)?;
                return Err(error);
            }
        }
        if listens && self.ports.is_some() {
            // A connection that comes once the port is taken is not refused.
            self.tell_all(|| Command::AwaitTransport { turns: TRANSPORT_TURNS })?;
        }
        Ok(OpenedSocket { id, local_port })
    }

    /// Closes a socket. Earlier deliveries stay in the application's rings.
    ///
    /// # Errors
    /// [`ServerError::NoQueue`] and [`ServerError::NoSocket`].
    pub fn close_socket(&mut self, queue: QueueId, socket: u32) -> Result<(), ServerError> {
        let owner = self.queues.get_mut(&queue).ok_or(ServerError::NoQueue(queue))?;
        if !owner.sockets.remove(&socket) {
            return Err(ServerError::NoSocket(socket));
        }
        self.forget(socket);
        Ok(())
    }

    fn forget(&mut self, socket: u32) {
        self.changes += 1;
        let Some(there) = self.sockets.remove(&socket) else { return };
        self.flows.forget(there.queue, socket);
        if let Some(queue) = self.queues.get_mut(&there.queue) {
            queue.closed += there.counts();
        }
        self.entries -= 1;
        let bindings = if there.listens { &mut self.listeners } else { &mut self.bindings };
        bindings.release(&there.binding, socket);
        if let Some((ports, port)) = self.ports.as_mut().zip(there.binding.local_port) {
            ports.release(TransportPort { stream: there.listens, port });
        }
        for group in there.groups.into_iter().flat_map(|groups| *groups) {
            self.leave_group(socket, &there.binding, group);
        }
        for worker in 0..self.workers.len() {
            let _ = self.tell(worker, Command::RemoveSocket { socket });
        }
    }

    /// The way to an address.
    pub(crate) fn route(&self, address: IpAddr) -> Response {
        let interface = self.network.interface_to(address);
        Response::Route {
            own: self.network.has_address(address),
            interface: interface.and_then(|number| self.network.interface_name(number)),
            source: self.network.source_to(address),
        }
    }

    fn interface(&self, name: &str) -> Result<u16, ServerError> {
        self.network.interface(name).ok_or_else(|| ServerError::Interface(name.into()))
    }

    /// The binding of a socket of this queue.
    pub(crate) fn binding_of(&self, queue: QueueId, socket: u32) -> Result<Binding, ServerError> {
        let there = self.sockets.get(&socket).filter(|there| there.queue == queue);
        Ok(there.ok_or(ServerError::NoSocket(socket))?.binding)
    }

    fn own_socket(&mut self, queue: QueueId, socket: u32) -> Result<&mut Socket, ServerError> {
        let there = self.sockets.get_mut(&socket).filter(|there| there.queue == queue);
        there.ok_or(ServerError::NoSocket(socket))
    }

    /// Wakes the workers, so that commands are carried out by those that sleep. Call it after a
    /// row of changes; packets that arrive wake them as well.
    pub fn wake(&self) {
        self.workers.iter().for_each(WorkerHandle::wake);
    }

    /// Waits until every worker has carried out its commands: packets that arrive from then on reach
    /// the sockets that were opened, and none that was closed. Workers must be running.
    ///
    /// # Errors
    /// [`ServerError::Stuck`] after 5 s.
    pub fn settle(&mut self) -> Result<(), ServerError> {
        self.await_workers()?;
        self.tend_ports()
    }

    pub(crate) fn await_workers(&self) -> Result<(), ServerError> {
        self.wake();
        match self.workers.iter().position(|worker| !worker.settle()) {
            Some(number) => Err(ServerError::Stuck(number)),
            None => Ok(()),
        }
    }

    /// Whether every worker has carried out its commands, for a caller that turns workers by
    /// itself; see [`settle`](Self::settle).
    pub fn settled(&self) -> bool {
        self.workers.iter().all(WorkerHandle::settled)
    }

    pub(crate) fn tell_all(&mut self, command: impl Fn() -> Command) -> Result<(), ServerError> {
        (0..self.workers.len()).try_for_each(|worker| self.tell(worker, command()))
    }

    pub(crate) fn tell(&mut self, worker: usize, command: Command) -> Result<(), ServerError> {
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

/// A number that cannot be guessed: the standard library's hash with keys from the system's random source.
fn new_key() -> u64 {
    RandomState::new().hash_one(0)
}
