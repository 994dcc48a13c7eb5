//! What there is, for operators: every queue and every socket.

use super::AppServer;
use crate::network::Group;
use crate::request::{QueueStatus, SocketStatus};

impl AppServer {
    /// Every socket, in the order of their numbers.
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
}
