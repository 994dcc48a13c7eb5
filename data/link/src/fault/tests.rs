use std::collections::VecDeque;

use proptest::prelude::*;
use weever_packet::{Burst, Pool, PoolCache, PoolConfig};

use super::*;
use crate::conformance::{Setup, suite};
use crate::memory::{MemoryConfig, pair};

fn wrapped(config: FaultConfig) -> Setup {
    let setup = crate::memory::tests::setup(&MemoryConfig { ring: 200, ..Default::default() });
    Setup { link: Box::new(FaultyLink::new(setup.link, config)), ..setup }
}

#[test]
fn conforms_without_faults() {
    suite(|| wrapped(FaultConfig::default()));
}

/// A pair whose first end has faults.
struct Faulty {
    near: Box<dyn LinkQueue>,
    far: Box<dyn LinkQueue>,
    cache: PoolCache,
    pool: Pool,
    counters: Arc<FaultCounters>,
}

impl Faulty {
    fn new(config: FaultConfig) -> Faulty {
        let (left, mut right) = pair(&MemoryConfig::default()).unwrap();
        let mut left = FaultyLink::new(Box::new(left), config);
        let pool = Pool::new(PoolConfig { frames: 1024, ..PoolConfig::default() }).unwrap();
        Faulty {
            near: left.take_queues().remove(0),
            far: right.take_queues().remove(0),
            cache: pool.cache(),
            pool,
            counters: left.counters(),
        }
    }
}

fn send(queue: &mut dyn LinkQueue, cache: &mut PoolCache, numbers: std::ops::Range<u32>) {
    let packet = |number: u32| {
        let mut packet = cache.alloc().unwrap();
        packet.append(&[0; 14]);
        packet.append(&number.to_le_bytes());
        packet
    };
    let mut packets: VecDeque<_> = numbers.map(packet).collect();
    queue.tx(cache, &mut packets).unwrap();
    assert!(packets.is_empty());
    while queue.unsent() {
        queue.flush(cache).unwrap();
    }
}

fn receive(queue: &mut dyn LinkQueue, cache: &mut PoolCache) -> Vec<u32> {
    let (mut numbers, mut quiet) = (Vec::new(), 0);
    while quiet < 3 {
        let mut burst = Burst::new();
        let n = queue.rx(cache, &mut burst, 10).unwrap();
        quiet = if n == 0 { quiet + 1 } else { 0 };
        for packet in (0..n).map(|slot| burst.take(slot).expect("no gaps")) {
            numbers.push(u32::from_le_bytes(packet.data()[14..].try_into().unwrap()));
            cache.free(packet);
        }
    }
    numbers
}

/// Sends 500 packets each way in portions of ten, and returns what came through to us and from us.
fn exchange(config: FaultConfig) -> (Vec<u32>, Vec<u32>, FaultStats) {
    let mut faulty = Faulty::new(config);
    let (mut inward, mut outward) = (Vec::new(), Vec::new());
    for portion in 0..50 {
        let numbers = portion * 10..portion * 10 + 10;
        send(&mut *faulty.far, &mut faulty.cache, numbers.clone());
        send(&mut *faulty.near, &mut faulty.cache, numbers);
        inward.extend(receive(&mut *faulty.near, &mut faulty.cache));
        outward.extend(receive(&mut *faulty.far, &mut faulty.cache));
    }
    let stats = faulty.counters.read();
    let Faulty { near, far, cache, pool, .. } = faulty;
    drop((near, far, cache));
    assert_eq!(pool.available(), pool.frames(), "every frame came home");
    (inward, outward, stats)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_not_counted_as_lost_arrives_once(
        seed: u64, loss in 0.0..1.0f64, reorder in 0.0..1.0f64, reorder_depth in 0..20u32,
    ) {
        let faults = Faults { loss, reorder, reorder_depth };
        let config = FaultConfig { seed, rx: faults, tx: faults };
        let (inward, outward, stats) = exchange(config);
        prop_assert_eq!(inward.len() as u64 + stats.rx_lost, 500);
        prop_assert_eq!(outward.len() as u64 + stats.tx_lost, 500);
        for mut numbers in [inward.clone(), outward.clone()] {
            numbers.sort_unstable();
            prop_assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        }
        prop_assert_eq!((inward, outward, stats), exchange(config), "the same on every run");
    }
}

#[test]
fn loss_comes_close_to_its_probability() {
    let rx = Faults { loss: 0.2, ..Faults::default() };
    let (inward, outward, stats) = exchange(FaultConfig { seed: 1, rx, ..Default::default() });
    assert!((350..450).contains(&inward.len()), "{} of 500", inward.len());
    assert!(inward.is_sorted(), "loss alone reorders nothing");
    assert_eq!((outward.len(), stats.tx_lost, stats.rx_reordered), (500, 0, 0));
}

#[test]
fn reordered_packets_are_overtaken_by_no_more_than_the_depth() {
    let tx = Faults { reorder: 0.1, reorder_depth: 3, ..Faults::default() };
    let (inward, outward, stats) = exchange(FaultConfig { seed: 1, tx, ..Default::default() });
    assert!(inward.is_sorted());
    assert!(!outward.is_sorted() && stats.tx_reordered > 20);
    for (place, number) in outward.iter().enumerate() {
        let overtook_it = outward[..place].iter().filter(|other| *other > number).count();
        assert!(overtook_it <= 3 + 1, "{number} was overtaken by {overtook_it}");
    }
}

#[test]
fn it_says_what_it_is() {
    let (left, _right) = pair(&MemoryConfig::default()).unwrap();
    let link = FaultyLink::new(Box::new(left), FaultConfig::default());
    assert_eq!(link.info().mode, "memory, with faults");
}

#[test]
#[should_panic(expected = "receives in order")]
fn a_link_that_reorders_what_comes_in_does_not_conform() {
    let rx = Faults { reorder: 0.2, reorder_depth: 2, ..Faults::default() };
    suite(|| wrapped(FaultConfig { seed: 1, rx, ..FaultConfig::default() }));
}

#[test]
#[should_panic(expected = "sends in order")]
fn a_link_that_reorders_what_goes_out_does_not_conform() {
    let tx = Faults { reorder: 0.2, reorder_depth: 2, ..Faults::default() };
    suite(|| wrapped(FaultConfig { seed: 1, tx, ..FaultConfig::default() }));
}
