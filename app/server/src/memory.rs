//! The bound on the memory of applications' channels.
//!
//! A channel counts while its queue is open, and after that as long as the stack has it mapped: workers let go of
//! a closed queue in their next turn, and frames with octets that a peer has not acknowledged keep their channel
//! mapped until the connection ends. Otherwise an application that opens, sends and closes in a loop would pass
//! any bound. What an application itself keeps mapped after that is its own memory, of which the kernel keeps
//! account.

use weever_app_ring::MemoryUse;

use crate::request::ServerError;

/// The memory of a queue: a channel to each worker, all of one size.
pub(crate) struct QueueMemory {
    /// Bytes of one channel.
    pub(crate) each: usize,
    /// One for each channel.
    pub(crate) channels: Vec<MemoryUse>,
}

impl QueueMemory {
    /// Bytes while the queue is open.
    fn open(&self) -> usize {
        self.each * self.channels.len()
    }

    /// Bytes that are still mapped after it was closed.
    fn mapped(&self) -> usize {
        self.each * self.channels.iter().filter(|channel| channel.is_mapped()).count()
    }
}

/// The bound, and the closed queues that still count.
pub(crate) struct MemoryBound {
    /// The most bytes of all queues together.
    pub(crate) most: usize,
    closed: Vec<QueueMemory>,
}

impl MemoryBound {
    /// No bound.
    pub(crate) fn none() -> MemoryBound {
        MemoryBound { most: usize::MAX, closed: Vec::new() }
    }

    /// A queue was closed.
    pub(crate) fn close(&mut self, queue: QueueMemory) {
        self.closed.retain(|closed| closed.mapped() > 0);
        self.closed.push(queue);
    }

    /// Whether a queue of so many bytes fits beside the open ones and the closed ones.
    pub(crate) fn check<'a>(
        &mut self,
        wanted: usize,
        open: impl Iterator<Item = &'a QueueMemory>,
    ) -> Result<(), ServerError> {
        self.closed.retain(|closed| closed.mapped() > 0);
        let closed = self.closed.iter().map(QueueMemory::mapped);
        let (mut held, mut queues) = (0, 0);
        for bytes in open.map(QueueMemory::open).chain(closed) {
            (held, queues) = (held + bytes, queues + 1);
        }
        let fits = wanted.checked_add(held).is_some_and(|sum| sum <= self.most);
        let most = self.most;
        if fits { Ok(()) } else { Err(ServerError::Memory { wanted, held, queues, most }) }
    }
}
