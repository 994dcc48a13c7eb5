//! One queue with faults.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use weever_packet::{BURST, Buffer, Burst, Nanos, Pool, PoolCache};

use super::control::{FaultConfig, FaultControl, count};
use super::lane::{Lane, Random};
use crate::{FrameNeed, Frames, LinkError, LinkQueue, QueueStats};

/// A queue with faults.
pub struct FaultyQueue {
    inner: Box<dyn LinkQueue>,
    rx: Lane,
    tx: Lane,
    now: Nanos,
    /// Whether packets passed the transmit lane since the last flush.
    busy: bool,
    control: FaultControl,
}

impl FaultyQueue {
    /// Wraps a queue.
    pub fn new(
        inner: Box<dyn LinkQueue>,
        config: FaultConfig,
        control: FaultControl,
    ) -> FaultyQueue {
        let rx = Lane::new(config.rx, Random::new(config.seed));
        let tx = Lane::new(config.tx, Random::new(!config.seed));
        FaultyQueue { inner, rx, tx, now: 0, busy: false, control }
    }

    /// Puts a burst that the wrapped queue received through the lane.
    fn mill(&mut self, pool: &mut PoolCache, burst: &mut Burst, n: usize) {
        let FaultyQueue { rx, control, now, .. } = self;
        for packet in (0..n).filter_map(|slot| burst.take(slot)) {
            rx.push(packet, *now, pool, control.rx());
        }
        rx.advance(*now, control.rx());
        if n == 0 {
            rx.release();
        }
    }

    /// Gives the wrapped queue the packets that have got through.
    ///
    /// The end of the wrapped queue is reported only after everything that it received: until then
    /// sent packets are lost.
    fn hand_on(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        let handed_on = self.inner.tx(pool, &mut self.tx.ready).map(drop);
        self.unless_still_receiving(pool, handed_on)
    }

    fn unless_still_receiving(
        &mut self,
        pool: &mut PoolCache,
        result: Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        if !matches!(result, Err(LinkError::Gone { .. })) || self.rx.is_empty() {
            return result;
        }
        for packet in self.tx.ready.drain(..) {
            count(&self.control.tx().undeliverable);
            pool.free(packet);
        }
        Ok(())
    }

    /// With the plug pulled everything on the way is lost.
    fn cut_if_down(&mut self, pool: &mut PoolCache) {
        if self.control.is_down() {
            self.rx.cut(pool, self.control.rx());
            self.tx.cut(pool, self.control.tx());
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
            let received = self.inner.rx(pool, burst, max);
            self.mill(pool, burst, *received.as_ref().unwrap_or(&0));
            if let (Err(error), true) = (received, self.rx.is_empty()) {
                return Err(error);
            }
            self.cut_if_down(pool);
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
            self.hand_on(pool)?;
            // Packets that the wrapped queue holds back go first; ours stay where they are
            // meanwhile.
            if !self.tx.ready.is_empty() || packets.is_empty() {
                return Ok(before - packets.len());
            }
            self.busy = true;
            for packet in packets.drain(..packets.len().min(BURST)) {
                self.tx.push(packet, self.now, pool, self.control.tx());
            }
            self.tx.advance(self.now, self.control.tx());
            self.cut_if_down(pool);
        }
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.tx.advance(self.now, self.control.tx());
        if !std::mem::take(&mut self.busy) {
            self.tx.release();
        }
        self.cut_if_down(pool);
        self.hand_on(pool)?;
        let flushed = self.inner.flush(pool);
        self.unless_still_receiving(pool, flushed)
    }

    /// Packets that travel wait for their time, not for a flush.
    fn pool(&self) -> Option<&Pool> {
        self.inner.pool()
    }

    fn frame_need(&self) -> FrameNeed {
        self.inner.frame_need()
    }

    fn limit_frames(&mut self, most: Frames) {
        self.inner.limit_frames(most);
    }

    fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    fn unsent(&self) -> bool {
        self.tx.holds_some_back() || self.inner.unsent()
    }

    fn keeps_order(&self) -> bool {
        self.inner.keeps_order()
    }

    fn has_turn(&self) -> bool {
        self.inner.has_turn()
    }

    fn may_send(&mut self) -> bool {
        self.inner.may_send()
    }

    fn sent(&mut self) {
        self.inner.sent();
    }

    fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.inner.advance(now);
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.inner.prepare_to_sleep()
    }

    fn end_sleep(&mut self) {
        self.inner.end_sleep();
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let lanes = [self.rx.next_deadline(), self.tx.next_deadline(), self.inner.next_deadline()];
        lanes.into_iter().flatten().min()
    }

    /// The wrapped queue's. Packets kept back do not make it readable: poll until a receive brings
    /// nothing before waiting, and wait no longer than until the next deadline.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn stats(&self) -> QueueStats {
        self.inner.stats()
    }
}
