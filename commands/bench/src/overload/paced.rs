//! A device in memory with a rate of arrivals and of departures, on a clock of the benchmark's own: its figures
//! depend on the worker's rules, not on the machine.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weever_link::{LinkError, LinkQueue, QueueStats};
use weever_packet::{Buffer, Burst, PoolCache};

use crate::BenchError;
use crate::forward::queue;

/// A worker's turn, in nanoseconds.
pub(super) const TURN: u64 = 10_000;
/// The unit of departures: so many parts are a packet.
pub(super) const PARTS: usize = 100;
/// The departure rate that takes all packets of a turn.
pub(super) const ALL: usize = 64 * PARTS;
/// Packets that the device keeps until they are received; further ones are lost there.
pub(super) const RING: usize = 1024;

/// A queue of the device.
pub(super) struct Paced {
    inner: Box<dyn LinkQueue>,
    /// Packets that arrive in a turn.
    arrive: usize,
    /// Packets that can leave in a turn, in parts.
    leave: usize,
    waiting: usize,
    credit: usize,
    /// The number of sent packets that `counts` accepts.
    sent: Arc<AtomicU64>,
    counts: fn(&Buffer) -> bool,
}

impl Paced {
    /// A queue at which these frames arrive over and over, so many in each turn, and from which `leave` parts of a
    /// packet can leave in a turn. Packets that leave and that `counts` accepts are added to `sent`.
    pub(super) fn queue(
        frames: Vec<Vec<u8>>,
        (arrive, leave): (usize, usize),
        sent: &Arc<AtomicU64>,
        counts: fn(&Buffer) -> bool,
    ) -> Result<Box<dyn LinkQueue>, BenchError> {
        let (inner, sent) = (queue(frames)?, Arc::clone(sent));
        Ok(Box::new(Paced { inner, arrive, leave, waiting: 0, credit: 0, sent, counts }))
    }
}

impl LinkQueue for Paced {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let n = self.inner.rx(pool, burst, max.min(self.waiting))?;
        self.waiting -= n;
        Ok(n)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        let n = packets.len().min(self.credit / PARTS);
        self.credit -= n * PARTS;
        let mut taken: VecDeque<Buffer> = packets.drain(..n).collect();
        let counted = taken.iter().filter(|packet| (self.counts)(packet)).count();
        self.sent.fetch_add(counted as u64, Relaxed);
        self.inner.tx(pool, &mut taken)
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.inner.flush(pool)
    }

    fn unsent(&self) -> bool {
        self.inner.unsent()
    }

    fn advance(&mut self, now: u64) {
        self.waiting = (self.waiting + self.arrive).min(RING);
        // Unused credit of a turn is lost, except for part of a packet.
        self.credit = (self.credit + self.leave).min(self.leave.max(PARTS) + PARTS);
        self.inner.advance(now);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}
