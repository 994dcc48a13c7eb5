//! Receiving, and lending the device frames to receive into.

use std::ops::Range;

use libc::xdp_desc;
use rustix::net::{RecvFlags, recv};
use weever_link::QueueStats;
use weever_packet::{BURST, Borrower, Burst, Flags, Stock};
use weever_ring::{MultiConsumer, MultiProducer};

use super::rings::Frames;
use super::socket::Socket;

/// How many frames are lent at once: the ring's index is shared with the kernel's core, so it is
/// moved seldom.
const BATCH: usize = BURST;

pub(super) struct Receiver {
    frames: Frames,
    /// The device queue, which all frames are lent to.
    device: Borrower,
    queue: u16,
    flags: Flags,
    /// How many frames the device has when it lacks none.
    lent: i32,
    /// How many frames the device lacks; below zero, how many it has too many.
    owed: i32,
    batch: i32,
    /// Descriptors that were copied out of a ring.
    taken: Box<[xdp_desc; BURST]>,
}

impl Receiver {
    pub(super) fn new(
        frames: Frames,
        device: Borrower,
        queue: u16,
        flags: Flags,
        lend: u32,
    ) -> Receiver {
        let lent = lend as i32;
        let taken = Box::new([xdp_desc { addr: 0, len: 0, options: 0 }; BURST]);
        Receiver { frames, device, queue, flags, lent, owed: lent, batch: batch(lend), taken }
    }

    /// From now on the device gets no more than `lend` frames. It keeps frames beyond that until
    /// packets arrive in them.
    pub(super) fn limit(&mut self, lend: u32) {
        let has = self.lent - self.owed;
        self.lent = lend as i32;
        (self.owed, self.batch) = (self.lent - has, batch(lend));
    }

    /// Moves up to `max` received packets into the burst. `stock` is of the socket's pool. Returns how many, and their
    /// positions in the ring.
    #[inline]
    pub(super) fn receive(
        &mut self,
        rx: &MultiConsumer<xdp_desc>,
        stock: &mut Stock,
        burst: &mut Burst,
        max: usize,
        stats: &mut QueueStats,
    ) -> (usize, Range<u64>) {
        // Copied out and released before a frame is touched: while a claim is held, the kernel gets back no
        // slot behind it, although other workers may have emptied it.
        let positions = rx.pop_positions(&mut self.taken[..max.min(BURST)]);
        let taken = &self.taken[..(positions.end - positions.start) as usize];
        // The bookkeeping of a large pool is not in the nearest caches: fetch all of it at once.
        taken.iter().for_each(|descriptor| stock.expect(self.frames.index(descriptor.addr)));
        let mut n = 0;
        for descriptor in taken {
            let (index, head) =
                (self.frames.index(descriptor.addr), self.frames.offset(descriptor.addr));
            // SAFETY: the kernel hands a frame back when it has done with it. Where several workers take
            // packets of one device queue, the borrower says so.
            let Some(mut packet) = (unsafe { stock.take_back(index, None, &self.device) }) else {
                continue;
            };
            packet.received(head, descriptor.len as u16);
            packet.prefetch();
            let meta = packet.meta_mut();
            meta.l2 = head;
            meta.queue = self.queue;
            meta.flags = self.flags;
            stats.rx_bytes += u64::from(descriptor.len);
            drop(burst.put(n, packet));
            n += 1;
        }
        self.owed += n as i32;
        stats.rx_packets += n as u64;
        (n, positions)
    }

    /// Lends the device the frames it lacks, in whole batches, as far as the pool goes; `received`:
    /// whether the queue has just received something.
    #[inline]
    pub(super) fn refill(&mut self, socket: &Socket, stock: &mut Stock, received: bool) {
        if self.refill_ring(&socket.frames.fill, stock, received) {
            // A device that is gone is noticed elsewhere.
            let _next_time = recv(socket, &mut [0; 0], RecvFlags::DONTWAIT);
        }
    }

