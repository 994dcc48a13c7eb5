use std::collections::VecDeque;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weever_packet::{Buffer, Burst, Pool, PoolCache, PoolConfig};

use super::*;
use crate::LinkError;
use crate::conformance::{Peer, Setup, suite};

/// The suite's peer: the other end of the pair.
pub(crate) struct Mirror {
    queues: Vec<Box<dyn LinkQueue>>,
    cache: PoolCache,
    inbox: VecDeque<(Option<u16>, Vec<u8>)>,
}

impl Mirror {
    pub(crate) fn new(mut link: MemoryLink) -> Mirror {
        let pool = Pool::new(PoolConfig::default()).unwrap();
        Mirror { queues: link.take_queues(), cache: pool.cache(), inbox: VecDeque::new() }
    }

    fn poll(&mut self) {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            let mut burst = Burst::new();
            let Ok(n) = queue.rx(&mut self.cache, &mut burst, 64) else { continue };
            for packet in (0..n).filter_map(|slot| burst.take(slot)) {
                self.inbox.push_back((Some(index as u16), packet.data().to_vec()));
            }
        }
    }
}

impl Peer for Mirror {
    fn send(&mut self, queue: u16, frame: &[u8]) -> bool {
        let Some(mut packet) = self.cache.alloc() else { return false };
        assert!(packet.append(frame));
        let mut packets = VecDeque::from([packet]);
        let queue = &mut self.queues[queue as usize];
        queue.tx(&mut self.cache, &mut packets).unwrap();
        queue.flush(&mut self.cache).unwrap();
        packets.is_empty()
    }

    fn receive(&mut self) -> Option<(Option<u16>, Vec<u8>)> {
        if self.inbox.is_empty() {
            self.poll();
        }
        self.inbox.pop_front()
    }

    fn leave(&mut self) -> bool {
        self.queues.clear();
        true
    }
}

pub(crate) fn setup(config: &MemoryConfig) -> Setup {
    let (left, right) = pair(config).unwrap();
    let pool = Pool::new(PoolConfig { frames: 1024, ..PoolConfig::default() }).unwrap();
    Setup { link: Box::new(left), pool, peer: Box::new(Mirror::new(right)) }
}

#[test]
fn conforms() {
    suite(|| setup(&MemoryConfig { ring: 256, ..MemoryConfig::default() }));
}

#[test]
fn conforms_with_queues_flags_waits_and_an_odd_ring() {
    let partial_checksums = true;
    let config = MemoryConfig { queues: 3, ring: 117, mtu: 1400, ..MemoryConfig::default() };
    suite(|| setup(&MemoryConfig { partial_checksums, waitable: true, ..config.clone() }));
}

fn ends(waitable: bool) -> (Box<dyn LinkQueue>, Box<dyn LinkQueue>, PoolCache) {
    let (mut left, mut right) = pair(&MemoryConfig { waitable, ..Default::default() }).unwrap();
    let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
    (left.take_queues().remove(0), right.take_queues().remove(0), pool.cache())
}

fn packet(cache: &mut PoolCache) -> Buffer {
    let mut packet = cache.alloc().unwrap();
    packet.append(&[7; 60]);
    packet
}

fn send(queue: &mut dyn LinkQueue, cache: &mut PoolCache) {
    let mut packets = VecDeque::from([packet(cache)]);
    assert_eq!(queue.tx(cache, &mut packets).unwrap(), 1);
    queue.flush(cache).unwrap();
}

fn readable_within(queue: &dyn LinkQueue, wait: Duration) -> bool {
    let fd = queue.fd().expect("waitable");
    let timeout = Timespec::try_from(wait).unwrap();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap() == 1
}

#[test]
fn without_asking_for_it_there_is_nothing_to_wait_on() {
    assert!(ends(false).0.fd().is_none());
}

