//! Tasks from the engines of other workers, and messages to the engine's own worker.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use weever_packet::Nanos;

use super::Engine;
use super::moving::{Owed, QueueWatch};
use super::peers::{Message, Peers};
use super::runtime::Offered;
use crate::counters::Cells;

/// Messages taken from one worker in one turn.
const MAX_MESSAGES_PER_TURN: usize = 256;

impl Engine {
    /// Connects this engine with those of the other workers.
    pub(crate) fn connect(&mut self, peers: Peers) {
        self.runtime.worker = peers.me();
        self.runtime.peers = Some(Box::new(peers));
    }

    /// The cells of its counters.
    pub(crate) fn cells(&self) -> Arc<Cells> {
        self.runtime.counters.clone()
    }

    pub(crate) fn peers(&mut self) -> Option<&mut Peers> {
        self.runtime.peers.as_deref_mut()
    }

    /// Takes messages from other workers, as far as there is room for their tasks. Stops at a
    /// message that belongs to a newer graph than this engine runs, and returns that graph's
    /// number.
    #[inline]
    pub(crate) fn take_over(&mut self, now: Nanos) -> Option<u64> {
        let workers = self.runtime.peers.as_ref().map_or(0, |peers| peers.len());
        (0..workers).find_map(|from| self.take_over_from(from, now))
    }

    fn take_over_from(&mut self, from: usize, now: Nanos) -> Option<u64> {
        for _ in 0..MAX_MESSAGES_PER_TURN {
            let program = &self.plan.program;
            let next = self.runtime.peers.as_mut()?.next(from)?;
            if next.epoch() > self.runtime.epoch {
                return Some(next.epoch());
            }
            if let Message::Task { at, priority, .. } = next {
                let (at, priority) = (*at, *priority);
                let entry = program.at(at);
                if entry.is_some_and(|entry| !self.runtime.tasks.queue(priority).has_room(entry)) {
                    return None;
                }
            }
            match self.runtime.peers.as_mut()?.take(from)? {
                Message::Fence { from: to, number, order } => {
                    let queues = QueueWatch::default();
                    self.runtime.flows.owed.push(Owed { to, order, number, queues });
                }
                Message::Fenced { number } => self.answered(number),
                Message::Move { order, part } => {
                    self.runtime.flows.take_order(order, Some(part.into_vec()));
                }
                Message::Flow(flow) => self.take_flow(*flow, now),
                Message::Ask { at, flow, by } => self.asked_for(at, flow, by),
                message => self.runtime.receive(program, message),
            }
        }
        None
    }

    /// Whether messages from other workers are waiting.
    pub(crate) fn has_messages(&self) -> bool {
        self.runtime.peers.as_ref().is_some_and(|peers| peers.has_messages())
    }

    /// The descriptors that tasks wait for.
    #[inline]
    pub(crate) fn descriptors(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.runtime.delayed.for_input.iter().map(|(fd, _)| fd.as_fd())
    }

    /// Starts the tasks whose descriptors can be read, as `ready` says of each in turn.
    pub(crate) fn start_readable(&mut self, ready: &[bool]) {
        self.runtime.start_readable(&self.plan.program, ready);
    }

    /// Whether tasks wait for a free buffer.
    pub(crate) fn lacks_buffers(&self) -> bool {
        !self.runtime.delayed.for_buffer.is_empty()
    }

    /// The packets to be sent since the last call.
    #[inline]
    pub(crate) fn take_offered(&mut self) -> Offered {
        self.runtime.outboxes.take_offered()
    }

    /// The room in the fullest ring to another worker.
    pub(crate) fn ring_room(&self) -> usize {
        self.runtime.peers.as_ref().map_or(usize::MAX, |peers| peers.least_room())
    }

    /// Whether messages to other workers wait for room in a ring.
    pub(crate) fn has_unsent_messages(&self) -> bool {
        self.runtime.peers.as_ref().is_some_and(|peers| peers.has_unsent())
    }
}