    /// The same for the ring alone; whether the driver has to be woken.
    #[inline]
    fn refill_ring(
        &mut self,
        fill: &MultiProducer<u64>,
        stock: &mut Stock,
        received: bool,
    ) -> bool {
        let lent = self.owed >= self.batch && self.lend(fill, stock, u32::MAX);
        // A zero-copy driver that found the ring empty sleeps until it is woken, also if another socket
        // of the device queue has filled the ring: so every poll in vain looks at the flag.
        (lent || !received) && fill.needs_wakeup() && fill.free() < fill.capacity()
    }

    /// Whether the device has no frame left to receive into, since the pool had none to lend.
    #[inline]
    pub(super) fn is_starved(&self) -> bool {
        self.owed >= self.lent
    }

    /// Discards the packets in the RX ring, and lends the device the frames of others in its place,
    /// if there are other queues that receive by the same fill ring.
    pub(super) fn retire(&mut self, socket: &Socket, stock: &mut Stock) {
        let (frames, device) = (self.frames, &self.device);
        loop {
            let n = socket.rx.ring.drain(u32::MAX, |descriptor| {
                // SAFETY: as in `receive`.
                unsafe { stock.free_back(frames.index(descriptor.addr), device) };
            });
            if n == 0 {
                break;
            }
            self.owed += n as i32;
        }
        self.batch = 1;
        self.lend(&socket.frames.fill, stock, u32::MAX);
    }

    /// Lends at most so many frames, before the socket is bound.
    pub(super) fn lend_first(&mut self, socket: &Socket, stock: &mut Stock, most: u32) {
        self.lend(&socket.frames.fill, stock, most);
    }

    /// Says whether it lent anything.
    fn lend(&mut self, fill: &MultiProducer<u64>, stock: &mut Stock, most: u32) -> bool {
        let (mut any, mut most) = (false, most);
        while self.owed >= self.batch && most > 0 {
            // The kernel says that it has taken frames only after it has given us their packets, so
            // that the ring may seem to lack room for the frames owed.
            let want = (self.owed as u32).min(most).min(BATCH as u32).min(fill.free());
            let n = self.lend_batch(want as usize, fill, stock);
            (self.owed, most) = (self.owed - n as i32, most - n);
            any |= n > 0;
            if n == 0 || n < want {
                break;
            }
        }
        any
    }

    /// Lends up to `want` frames, at most [`BATCH`], and says how many.
    fn lend_batch(&self, want: usize, fill: &MultiProducer<u64>, stock: &mut Stock) -> u32 {
        let mut addresses = [0; BATCH];
        let mut n = 0;
        while n < want
            && let Some(index) = stock.lend(&self.device)
        {
            addresses[n] = self.frames.address(index, 0);
            n += 1;
        }
        let addresses = &addresses[..n];
        if n == 0 || fill.push_all(addresses) {
            return n as u32;
        }
        for address in addresses {
            // SAFETY: the device was not told of them.
            unsafe { stock.free_back(self.frames.index(*address), &self.device) };
        }
        0
    }
}

/// A batch as large as the loan would leave the device with nothing before it gets more.
fn batch(lend: u32) -> i32 {
    (lend / 4).clamp(1, BATCH as u32) as i32
}

#[cfg(test)]
mod tests {
    use weever_packet::{Pool, PoolConfig, Takers};
    use weever_ring::simulated::SimulatedKernel;

    use super::*;

    const LENT: u32 = 64;

    struct Bench {
        receiver: Receiver,
        fill: MultiProducer<u64>,
        kernel: SimulatedKernel<u64>,
        stock: Stock,
        pool: Pool,
    }

    fn bench() -> Bench {
        let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
        let kernel = SimulatedKernel::new(LENT, u32::MAX - 5, 0).unwrap();
        // SAFETY: the ring's memory is kept beside it, and declared behind it.
        let fill = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
        let device = pool.borrower("eth7, queue 0", Takers::One).unwrap();
        let receiver = Receiver::new(Frames::of(&pool), device, 0, Flags::NONE, LENT);
        Bench { receiver, fill, kernel, stock: pool.stock(), pool }
    }

    impl Bench {
        /// All frames that are in the pool.
        fn home(&mut self) -> usize {
            self.stock = self.pool.stock();
            self.pool.available()
        }
    }

