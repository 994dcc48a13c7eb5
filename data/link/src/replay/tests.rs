use super::*;
use weever_packet::{Pool, PoolConfig};

fn frame(tag: u8) -> Vec<u8> {
    vec![tag; 60]
}

fn setup(frames: Vec<Vec<u8>>, stamp: Stamp) -> (Pool, PoolCache, Box<dyn LinkQueue>) {
    let pool = Pool::new(PoolConfig { frames: 128, ..PoolConfig::default() }).unwrap();
    let cache = pool.cache();
    let mut link = ReplayLink::new(ReplayConfig { stamp, ..ReplayConfig::new(frames) });
    (pool, cache, link.take_queues().remove(0))
}

#[test]
fn frames_come_in_turn_and_for_ever() {
    for stamp in [Stamp::Always, Stamp::Once] {
        let (pool, mut cache, mut queue) = setup(vec![frame(1), frame(2), frame(3)], stamp);
        let mut expected = [1, 2, 3].into_iter().cycle();
        for _ in 0..100 {
            let mut burst = Burst::new();
            assert_eq!(queue.rx(&mut cache, &mut burst, 7).unwrap(), 7);
            for slot in 0..7 {
                let packet = burst.take(slot).unwrap();
                assert_eq!(packet.data(), frame(expected.next().unwrap()));
                assert_eq!(packet.meta().l2, packet.head());
                cache.free(packet);
            }
        }
        let stats = queue.stats();
        assert_eq!((stats.rx_packets, stats.rx_bytes), (700, 700 * 60));
        drop(cache);
        assert_eq!(pool.available(), 128);
    }
}

#[test]
fn what_is_sent_is_counted_and_freed() {
    let (pool, mut cache, mut queue) = setup(vec![frame(1)], Stamp::Always);
    let mut packets = VecDeque::new();
    for len in [60, 13, 1515] {
        let mut packet = cache.alloc().unwrap();
        packet.append(&vec![0; len]);
        packets.push_back(packet);
    }
    assert_eq!(queue.tx(&mut cache, &mut packets).unwrap(), 3);
    let stats = queue.stats();
    assert_eq!((stats.tx_packets, stats.tx_bytes, stats.tx_dropped), (1, 60, 2));
    drop(cache);
    assert_eq!(pool.available(), 128);
}

#[test]
fn an_exhausted_pool_is_counted() {
    let (_pool, mut cache, mut queue) = setup(vec![frame(1)], Stamp::Always);
    let mut hoard = Vec::new();
    let mut burst = Burst::new();
    while queue.rx(&mut cache, &mut burst, 64).unwrap() > 0 {
        hoard.extend((0..64).filter_map(|i| burst.take(i)));
    }
    assert_eq!(hoard.len(), 128);
    assert_eq!(queue.stats().fill_empty, 1);
}

#[test]
fn no_frames_is_no_traffic() {
    let (_pool, mut cache, mut queue) = setup(vec![vec![0; 2000]], Stamp::Always);
    assert_eq!(queue.rx(&mut cache, &mut Burst::new(), 64).unwrap(), 0);
}
