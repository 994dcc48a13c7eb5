//! Calls of the user (RFC 9293 §3.10.2 to §3.10.5), by the ids of connections.

use super::Endpoint;
use crate::connection::AckNeed;
use crate::{Connection, Events, Id, Nanos};

impl Endpoint {
    /// SEND: octets lie in the send region behind those that were queued before. Returns how many
    /// were taken: all, unless the connection is closed for sending or 1 GiB is outstanding.
    pub fn queue(&mut self, id: Id, octets: u64, now: Nanos) -> u64 {
        let Some(slot) = self.slots.get_mut(id.index) else { return 0 };
        if slot.generation != id.generation {
            return 0;
        }
        slot.warm();
        let Some(connection) = slot.connection.as_mut() else { return 0 };
        let taken = connection.queue(octets, now);
        if taken == 0 || !connection.can_send() {
            self.settle(id.index, now);
        } else if !std::mem::replace(&mut slot.in_sends, true) {
            // Its timer is set once they are sent.
            self.sends.push_back(id.index);
        }
        taken
    }

    /// SEND with the URGENT flag (RFC 9293 §3.8.5): like [`queue`](Self::queue), and the peer is told that urgent
    /// data ends behind these octets; with none, behind those that were queued before.
    pub fn queue_urgent(&mut self, id: Id, octets: u64, now: Nanos) -> u64 {
        let queue = |connection: &mut Connection| {
            let taken = connection.queue(octets, now);
            if taken > 0 || octets == 0 {
                connection.mark_urgent();
            }
            taken
        };
        self.with(id, now, queue).unwrap_or(0)
    }

    /// RECEIVE: the application has done with the next readable octets.
    pub fn consume(&mut self, id: Id, octets: u64, now: Nanos) {
        let Some(slot) = self.slots.get_mut(id.index) else { return };
        let Some(connection) = slot.connection.as_mut() else { return };
        if slot.generation != id.generation {
            return;
        }
        let taken = connection.consume(octets, now);
        // It may owe the peer an update of the window now; what else it has to send it had before.
        if connection.ack_need >= AckNeed::Challenge || connection.events.has(Events::CRAMPED) {
            return self.settle(id.index, now);
        }
        // No deadline depends on the octets read.
        slot.memory = slot.memory.saturating_sub(taken);
        self.memory = self.memory.saturating_sub(u64::from(taken));
    }

    /// Closes the sending side: FIN follows the queued octets.
    pub fn shutdown(&mut self, id: Id, now: Nanos) {
        self.with(id, now, |connection| connection.shutdown(now));
    }

    /// Closes both sides and lets go of the connection: it ends by itself, and its id means nothing
    /// any more to the application. Unread data makes it a reset.
    pub fn close(&mut self, id: Id, now: Nanos) {
        self.with(id, now, |connection| connection.release(now));
    }

    /// Resets the connection. It stays until [`close`](Self::close), as any other that is over.
    pub fn abort(&mut self, id: Id, now: Nanos) {
        self.with(id, now, Connection::abort);
    }

    pub(super) fn with<T>(
        &mut self,
        id: Id,
        now: Nanos,
        act: impl FnOnce(&mut Connection) -> T,
    ) -> Option<T> {
        let slot = self.slots.get_mut(id.index)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.warm();
        let done = act(slot.connection.as_mut()?);
        self.settle(id.index, now);
        Some(done)
    }
}
