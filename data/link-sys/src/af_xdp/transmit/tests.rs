use weever_packet::{Pool, PoolConfig, Takers};
use weever_ring::simulated::SimulatedKernel;
use weever_ring::{MultiConsumer, MultiProducer};

use super::*;

const RING: u32 = 64;

/// A transmitter and a kernel that completes sent packets, but updates its position in the transmit
/// ring only sometimes.
struct Bench {
    transmitter: Transmitter,
    tx: MultiProducer<xdp_desc>,
    completion: MultiConsumer<u64>,
    tx_kernel: SimulatedKernel<xdp_desc>,
    completion_kernel: SimulatedKernel<u64>,
    cache: PoolCache,
    pool: Pool,
    packets: VecDeque<Buffer>,
    stats: QueueStats,
}

impl Bench {
    fn new() -> Bench {
        let pool = Pool::new(PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
        let tx_kernel = SimulatedKernel::new(RING, u32::MAX - 7, NOTHING).unwrap();
        let completion_kernel = SimulatedKernel::new(RING, 11, 0).unwrap();
        // SAFETY: the ring's memory is kept beside it, and declared behind it.
        let tx = unsafe { MultiProducer::new(tx_kernel.parts()) }.unwrap();
        // SAFETY: as above.
        let completion = unsafe { MultiConsumer::new(completion_kernel.parts()) }.unwrap();
        let device = pool.borrower("eth7, queue 0", Takers::One).unwrap();
        Bench {
            transmitter: Transmitter::new(Frames::of(&pool), device, 1500, RING, 0),
            tx,
            completion,
            tx_kernel,
            completion_kernel,
            cache: pool.cache(),
            pool,
            packets: VecDeque::new(),
            stats: QueueStats::default(),
        }
    }

    fn queue(&mut self, n: u8) {
        for number in 0..n {
            let mut packet = self.cache.alloc().unwrap();
            assert!(packet.append(&[number; 60]));
            self.packets.push_back(packet);
        }
    }

    fn transmit(&mut self) -> usize {
        let Bench { transmitter, cache, packets, stats, .. } = self;
        let rings = TxRings { tx: &self.tx, completion: &self.completion };
        transmitter.transmit(rings, &self.pool, cache, packets, stats)
    }

    fn reap(&mut self) {
        let rings = TxRings { tx: &self.tx, completion: &self.completion };
        self.transmitter.reap(rings, self.cache.stock_of(&self.pool));
    }

    /// The kernel completes these packets.
    fn complete(&self, sent: &[u64]) {
        // SAFETY: the only thread.
        assert_eq!(unsafe { self.completion_kernel.give(sent) }, sent.len());
    }

    /// The kernel says that it has taken `n` packets from the ring; their frames.
    fn publish(&self, n: u32) -> Vec<u64> {
        // SAFETY: the only thread.
        unsafe { self.tx_kernel.take(n) }.iter().map(|descriptor| descriptor.addr).collect()
    }

    fn addresses(&self) -> Vec<u64> {
        let frames = Frames::of(&self.pool);
        self.packets.iter().map(|packet| frames.address(packet.index(), packet.head())).collect()
    }

    fn home(&mut self) -> usize {
        self.cache = self.pool.cache();
        self.pool.available()
    }
}

#[test]
fn a_kernel_that_is_late_to_say_what_it_took_costs_no_frame() {
    let mut bench = Bench::new();
    bench.queue(100);
    let addresses = bench.addresses();
    assert_eq!(bench.transmit(), 64);
    // Sent and completed, yet the ring still looks full.
    bench.complete(&addresses[..30]);
    bench.reap();
    assert_eq!(bench.transmitter.out(), 34);
    assert_eq!((bench.transmit(), bench.packets.len()), (0, 36));
    assert_eq!(bench.addresses(), addresses[64..], "held back in order");
    assert_eq!(bench.publish(10), addresses[..10]);
    assert_eq!((bench.transmit(), bench.packets.len()), (10, 26));
    assert_eq!(bench.publish(RING), addresses[10..74]);
    bench.complete(&addresses[30..74]);
    assert_eq!((bench.transmit(), bench.packets.len()), (26, 0));
    bench.complete(&addresses[74..]);
    bench.reap();
    assert_eq!((bench.transmitter.out(), bench.home()), (0, 512));
    assert_eq!((bench.stats.tx_packets, bench.stats.tx_bytes), (100, 6000));
}

#[test]
fn no_more_is_out_than_can_be_completed() {
    let mut bench = Bench::new();
    bench.queue(100);
    assert_eq!(bench.transmit(), 64);
    let sent = bench.publish(RING);
    assert_eq!(bench.transmit(), 0, "the ring is empty, but nothing has come back");
    bench.complete(&sent[..5]);
    assert_eq!(bench.transmit(), 5);
}

#[test]
fn packets_that_were_gathered_in_vain_are_packets_again() {
    let mut bench = Bench::new();
    bench.queue(5);
    let addresses = bench.addresses();
    let Bench { transmitter, cache, packets, stats, pool, .. } = &mut bench;
    assert_eq!(transmitter.gather(pool, cache, packets, 3, stats), 3);
    transmitter.take_back(cache.stock_of(pool), packets, 3);
    assert_eq!(bench.addresses(), addresses);
    let bytes = bench.packets.iter().map(|packet| packet.data().to_vec()).collect::<Vec<_>>();
    assert_eq!(bytes, (0..5).map(|number| vec![number; 60]).collect::<Vec<_>>());
    bench.packets.clear();
    assert_eq!(bench.home(), 512);
}

#[test]
fn what_cannot_be_sent_is_taken_and_counted_apart() {
    let mut bench = Bench::new();
    bench.queue(2);
    let mut long = bench.cache.alloc().unwrap();
    assert!(long.append(&[0; 1600]));
    bench.packets.push_front(long);
    assert_eq!(bench.transmit(), 3);
    assert_eq!((bench.stats.tx_packets, bench.stats.tx_dropped), (2, 1));
    assert_eq!(bench.stats.tx_bytes, 120);
}

#[test]
fn a_packet_of_another_pool_is_copied_once_and_waits_where_there_is_no_frame() {
    let mut bench = Bench::new();
    let other = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    for number in 0..3u8 {
        let mut stranger = other.cache().alloc().unwrap();
        assert!(stranger.append(&[number; 60]));
        bench.packets.push_back(stranger);
    }
    let hoard: Vec<_> = std::iter::from_fn(|| bench.cache.alloc()).collect();
    assert_eq!((bench.transmit(), bench.packets.len()), (0, 3), "held back");
    drop(hoard);
    assert_eq!((bench.transmit(), bench.packets.len()), (3, 0));
    assert_eq!((bench.stats.tx_packets, bench.stats.tx_copied), (3, 3));
    assert_eq!(other.available(), 64, "the strangers went home");
    let sent = bench.publish(RING);
    bench.complete(&sent);
    bench.reap();
    assert_eq!((bench.transmitter.out(), bench.home()), (0, 512));
}

/// A kernel that completes a packet twice, or a frame that it was never given.
#[test]
fn a_completion_of_what_was_not_sent_frees_nothing() {
    let mut bench = Bench::new();
    bench.queue(3);
    assert_eq!(bench.transmit(), 3);
    let sent = bench.publish(RING);
    bench.complete(&[sent[0], sent[0], u64::MAX]);
    bench.reap();
    assert_eq!(bench.home(), 512 - 2, "two are still with the device");
    assert_eq!(bench.transmitter.device.rejected(), 2);
}

#[test]
fn a_worker_takes_back_no_more_than_it_has_sent() {
    let mut bench = Bench::new();
    bench.queue(5);
    assert_eq!(bench.transmit(), 5);
    let sent = bench.publish(RING);
    bench.complete(&sent);
    // As if another socket of the device queue had sent three of them.
    assert_eq!(bench.transmitter.leave_out(), 5);
    bench.transmitter.take_over(2);
    bench.reap();
    assert_eq!((bench.transmitter.out(), bench.completion.available()), (0, 3));
}
