//! One queue with faults.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weever_packet::{BURST, Buffer, Burst, PoolCache};

use super::lane::Lane;
use super::{FaultConfig, FaultCounters};
use crate::random::Random;
use crate::{LinkError, LinkQueue, QueueStats};

/// A queue with faults.
pub struct FaultyQueue {
    inner: Box<dyn LinkQueue>,
    rx: Lane,
    tx: Lane,
    /// Whether packets passed the transmit lane since the last flush.
    busy: bool,
    counters: Arc<FaultCounters>,
}

impl FaultyQueue {
    /// Wraps a queue.
    pub fn new(
        inner: Box<dyn LinkQueue>,
        config: FaultConfig,
        counters: Arc<FaultCounters>,
    ) -> FaultyQueue {
        let rx = Lane::new(config.rx, Random::new(config.seed));
        let tx = Lane::new(config.tx, Random::new(!config.seed));
        FaultyQueue { inner, rx, tx, busy: false, counters }
    }

    /// Puts a burst that the wrapped queue received through the lane.
    fn mill(&mut self, pool: &mut PoolCache, burst: &mut Burst, n: usize) {
        for packet in (0..n).filter_map(|slot| burst.take(slot)) {
            self.rx.push(packet, pool, &self.counters.rx_lost, &self.counters.rx_reordered);
        }
        if n == 0 {
            self.rx.release();
        }
    }
}

impl LinkQueue for FaultyQueue {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let max = max.min(BURST);
        if self.rx.ready.len() < max {
            let received = self.inner.rx(pool, burst, max - self.rx.ready.len());
            self.mill(pool, burst, *received.as_ref().unwrap_or(&0));
            if let (Err(error), true) = (received, self.rx.ready.is_empty()) {
                return Err(error);
            }
        }
        let n = self.rx.ready.len().min(max);
        for (slot, packet) in self.rx.ready.drain(..n).enumerate() {
            drop(burst.put(slot, packet));
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
            self.inner.tx(pool, &mut self.tx.ready)?;
            // What the wrapped queue holds back goes first; ours stay where they are meanwhile.
            if !self.tx.ready.is_empty() || packets.is_empty() {
                return Ok(before - packets.len());
            }
            self.busy = true;
            for packet in packets.drain(..packets.len().min(BURST)) {
                self.tx.push(packet, pool, &self.counters.tx_lost, &self.counters.tx_reordered);
            }
        }
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        if !std::mem::take(&mut self.busy) {
            self.tx.release();
        }
        self.inner.tx(pool, &mut self.tx.ready)?;
        self.inner.flush(pool)
    }

    fn unsent(&self) -> bool {
        !self.tx.is_empty() || self.inner.unsent()
    }

    /// The wrapped queue's. Packets kept back do not make it readable: poll until a receive brings
    /// nothing before waiting.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}
