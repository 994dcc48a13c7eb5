//! Closing a queue without losing frames, nor getting back one that the kernel still uses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::thread::{MembarrierCommand, membarrier};
use weever_packet::{Pool, PoolCache};
use weever_ring::RingParts;

use super::frames::Frames;
use super::queue::XskQueue;

/// How long packets on their way out are waited for: as long as a slow receiver may hold them.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);

/// Frames that go home when this is dropped, which has to be after the socket is closed.
pub(super) struct Homecoming {
    pool: Pool,
    pub(super) indices: Vec<u32>,
}

impl Homecoming {
    pub(super) fn new(pool: Pool) -> Homecoming {
        Homecoming { pool, indices: Vec::new() }
    }
}

impl Drop for Homecoming {
    fn drop(&mut self) {
        let mut cache = self.pool.cache();
        for index in self.indices.drain(..) {
            // SAFETY: what `Drop` of the queue proved to be in nobody's hands.
            unsafe { cache.free_raw(index) };
        }
    }
}

impl Drop for XskQueue {
    /// Sends what is still to be sent. Blocks for some milliseconds, and up to a tenth of a second
    /// if the device sends nothing. Other sockets on the device queue go on; the last one takes the
    /// frames home that all of them have lent.
    fn drop(&mut self) {
        let quiet = self.steering.undirect(self.index).is_ok() && grace_period().is_ok();
        let mut cache = self.homecoming.pool.cache();
        self.await_sent(&mut cache, |queue| queue.socket.tx.free() == queue.socket.tx.capacity());
        self.receiver.retire(&self.socket, &mut cache);
        let rings = Arc::clone(&self.socket.frames);
        if !rings.leave() {
            return;
        }
        self.await_sent(&mut cache, |queue| queue.socket.tx_rings().out() == 0);
        // In copy mode only a packet's arrival makes the kernel take frames from the fill ring,
        // which ended with the grace period, and by then it has said how many it took. A device in
        // zero-copy mode may have them in its own rings.
        if quiet && !self.zero_copy {
            let (lent, frames) = (unconsumed(&rings.fill_parts), Frames::of(&self.homecoming.pool));
            self.homecoming.indices = lent.into_iter().map(|at| frames.index(at)).collect();
        }
    }
}

impl XskQueue {
    /// Sends and takes frames back until `all` is so. Those that do not come back are lost to the
    /// pool: the kernel does not say by the transmit ring which packets it has not taken (what looks
    /// untaken may have been completed), and the device may still be reading.
    fn await_sent(&mut self, cache: &mut PoolCache, all: impl Fn(&XskQueue) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let _next_time = self.transmitter.flush(&self.socket, self.zero_copy);
            self.transmitter.reap(self.socket.tx_rings(), cache);
            if self.socket.tx_rings().out() == 0 || all(self) || Instant::now() > end {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Waits until every core has left the receive path that it was in: this command is the kernel's
/// `synchronize_rcu`, and a redirect runs within one RCU read section from the look into the map
/// to the write into the socket's ring.
pub(super) fn grace_period() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::Global)?)
}

/// The addresses that we have produced and the kernel has not consumed. The ring is at rest.
fn unconsumed(parts: &RingParts<u64>) -> Vec<u64> {
    // SAFETY: the parts are those of a mapped ring: the socket lives until its queue's fields are
    // dropped.
    let (producer, consumer) = unsafe { (parts.producer.as_ref(), parts.consumer.as_ref()) };
    let first = consumer.load(Ordering::Acquire);
    let n = producer.load(Ordering::Acquire).wrapping_sub(first).min(parts.len);
    let slots = parts.slots.cast::<u64>();
    let read = |i: u32| {
        let slot = first.wrapping_add(i) & (parts.len - 1);
        // SAFETY: masked to the ring; a slot is a `u64` in memory, written before `producer` passed
        // it, and nobody writes to a ring at rest.
        unsafe { slots.add(slot as usize).read() }
    };
    (0..n).map(read).collect()
}