    #[test]
    fn more_is_lent_before_the_device_has_nothing_left() {
        for (lend, batch) in [(1, 1), (3, 1), (64, 16), (256, 64), (1024, 64)] {
            assert_eq!(super::batch(lend), batch, "of {lend}");
        }
    }

    #[test]
    fn a_kernel_that_is_late_to_release_the_fill_ring_costs_no_frame() {
        let mut bench = bench();
        assert!(bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        assert_eq!((bench.receiver.owed, bench.home()), (0, 192));
        // All packets have come, but the ring still says that the frames are there.
        bench.receiver.owed = LENT as i32;
        assert!(!bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        assert_eq!((bench.receiver.owed, bench.home()), (LENT as i32, 192));
        // SAFETY: the only thread.
        assert_eq!(unsafe { bench.kernel.take(24) }.len(), 24);
        assert!(bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        assert_eq!((bench.receiver.owed, bench.home()), (LENT as i32 - 24, 168));
        // SAFETY: as above.
        assert_eq!(unsafe { bench.kernel.take(LENT) }.len(), LENT as usize);
        assert!(bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        assert_eq!((bench.receiver.owed, bench.home()), (0, 128));
    }

    #[test]
    fn a_lower_limit_takes_nothing_away_and_a_higher_one_is_filled_up() {
        let mut bench = bench();
        assert!(bench.receiver.lend(&bench.fill, &mut bench.stock, 40));
        assert_eq!((bench.receiver.owed, bench.home()), (LENT as i32 - 40, 256 - 40));
        bench.receiver.limit(16);
        assert_eq!(bench.receiver.owed, 16 - 40, "too many are there");
        assert!(!bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        bench.receiver.limit(LENT);
        assert!(bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        assert_eq!(bench.home(), 256 - LENT as usize);
    }

    #[test]
    fn what_does_not_fit_goes_home() {
        let mut bench = bench();
        assert!(bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        assert_eq!(bench.receiver.lend_batch(7, &bench.fill, &mut bench.stock), 0);
        assert_eq!(bench.home(), 192);
    }

    /// Another socket of the device queue may have filled the ring that the driver found empty.
    #[test]
    fn a_driver_that_sleeps_is_woken_by_every_poll_in_vain_as_long_as_it_has_frames_to_take() {
        let mut bench = bench();
        let wakes = |bench: &mut Bench, received| {
            bench.receiver.refill_ring(&bench.fill, &mut bench.stock, received)
        };
        bench.kernel.set_needs_wakeup(true);
        assert!(wakes(&mut bench, true), "it has just been lent frames");
        assert!(!wakes(&mut bench, true), "it receives");
        assert!(wakes(&mut bench, false) && wakes(&mut bench, false));
        bench.kernel.set_needs_wakeup(false);
        assert!(!wakes(&mut bench, false), "it is awake");
        bench.kernel.set_needs_wakeup(true);
        // SAFETY: the only thread.
        assert_eq!(unsafe { bench.kernel.take(LENT) }.len(), LENT as usize);
        assert!(!wakes(&mut bench, false), "it has them all");
    }

    #[test]
    fn a_device_without_frames_is_starved_until_the_pool_has_some() {
        let mut bench = bench();
        let hoard: Vec<_> = std::iter::from_fn(|| bench.stock.alloc()).collect();
        assert!(!bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        assert!(bench.receiver.is_starved());
        drop(hoard);
        assert!(bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        assert!(!bench.receiver.is_starved());
    }

    #[test]
    fn an_empty_pool_lends_what_it_has() {
        let mut bench = bench();
        let mut hoard: Vec<_> = std::iter::from_fn(|| bench.stock.alloc()).collect();
        hoard.truncate(hoard.len() - 10);
        assert_eq!(bench.home(), 10);
        assert!(bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        assert_eq!(bench.receiver.owed, LENT as i32 - 10);
        assert!(!bench.receiver.lend(&bench.fill, &mut bench.stock, u32::MAX));
        drop(hoard);
    }
}
