use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};

use weever_packet::{Burst, Pool, PoolCache, PoolConfig};

use super::*;
use crate::conformance::{Setup, suite};
use crate::memory::{MemoryConfig, pair};
use crate::pcap::{Format, Reader, Recorder, Writer};

#[test]
fn conforms() {
    suite(|| {
        let config = MemoryConfig { ring: 200, queues: 2, waitable: true, ..Default::default() };
        let setup = crate::memory::tests::setup(&config);
        let link = TracedLink::new(setup.link, Shared::new(|_| {}));
        Setup { link: Box::new(link), ..setup }
    });
}

fn traced(ring: usize, observer: Shared) -> ([Box<dyn LinkQueue>; 2], PoolCache) {
    let (left, mut right) = pair(&MemoryConfig { ring, ..MemoryConfig::default() }).unwrap();
    let mut left = TracedLink::new(Box::new(left), observer);
    let pool = Pool::new(PoolConfig { frames: 128, ..PoolConfig::default() }).unwrap();
    ([left.take_queues().remove(0), right.take_queues().remove(0)], pool.cache())
}

fn packets(cache: &mut PoolCache, n: u8) -> VecDeque<Buffer> {
    let packet = |tag: u8| {
        let mut packet = cache.alloc().unwrap();
        packet.append(&[tag; 60]);
        packet
    };
    (0..n).map(packet).collect()
}

fn send(queue: &mut dyn LinkQueue, cache: &mut PoolCache, n: u8) {
    let mut packets = packets(cache, n);
    queue.tx(cache, &mut packets).unwrap();
    queue.flush(cache).unwrap();
}

fn lines() -> (Shared, Receiver<String>) {
    let (seen, lines) = channel();
    let tell = move |event: &Event<'_>| {
        seen.send(event.line(|frame| format!("tag {}", frame[14]))).unwrap();
    };
    (Shared::new(tell), lines)
}

#[test]
fn a_line_says_when_where_and_what() {
    let (observer, lines) = lines();
    let ([mut near, mut far], mut cache) = traced(64, observer);
    near.advance(1_000_002_003);
    send(&mut *near, &mut cache, 1);
    near.flush(&mut cache).unwrap();
    send(&mut *far, &mut cache, 1);
    near.advance(2_000_000_000);
    near.rx(&mut cache, &mut Burst::new(), 64).unwrap();
    let seen: Vec<_> = lines.try_iter().collect();
    assert_eq!(seen, ["1.000002003 memory0/0 > 60 B tag 0", "2.000000000 memory0/0 < 60 B tag 0"]);
}

#[test]
fn a_packet_that_is_held_back_is_shown_once() {
    let (observer, lines) = lines();
    let ([mut near, mut far], mut cache) = traced(2, observer);
    let mut offered = packets(&mut cache, 5);
    let (mut received, mut turns) = (0, 0);
    while received < 5 {
        near.tx(&mut cache, &mut offered).unwrap();
        near.flush(&mut cache).unwrap();
        let mut burst = Burst::new();
        received += far.rx(&mut cache, &mut burst, 64).unwrap();
        turns += 1;
    }
    assert!(turns > 1, "the ring holds two");
    let expected: Vec<_> =
        (0..5).map(|n| format!("0.000000000 memory0/0 > 60 B tag {n}")).collect();
    assert_eq!(lines.try_iter().collect::<Vec<_>>(), expected);
}

/// A file that the test reads after the link is gone.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_recorder_makes_a_file_with_interfaces_times_and_directions() {
    let file = File::default();
    let writer = Writer::new(file.clone(), Format::Pcapng, "test").unwrap();
    let mut recorder = Recorder::new(writer, 1_000);
    let ([mut near, mut far], mut cache) = traced(64, Shared::new(move |e| recorder.record(e)));
    near.advance(5);
    send(&mut *near, &mut cache, 2);
    send(&mut *far, &mut cache, 1);
    near.advance(9);
    near.rx(&mut cache, &mut Burst::new(), 64).unwrap();
    let bytes = file.0.lock().unwrap().clone();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let mut seen = Vec::new();
    while let Some(record) = reader.read().unwrap() {
        seen.push((record.time, record.direction, record.data[0], record.data.len()));
    }
    let (sent, received) = (Direction::Outbound, Direction::Inbound);
    assert_eq!(seen, [(1005, sent, 0, 60), (1005, sent, 1, 60), (1009, received, 0, 60)]);
    assert_eq!(reader.interfaces()[0].name, "memory0");
}

#[test]
fn a_burst_is_seen_at_once() {
    #[derive(Default)]
    struct Bursts(Vec<(Direction, usize)>);
    impl Observe for Bursts {
        fn see(&mut self, burst: &mut dyn Iterator<Item = Event<'_>>) {
            let direction = burst.next().map(|event| event.direction).unwrap_or_default();
            self.0.push((direction, 1 + burst.count()));
        }
    }
    let seen = Arc::new(Mutex::new(Bursts::default()));
    let ([mut near, mut far], mut cache) = traced(100, Shared::of(Arc::clone(&seen)));
    send(&mut *near, &mut cache, 30);
    far.rx(&mut cache, &mut Burst::new(), 64).unwrap();
    send(&mut *far, &mut cache, 20);
    near.rx(&mut cache, &mut Burst::new(), 64).unwrap();
    let seen = &seen.lock().unwrap().0;
    assert_eq!(*seen, [(Direction::Outbound, 30), (Direction::Inbound, 20)]);
}
