//! Receiving, and lending the device frames to receive into.

use libc::xdp_desc;
use rustix::net::{RecvFlags, recv};
use weever_link::QueueStats;
use weever_packet::{BURST, Burst, Flags, PoolCache};
use weever_ring::{MultiConsumer, MultiProducer};

use super::frames::Frames;
use super::socket::Socket;

/// How many frames are lent at once: the ring's index is shared with the kernel's core, so it is
/// moved seldom.
const BATCH: usize = BURST;

pub(super) struct Receiver {
    frames: Frames,
    queue: u16,
    flags: Flags,
    /// How many frames the device has when it lacks none.
    lent: u32,
    /// How many frames the device lacks.
    owed: u32,
    batch: u32,
}

impl Receiver {
    pub(super) fn new(frames: Frames, queue: u16, flags: Flags, lend: u32) -> Receiver {
        // A batch as large as the loan would leave the device with nothing before it gets more.
        let batch = (lend / 4).clamp(1, BATCH as u32);
        Receiver { frames, queue, flags, lent: lend, owed: lend, batch }
    }

    /// Moves up to `max` received packets into the burst. `pool` is a cache of the socket's pool.
    #[inline]
    pub(super) fn receive(
        &mut self,
        rx: &MultiConsumer<xdp_desc>,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
        stats: &mut QueueStats,
    ) -> usize {
        let Some(claim) = rx.claim(max.min(BURST) as u32) else { return 0 };
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

    /// Lends the device what it lacks, in whole batches, as far as the pool goes; `received`: whether the
    /// queue has just received something.
    #[inline]
    pub(super) fn refill(&mut self, socket: &Socket, pool: &mut PoolCache, received: bool) {
        let lent = self.owed >= self.batch && self.lend(&socket.frames.fill, pool);
        // A zero-copy driver that found the ring empty sleeps until it is woken, also if another socket
        // of the device queue has filled the ring: so every poll in vain looks at the flag.
        let fill = &socket.frames.fill;
        if (lent || !received) && fill.needs_wakeup() && fill.free() < fill.capacity() {
            // A device that is gone is noticed elsewhere.
            let _next_time = recv(socket, &mut [0; 0], RecvFlags::DONTWAIT);
        }
    }

    /// Whether the device has no frame left to receive into, since the pool had none to lend.
    #[inline]
    pub(super) fn is_starved(&self) -> bool {
        self.owed >= self.lent
    }

    /// Throws away what lies in the RX ring, and lends the device the frames of others in its place,
    /// if there are other queues that receive by the same fill ring.
    pub(super) fn retire(&mut self, socket: &Socket, pool: &mut PoolCache) {
        let frames = self.frames;
        loop {
            let n = socket.rx.drain(u32::MAX, |descriptor| {
                // SAFETY: as in `receive`.
                unsafe { pool.free_raw(frames.index(descriptor.addr)) };
            });
            if n == 0 {
                break;
            }
            self.owed += n as u32;
        }
        self.batch = 1;
        self.lend(&socket.frames.fill, pool);
    }

    /// Says whether it lent anything.
    fn lend(&mut self, fill: &MultiProducer<u64>, pool: &mut PoolCache) -> bool {
        let mut any = false;
        while self.owed >= self.batch {
            // The kernel says that it has taken frames only after it has given us their packets,
            // so that the ring may seem to lack room for what is owed.
            let want = self.owed.min(BATCH as u32).min(fill.free());
            let n = self.lend_batch(want as usize, fill, pool);
            self.owed -= n;
            any |= n > 0;
            if n == 0 || n < want {
                break;
            }
        }
        any
    }

    /// Lends up to `want` frames, at most [`BATCH`], and says how many.
    fn lend_batch(&self, want: usize, fill: &MultiProducer<u64>, pool: &mut PoolCache) -> u32 {
        let mut addresses = [0; BATCH];
        let mut n = 0;
        while n < want
            && let Some(index) = pool.alloc_raw()
        {
            addresses[n] = self.frames.address(index, 0);
            n += 1;
        }
        let addresses = &addresses[..n];
        if n == 0 || fill.push_all(addresses) {
            return n as u32;
        }
        for address in addresses {
            // SAFETY: taken from the pool above, and not lent after all.
            unsafe { pool.free_raw(self.frames.index(*address)) };
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use weever_packet::{Pool, PoolConfig};
    use weever_ring::simulated::SimulatedKernel;

    use super::*;

    const LENT: u32 = 64;

    struct Bench {
        receiver: Receiver,
        fill: MultiProducer<u64>,
        kernel: SimulatedKernel<u64>,
        cache: PoolCache,
        pool: Pool,
    }

    fn bench() -> Bench {
        let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
        let kernel = SimulatedKernel::new(LENT, u32::MAX - 5, 0).unwrap();
        // SAFETY: the ring's memory is kept beside it, and declared behind it.
        let fill = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
        let receiver = Receiver::new(Frames::of(&pool), 0, Flags::NONE, LENT);
        Bench { receiver, fill, kernel, cache: pool.cache(), pool }
    }

    impl Bench {
        /// All frames that are in the pool.
        fn home(&mut self) -> usize {
            self.cache = self.pool.cache();
            self.pool.available()
        }
    }

    #[test]
    fn more_is_lent_before_the_device_has_nothing_left() {
        for (lend, batch) in [(1, 1), (3, 1), (64, 16), (256, 64), (1024, 64)] {
            let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
            let receiver = Receiver::new(Frames::of(&pool), 0, Flags::NONE, lend);
            assert_eq!(receiver.batch, batch, "of {lend}");
        }
    }

    #[test]
    fn a_kernel_that_is_late_to_release_the_fill_ring_costs_no_frame() {
        let mut bench = bench();
        assert!(bench.receiver.lend(&bench.fill, &mut bench.cache));
        assert_eq!((bench.receiver.owed, bench.home()), (0, 192));
        // All packets have come, but the ring still says that the frames are there.
        bench.receiver.owed = LENT;
        assert!(!bench.receiver.lend(&bench.fill, &mut bench.cache));
        assert_eq!((bench.receiver.owed, bench.home()), (LENT, 192));
        // SAFETY: the only thread.
        assert_eq!(unsafe { bench.kernel.take(24) }.len(), 24);
        assert!(bench.receiver.lend(&bench.fill, &mut bench.cache));
        assert_eq!((bench.receiver.owed, bench.home()), (LENT - 24, 168));
        // SAFETY: as above.
        assert_eq!(unsafe { bench.kernel.take(LENT) }.len(), LENT as usize);
        assert!(bench.receiver.lend(&bench.fill, &mut bench.cache));
        assert_eq!((bench.receiver.owed, bench.home()), (0, 128));
    }

    #[test]
    fn what_does_not_fit_goes_home() {
        let mut bench = bench();
        assert!(bench.receiver.lend(&bench.fill, &mut bench.cache));
        assert_eq!(bench.receiver.lend_batch(7, &bench.fill, &mut bench.cache), 0);
        assert_eq!(bench.home(), 192);
    }

    #[test]
    fn a_device_without_frames_is_starved_until_the_pool_has_some() {
        let mut bench = bench();
        let hoard: Vec<_> = std::iter::from_fn(|| bench.cache.alloc()).collect();
        assert!(!bench.receiver.lend(&bench.fill, &mut bench.cache));
        assert!(bench.receiver.is_starved());
        drop(hoard);
        assert!(bench.receiver.lend(&bench.fill, &mut bench.cache));
        assert!(!bench.receiver.is_starved());
    }

    #[test]
    fn an_empty_pool_lends_what_it_has() {
        let mut bench = bench();
        let mut hoard: Vec<_> = std::iter::from_fn(|| bench.cache.alloc()).collect();
        hoard.truncate(hoard.len() - 10);
        assert_eq!(bench.home(), 10);
        assert!(bench.receiver.lend(&bench.fill, &mut bench.cache));
        assert_eq!(bench.receiver.owed, LENT - 10);
        assert!(!bench.receiver.lend(&bench.fill, &mut bench.cache));
        drop(hoard);
    }
}
