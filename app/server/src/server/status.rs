//! The status for operators: a list of every queue and every socket.

use weever_packet::Pool;

use super::AppServer;
use crate::network::Group;
use crate::request::{QueueStatus, SocketStatus};

impl AppServer {
    /// Every socket of a queue, in the order of their numbers.
    pub fn sockets(&self) -> impl Iterator<Item = SocketStatus> + '_ {
        self.sockets.iter().filter_map(|(id, socket)| {
            let named = |(interface, group): &Group| {
                let name = self.network.interface_name(*interface);
                (*group, name.unwrap_or_else(|| interface.to_string()))
            };
            Some(SocketStatus {
                id: *id,
                queue: socket.queue,
                owner: self.queues.get(&socket.queue)?.owner.clone(),
                binding: socket.binding,
                peer: socket.binding.peer(),
                listens: socket.listens,
                groups: socket.groups.iter().flat_map(|groups| groups.iter()).map(named).collect(),
                flows: self.flows.of(*id).copied().collect(),
                counts: socket.counts(),
            })
        })
    }

    /// Every queue, in the order in which they were opened.
    pub fn queues(&self) -> impl Iterator<Item = QueueStatus> + '_ {
        self.queues.iter().map(|(id, queue)| {
            let mut counts = queue.closed;
            let sockets = queue.sockets.iter().filter_map(|socket| self.sockets.get(socket));
            sockets.for_each(|socket| counts += socket.counts());
            let (id, owner, frames) = (*id, queue.owner.clone(), queue.frames);
            QueueStatus { id, owner, sockets: queue.sockets.len(), counts, frames }
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

    /// How many sockets are open on queues: those that [`sockets`](Self::sockets) lists. Listeners that only have
    /// connections wait for a child are on none.
    pub fn socket_count(&self) -> usize {
        self.queues.values().map(|queue| queue.sockets.len()).sum()
    }
}