#[test]
fn a_wait_ends_when_something_comes() {
    let (left, mut right, mut cache) = ends(true);
    assert!(!readable_within(&*left, Duration::from_millis(1)));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let woken = readable_within(&*left, Duration::from_secs(10));
            (woken, left)
        });
        std::thread::sleep(Duration::from_millis(20));
        send(&mut *right, &mut cache);
        let (woken, mut left) = waiter.join().unwrap();
        assert!(woken);
        assert_eq!(left.rx(&mut cache, &mut Burst::new(), 64).unwrap(), 1);
        assert!(!readable_within(&*left, Duration::from_millis(1)), "the bell is still");
    });
}

#[test]
fn what_came_before_the_wait_ends_it() {
    let (left, mut right, mut cache) = ends(true);
    send(&mut *right, &mut cache);
    assert!(readable_within(&*left, Duration::from_secs(10)));
}

#[test]
fn a_peer_that_goes_ends_the_wait() {
    let (left, right, _) = ends(true);
    assert!(!readable_within(&*left, Duration::from_millis(1)));
    drop(right);
    assert!(readable_within(&*left, Duration::from_secs(10)));
}

#[test]
fn what_was_sent_before_the_end_is_still_received() {
    let (mut left, mut right, mut cache) = ends(false);
    send(&mut *right, &mut cache);
    drop(right);
    let mut burst = Burst::new();
    assert_eq!(left.rx(&mut cache, &mut burst, 64).unwrap(), 1);
    burst.take(0);
    let error = left.rx(&mut cache, &mut burst, 64).unwrap_err();
    assert!(matches!(error, LinkError::Gone { .. }));
    assert!(error.to_string().contains("memory0"), "{error}");
}

#[test]
fn sending_does_not_report_the_end_before_everything_was_received() {
    let (mut left, mut right, mut cache) = ends(false);
    send(&mut *right, &mut cache);
    drop(right);
    let mut packets: VecDeque<_> = (0..3).map(|_| packet(&mut cache)).collect();
    assert_eq!(left.tx(&mut cache, &mut packets).unwrap(), 3);
    assert_eq!((packets.len(), left.stats().tx_dropped, left.stats().tx_packets), (0, 3, 0));
    let mut burst = Burst::new();
    assert_eq!(left.rx(&mut cache, &mut burst, 64).unwrap(), 1);
    packets.push_back(packet(&mut cache));
    let error = left.tx(&mut cache, &mut packets).unwrap_err();
    assert!(matches!(error, LinkError::Gone { .. }), "{error}");
}

#[test]
fn a_received_packet_starts_with_fresh_metadata() {
    let (mut left, mut right, mut cache) = ends(false);
    let mut sent = packet(&mut cache);
    sent.meta_mut().l3 = 3;
    sent.meta_mut().flags = Flags::PARTIAL_CHECKSUM;
    right.tx(&mut cache, &mut VecDeque::from([sent])).unwrap();
    let mut burst = Burst::new();
    left.rx(&mut cache, &mut burst, 64).unwrap();
    let meta = *burst.get(0).unwrap().meta();
    assert_eq!((meta.l3, meta.flags), (weever_packet::NOWHERE, Flags::NONE));
}

#[test]
fn threads_on_both_ends_lose_nothing() {
    let (mut left, mut right, mut cache) = ends(false);
    const N: u64 = 100_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut sent, mut packets) = (0u64, VecDeque::new());
            while sent < N || !packets.is_empty() {
                if sent < N
                    && packets.len() < 64
                    && let Some(mut packet) = cache.alloc()
                {
                    packet.append(&[0; 14]);
                    packet.append(&sent.to_le_bytes());
                    packets.push_back(packet);
                    sent += 1;
                }
                right.tx(&mut cache, &mut packets).unwrap();
            }
            right
        });
        let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
        let (mut own, mut expected) = (pool.cache(), 0u64);
        while expected < N {
            let mut burst = Burst::new();
            let n = left.rx(&mut own, &mut burst, 64).unwrap();
            for packet in (0..n).filter_map(|slot| burst.take(slot)) {
                assert_eq!(packet.data()[14..], expected.to_le_bytes());
                expected += 1;
                own.free(packet);
            }
        }
    });
}
