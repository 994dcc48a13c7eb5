//! The status for operators: a list of every queue and every socket.

use weever_packet::Pool;

use super::{AppServer, Socket};
use crate::network::Group;
use crate::request::{Identity, QueueStatus, SocketStatus};

impl AppServer {
    /// Every socket of a queue, in the order of their numbers.
    pub fn sockets(&self) -> impl Iterator<Item = SocketStatus> + '_ {
        self.sockets.iter().filter_map(|(id, socket)| {
            let owner = &self.queues.get(&socket.queue)?.owner;
            Some(self.socket_status(*id, socket, owner))
        })
    }

    /// Every listener that is held: it keeps its port, and connections to it wait while no queue has a listener there.
    /// Its queue is the number of the holder.
    pub fn held_listeners(&self) -> impl Iterator<Item = SocketStatus> + '_ {
        self.holders.values().flat_map(|held| {
            held.listeners.iter().filter_map(|listener| {
                let socket = self.sockets.get(&listener.socket)?;
                Some(self.socket_status(listener.socket, socket, &held.owner))
            })
        })
    }

    fn socket_status(&self, id: u32, socket: &Socket, owner: &Identity) -> SocketStatus {
        let named = |(interface, group): &Group| {
            let name = self.network.interface_name(*interface);
            (*group, name.unwrap_or_else(|| interface.to_string()))
        };
        SocketStatus {
            id,
            queue: socket.queue,
            owner: owner.clone(),
            binding: socket.binding,
            peer: socket.binding.peer(),
            listens: socket.listens,
            groups: socket.groups.iter().flat_map(|groups| groups.iter()).map(named).collect(),
            flows: self.flows.of(id).copied().collect(),
            counts: socket.counts(),
        }
    }

    /// Every queue, in the order in which they were opened.
    pub fn queues(&self) -> impl Iterator<Item = QueueStatus> + '_ {
        self.queues.iter().map(|(id, queue)| {
            let mut counts = queue.closed;
            let sockets = queue.sockets.iter().filter_map(|socket| self.sockets.get(socket));
            sockets.for_each(|socket| counts += socket.counts());
            let (owner, trusted) = (queue.owner.clone(), queue.trusted.clone());
            let (sockets, frames) = (queue.sockets.len(), queue.frames);
            QueueStatus { id: *id, owner, sockets, counts, frames, trusted }
        })
    }

    /// The number of workers, each with a channel to every application queue.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The frames of datagrams longer than an ordinary frame.
    pub fn large(&self) -> Option<&Pool> {
        self.large.as_ref()
    }

    /// How often sockets were opened or closed so far: while it stays, [`sockets`](Self::sockets) lists the same.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// How many sockets are open on queues: those that [`sockets`](Self::sockets) lists.
    pub fn socket_count(&self) -> usize {
        self.queues.values().map(|queue| queue.sockets.len()).sum()
    }

    /// How many [listeners are held](Self::held_listeners).
    pub fn held_count(&self) -> usize {
        self.holders.values().map(|held| held.listeners.len()).sum()
    }
}
