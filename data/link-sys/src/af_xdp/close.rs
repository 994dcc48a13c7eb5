//! Closing a queue without losing frames, nor getting back one that the kernel still uses.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};
use weever_packet::{Borrower, Pool};
use weever_ring::RingParts;

/// How long packets on their way out are waited for: as long as a slow receiver may hold them.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Frames that go home when this is dropped, which has to be after the socket is closed.
pub(super) struct FrameReturn {
    pool: Pool,
    device: Borrower,
    pub(super) indices: Vec<u32>,
}

impl FrameReturn {
    pub(super) fn new(pool: Pool, device: Borrower) -> FrameReturn {
        FrameReturn { pool, device, indices: Vec::new() }
    }
}

impl Drop for FrameReturn {
    fn drop(&mut self) {
        let mut stock = self.pool.stock();
        for index in self.indices.drain(..) {
            // SAFETY: `Drop` of the queue proved that neither side uses these frames any more.
            unsafe { stock.free_back(index, &self.device) };
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
pub(super) fn unconsumed(parts: &RingParts<u64>) -> Vec<u64> {
    // SAFETY: the parts are those of a mapped ring: the socket lives until its queue's fields are
    // dropped.
    let (producer, consumer) = unsafe { (parts.producer.as_ref(), parts.consumer.as_ref()) };
    let first = consumer.load(Ordering::Acquire);
    let n = producer.load(Ordering::Acquire).wrapping_sub(first).min(parts.len);
    let slots = parts.slots.cast::<u64>();
    let read = |i: u32| {
        let slot = first.wrapping_add(i) & (parts.len - 1);
        // SAFETY: masked to the ring; a slot is a `u64` in memory, written before `producer` passed
        // it, and neither side writes to a ring at rest.
        unsafe { slots.add(slot as usize).read() }
    };
    (0..n).map(read).collect()
}
