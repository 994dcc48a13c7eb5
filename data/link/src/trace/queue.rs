//! One queue that is looked at.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use weever_packet::{BURST, Buffer, Burst, Nanos, PoolCache};

use super::{Event, Shared};
use crate::pcap::Direction;
use crate::{LinkError, LinkQueue, QueueStats};

/// A queue whose packets are shown to an observer.
pub struct TracedQueue {
    inner: Box<dyn LinkQueue>,
    link: String,
    queue: u16,
    now: Nanos,
    observer: Shared,
    /// Shown, and not yet taken by the wrapped queue: a packet is shown once.
    shown: VecDeque<Buffer>,
}

impl TracedQueue {
    /// Wraps a queue of a link.
    pub fn new(
        inner: Box<dyn LinkQueue>,
        link: String,
        queue: u16,
        observer: Shared,
    ) -> TracedQueue {
        let shown = VecDeque::with_capacity(BURST);
        TracedQueue { inner, link, queue, now: 0, observer, shown }
    }

    fn show<'b>(&'b self, direction: Direction, packets: impl Iterator<Item = &'b Buffer>) {
        let (link, queue, now) = (self.link.as_str(), self.queue, self.now);
        let event = |packet| Event { link, queue, direction, now, packet };
        self.observer.see(&mut packets.map(event));
    }
}

impl LinkQueue for TracedQueue {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let n = self.inner.rx(pool, burst, max)?;
        if n > 0 {
            let burst = &*burst;
            self.show(Direction::Inbound, (0..n).filter_map(|slot| burst.get(slot)));
        }
        Ok(n)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        let before = packets.len();
        loop {
            self.inner.tx(pool, &mut self.shown)?;
            if !self.shown.is_empty() || packets.is_empty() {
                return Ok(before - packets.len());
            }
            self.shown.extend(packets.drain(..packets.len().min(BURST)));
            self.show(Direction::Outbound, self.shown.iter());
        }
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.inner.tx(pool, &mut self.shown)?;
        self.inner.flush(pool)
    }

    fn unsent(&self) -> bool {
        !self.shown.is_empty() || self.inner.unsent()
    }

    fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.inner.advance(now);
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.inner.next_deadline()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}
