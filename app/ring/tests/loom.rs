//! Every interleaving (up to a bound on preemptions) of a producer, a consumer and a sleeper.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p weever-app-ring --release --test loom
//! ```
#![cfg(loom)]

use crossbeam_utils::CachePadded;
use loom::sync::Arc;
use loom::thread;
use weever_app_ring::{AtomicU32, AtomicU64, Consumer, Doorbell, Entry, Kind, Producer, RingParts};

struct Memory {
    produced: CachePadded<AtomicU32>,
    consumed: CachePadded<AtomicU32>,
    bell: CachePadded<AtomicU32>,
    slots: Vec<[AtomicU64; 2]>,
}

impl Memory {
    fn new() -> Arc<Memory> {
        Arc::new(Memory {
            produced: CachePadded::new(AtomicU32::new(0)),
            consumed: CachePadded::new(AtomicU32::new(0)),
            bell: CachePadded::new(AtomicU32::new(0)),
            slots: (0..2).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect(),
        })
    }

    fn parts(&self) -> RingParts<'_> {
        RingParts { produced: &self.produced, consumed: &self.consumed, slots: &self.slots }
    }
}

fn entry(frame: u32) -> Entry {
    Entry { frame, socket: !frame, offset: 64, len: 1, kind: Kind::Data, more: 0 }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn every_entry_arrives_whole_once_and_in_order() {
    check(|| {
        let memory = Memory::new();
        let theirs = Arc::clone(&memory);
        let writer = thread::spawn(move || {
            let mut producer = Producer::new(theirs.parts());
            for frame in 0..3 {
                while !producer.push(entry(frame)).unwrap() {
                    thread::yield_now();
                }
                producer.publish();
            }
        });
        let mut consumer = Consumer::new(memory.parts());
        for frame in 0..3 {
            loop {
                if let Some(got) = consumer.pop().unwrap() {
                    assert_eq!(got, entry(frame));
                    consumer.release();
                    break;
                }
                thread::yield_now();
            }
        }
        writer.join().unwrap();
        assert_eq!(consumer.look(), Ok(0));
    });
}

/// Either the sleeper sees the entry before it sleeps, or the waker sees that it sleeps.
#[test]
fn nobody_sleeps_through_an_entry() {
    check(|| {
        let memory = Memory::new();
        let theirs = Arc::clone(&memory);
        let waker = thread::spawn(move || {
            let mut producer = Producer::new(theirs.parts());
            assert!(producer.push(entry(1)).unwrap());
            producer.publish();
            Doorbell::new(&theirs.bell).take()
        });
        let mut consumer = Consumer::new(memory.parts());
        let bell = Doorbell::new(&memory.bell);
        bell.arm();
        let sleeps = consumer.look().unwrap() == 0;
        let woken = waker.join().unwrap();
        assert!(!sleeps || woken, "it sleeps, the entry is there, and nobody wakes it");
    });
}
