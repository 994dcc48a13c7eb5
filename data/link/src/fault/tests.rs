use std::collections::VecDeque;

use proptest::prelude::*;
use weever_packet::{Burst, Nanos, Pool, PoolCache, PoolConfig};

use super::*;
use crate::LinkError;
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

/// Only on the way in: packets on a slow way out have been sent, but have not arrived.
#[test]
fn conforms_behind_a_wide_passage_and_a_short_way() {
    let rate = Rate { bits_per_second: 1_000_000_000, burst: 0, queue: 1 << 20 };
    let rx = Faults { rate, longest: 65_000, delay: 10_000, jitter: 5_000, ..Faults::default() };
    suite(|| wrapped(FaultConfig { rx, ..FaultConfig::default() }));
}

/// A pair whose first end has faults.
struct Faulty {
    near: Box<dyn LinkQueue>,
    far: Box<dyn LinkQueue>,
    cache: PoolCache,
    pool: Pool,
    control: FaultControl,
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
            control: left.control(),
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

/// Sends 500 packets each way in portions of ten, and returns the packets that came through to us
/// and from us.
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
    let stats = faulty.control.stats();
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
        let faults = Faults { loss, reorder, reorder_depth, ..Faults::default() };
        let config = FaultConfig { seed, rx: faults, tx: faults };
        let (inward, outward, stats) = exchange(config);
        prop_assert_eq!(inward.len() as u64 + stats.rx.lost, 500);
        prop_assert_eq!(outward.len() as u64 + stats.tx.lost, 500);
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
    assert_eq!((outward.len(), stats.tx.lost, stats.rx.reordered), (500, 0, 0));
}

