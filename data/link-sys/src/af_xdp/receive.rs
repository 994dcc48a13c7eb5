//! Receiving, and lending the device frames to receive into.

use rustix::net::{RecvFlags, recv};
use weever_link::QueueStats;
use weever_packet::{BURST, Burst, Flags, PoolCache};

use super::frames::Frames;
use super::socket::Socket;

/// How many frames are lent at once: the ring's index is shared with the kernel's core, so it is
/// moved seldom.
const BATCH: usize = BURST;

pub(super) struct Receiver {
    frames: Frames,
    queue: u16,
    flags: Flags,
    /// How many frames the device lacks.
    owed: u32,
    batch: u32,
}

impl Receiver {
    pub(super) fn new(frames: Frames, queue: u16, flags: Flags, lend: u32) -> Receiver {
        Receiver { frames, queue, flags, owed: lend, batch: lend.min(BATCH as u32).max(1) }
    }

    /// Moves up to `max` received packets into the burst. `pool` is a cache of the socket's pool.
    #[inline]
    pub(super) fn receive(
        &mut self,
        socket: &Socket,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
        stats: &mut QueueStats,
    ) -> usize {
        let Some(claim) = socket.rx.claim(max.min(BURST) as u32) else { return 0 };
        // The bookkeeping of a large pool is not in the nearest caches: fetch all of it at once.
        claim.iter().for_each(|descriptor| pool.expect(self.frames.index(descriptor.addr)));
        for (slot, descriptor) in claim.iter().enumerate() {
            let head = self.frames.offset(descriptor.addr);
            // SAFETY: the frame was lent from this pool, and the kernel hands each of them back
            // once, when it has done with it.
            let mut packet = unsafe { pool.adopt(self.frames.index(descriptor.addr)) };
            packet.received(head, descriptor.len as u16);
            packet.prefetch();
            let meta = packet.meta_mut();
            meta.l2 = head;
            meta.queue = self.queue;
            meta.flags = self.flags;
            stats.rx_bytes += u64::from(descriptor.len);
            drop(burst.put(slot, packet));
        }
        let n = claim.len();
        self.owed += n;
        stats.rx_packets += u64::from(n);
        n as usize
    }

    /// Lends the device what it lacks, in whole batches, as far as the pool goes.
    #[inline]
    pub(super) fn refill(&mut self, socket: &Socket, pool: &mut PoolCache) {
        if self.owed >= self.batch {
            self.lend(socket, pool);
        }
    }

    fn lend(&mut self, socket: &Socket, pool: &mut PoolCache) {
        let mut addresses = [0; BATCH];
        while self.owed >= self.batch {
            let want = (self.owed as usize).min(BATCH);
            let mut n = 0;
            while n < want
                && let Some(index) = pool.alloc_raw()
            {
                addresses[n] = self.frames.address(index, 0);
                n += 1;
            }
            // The device never has more than the ring's slots, so there is room for all.
            let lent = socket.fill.push_all(&addresses[..n]);
            debug_assert!(lent || n == 0, "the fill ring has room for what it lacks");
            self.owed -= n as u32;
            if n < want {
                break;
            }
        }
        if socket.fill.needs_wakeup() {
            // Only zero-copy drivers ask; one that is gone is noticed elsewhere.
            let _next_time = recv(socket, &mut [0; 0], RecvFlags::DONTWAIT);
        }
    }
}