#[test]
fn reordered_packets_are_overtaken_by_no_more_than_the_depth() {
    let tx = Faults { reorder: 0.1, reorder_depth: 3, ..Faults::default() };
    let (inward, outward, stats) = exchange(FaultConfig { seed: 1, tx, ..Default::default() });
    assert!(inward.is_sorted());
    assert!(!outward.is_sorted() && stats.tx.reordered > 20);
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

const MS: Nanos = 1_000_000;

impl Faulty {
    fn at(&mut self, now: Nanos) -> &mut Faulty {
        self.near.advance(now);
        self
    }

    fn heard(&mut self) -> Vec<u32> {
        receive(&mut *self.near, &mut self.cache)
    }

    /// Offers packets of 18 bytes by the faulty end, and flushes once.
    fn offer(&mut self, numbers: std::ops::Range<u32>) {
        send(&mut *self.near, &mut self.cache, numbers);
    }

    fn far_heard(&mut self) -> Vec<u32> {
        self.near.flush(&mut self.cache).unwrap();
        receive(&mut *self.far, &mut self.cache)
    }
}

fn delayed(delay: Nanos, jitter: Nanos) -> FaultConfig {
    FaultConfig::both(3, Faults { delay, jitter, ..Faults::default() })
}

#[test]
fn a_delay_holds_for_both_directions_and_is_announced() {
    let mut faulty = Faulty::new(delayed(10 * MS, 0));
    send(&mut *faulty.far, &mut faulty.cache, 0..3);
    faulty.at(MS).offer(0..3);
    assert_eq!((faulty.heard(), faulty.far_heard()), (vec![], vec![]));
    assert_eq!(faulty.near.next_deadline(), Some(11 * MS));
    assert!(!faulty.near.unsent(), "they wait for their time, not for a flush");
    faulty.at(11 * MS - 1);
    assert_eq!((faulty.heard(), faulty.far_heard()), (vec![], vec![]));
    faulty.at(11 * MS);
    assert_eq!((faulty.heard(), faulty.far_heard()), (vec![0, 1, 2], vec![0, 1, 2]));
    assert_eq!(faulty.near.next_deadline(), None);
}

#[test]
fn jitter_spreads_without_reordering() {
    let mut faulty = Faulty::new(delayed(10 * MS, 5 * MS));
    let (mut seen, mut delays) = (Vec::new(), std::collections::BTreeSet::new());
    for tenth in 0..1300 {
        faulty.at(tenth * MS / 10);
        if tenth % 20 == 0 && tenth < 1000 {
            let number = tenth as u32 / 20;
            faulty.offer(number..number + 1);
        }
        for number in faulty.far_heard() {
            delays.insert(tenth - u64::from(number) * 20);
            seen.push(number);
        }
    }
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    assert!(delays.iter().all(|tenths| (100..=150).contains(tenths)), "{delays:?}");
    assert!(delays.len() > 10, "{delays:?}");
}

#[test]
fn a_rate_lets_through_what_it_says_and_drops_what_finds_its_queue_full() {
    // 18 bytes in a millisecond; the queue holds five packets.
    let rate = Rate { bits_per_second: 18 * 8 * 1000, burst: 0, queue: 90 };
    let tx = Faults { rate, ..Faults::default() };
    let mut faulty = Faulty::new(FaultConfig { tx, ..FaultConfig::default() });
    faulty.at(0).offer(0..20);
    let mut seen = Vec::new();
    for ms in 1..=30 {
        let came = faulty.at(ms * MS).far_heard();
        assert!(came.len() <= 1, "{} in a millisecond", came.len());
        seen.extend(came);
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
    assert_eq!(faulty.control.stats().tx.overflowed, 15);
}

#[test]
fn corruption_flips_one_bit() {
    let rx = Faults { corrupt: 1.0, ..Faults::default() };
    let mut faulty = Faulty::new(FaultConfig { rx, ..FaultConfig::default() });
    let sent = [0x5a; 60];
    let mut packet = faulty.cache.alloc().unwrap();
    packet.append(&sent);
    faulty.far.tx(&mut faulty.cache, &mut VecDeque::from([packet])).unwrap();
    let mut burst = Burst::new();
    assert_eq!(faulty.near.rx(&mut faulty.cache, &mut burst, 64).unwrap(), 1);
    let came = burst.take(0).unwrap();
    let differing = sent.iter().zip(came.data()).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    assert_eq!((came.len(), differing, faulty.control.stats().rx.corrupted), (60, 1, 1));
}

#[test]
fn a_duplicate_follows_its_original() {
    let faults = Faults { duplicate: 1.0, ..Faults::default() };
    let (inward, outward, stats) = exchange(FaultConfig::both(1, faults));
    let twice: Vec<u32> = (0..500).flat_map(|n| [n, n]).collect();
    assert_eq!((inward, outward), (twice.clone(), twice));
    assert_eq!((stats.rx.duplicated, stats.tx.duplicated), (500, 500));
}

#[test]
fn without_a_free_frame_nothing_is_duplicated() {
    let rx = Faults { duplicate: 1.0, ..Faults::default() };
    let mut faulty = Faulty::new(FaultConfig { rx, ..FaultConfig::default() });
    send(&mut *faulty.far, &mut faulty.cache, 0..5);
    let hoard: Vec<_> = std::iter::from_fn(|| faulty.cache.alloc()).collect();
    assert_eq!(faulty.heard(), [0, 1, 2, 3, 4]);
    assert_eq!((faulty.control.stats().rx.duplicated, hoard.is_empty()), (0, false));
}

#[test]
fn longer_frames_vanish() {
    let tx = Faults { longest: 17, ..Faults::default() };
    let (inward, outward, stats) = exchange(FaultConfig { tx, ..FaultConfig::default() });
    assert_eq!((inward.len(), outward.len(), stats.tx.too_long), (500, 0, 500));
    let tx = Faults { longest: 18, ..Faults::default() };
    assert_eq!(exchange(FaultConfig { tx, ..FaultConfig::default() }).1.len(), 500);
}

#[test]
fn a_pulled_plug_loses_what_is_on_the_way_and_what_comes_until_it_is_back() {
    let mut faulty = Faulty::new(delayed(MS, 0));
    faulty.at(0).offer(0..2);
    send(&mut *faulty.far, &mut faulty.cache, 0..2);
    faulty.control.set_down(true);
    assert_eq!((faulty.heard(), faulty.at(2 * MS).far_heard()), (vec![], vec![]));
    faulty.at(3 * MS).offer(2..4);
    let stats = faulty.control.stats();
    assert_eq!((stats.rx.while_down, stats.tx.while_down), (2, 4));
    assert_eq!(stats.tx.vanished(), 4);
    faulty.control.set_down(false);
    faulty.at(4 * MS).offer(4..6);
    assert_eq!(faulty.at(5 * MS).far_heard(), [4, 5]);
}

/// Packets received before the other end went are handed out before the end is reported.
#[test]
fn the_end_is_heard_of_after_everything_was_received() {
    let config = FaultConfig { tx: Faults::default(), ..delayed(10 * MS, 0) };
    let mut faulty = Faulty::new(config);
    send(&mut *faulty.far, &mut faulty.cache, 0..3);
    assert_eq!(faulty.at(0).heard(), []);
    let Faulty { mut near, far, mut cache, control, .. } = faulty;
    drop(far);
    let mut packet =
        || VecDeque::from([cache.alloc().map(|mut p| (p.append(&[0; 60]), p).1).unwrap()]);
    let (mut first, mut second) = (packet(), packet());
    near.advance(11 * MS);
    assert_eq!(near.tx(&mut cache, &mut first).unwrap(), 1);
    near.flush(&mut cache).unwrap();
    assert_eq!(control.stats().tx.undeliverable, 1);
    let mut burst = Burst::new();
    assert_eq!(near.rx(&mut cache, &mut burst, 64).unwrap(), 3);
    (0..3).for_each(|slot| cache.free(burst.take(slot).unwrap()));
    let gone = near.rx(&mut cache, &mut burst, 64).unwrap_err();
    assert!(matches!(gone, LinkError::Gone { .. }));
    let sent = near.tx(&mut cache, &mut second);
    assert!(matches!(sent, Err(LinkError::Gone { .. })), "{sent:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Everything at once: each packet that was sent is received, or counted as vanished, and each
    /// copy counted; every frame comes home.
    #[test]
    fn the_books_balance(
        seed: u64, chances in prop::array::uniform4(0.0..0.5f64), delay in 0..3 * MS, jitter in 0..3 * MS,
        bits_per_second in 0..1_000_000u64, queue in 0..2000u32,
    ) {
        let [loss, duplicate, corrupt, reorder] = chances;
        let rate = Rate { bits_per_second, burst: 100, queue };
        let faults = Faults {
            loss, duplicate, corrupt, reorder, reorder_depth: 5, delay, jitter, rate, longest: 0,
        };
        let mut faulty = Faulty::new(FaultConfig::both(seed, faults));
        let (mut inward, mut outward) = (0, 0);
        for step in 0..40 {
            if step < 20 {
                send(&mut *faulty.far, &mut faulty.cache, 0..10);
                faulty.offer(0..10);
            }
            let now = if step < 20 { step * MS } else { step * 1_000_000 * MS };
            inward += faulty.at(now).heard().len() as u64;
            outward += faulty.far_heard().len() as u64;
        }
        let FaultStats { rx, tx } = faulty.control.stats();
        prop_assert_eq!(inward + rx.vanished(), 200 + rx.duplicated);
        prop_assert_eq!(outward + tx.vanished(), 200 + tx.duplicated);
        prop_assert_eq!(faulty.near.next_deadline(), None);
        let Faulty { near, far, cache, pool, .. } = faulty;
        drop((near, far, cache));
        prop_assert_eq!(pool.available(), pool.frames());
    }
}
