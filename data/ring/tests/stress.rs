//! Real threads against a thread that plays the kernel: every descriptor arrives exactly once, and
//! those of one producer in order.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "rings are made of raw parts")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use weever_ring::simulated::SimulatedKernel;
use weever_ring::{MultiConsumer, MultiProducer};

const THREADS: u64 = 4;
const EACH: u64 = if cfg!(miri) { 100 } else { 60_000 };

fn tag(thread: u64, sequence: u64) -> u64 {
    thread << 32 | sequence
}

/// Pushes `tag(me, 0..EACH)` in batches of varying size.
fn produce(ring: &MultiProducer<u64>, me: u64) {
    let items: Vec<u64> = (0..EACH).map(|i| tag(me, i)).collect();
    let mut done = 0;
    let mut size = 1;
    while done < items.len() {
        let end = (done + size).min(items.len());
        match ring.push(&items[done..end]) {
            0 => thread::yield_now(),
            n => done += n,
        }
        size = size % 17 + 1;
    }
}

fn run_producers(len: u32, start: u32) {
    let kernel = SimulatedKernel::new(len, start, 0u64).unwrap();
    // SAFETY: `kernel` lives until the end of the function, the scope ends before.
    let ring = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
    let mut next = [0; THREADS as usize];
    thread::scope(|scope| {
        for me in 0..THREADS {
            let ring = &ring;
            scope.spawn(move || produce(ring, me));
        }
        let mut left = THREADS * EACH;
        while left > 0 {
            // SAFETY: only this thread takes.
            let batch = unsafe { kernel.take(23) };
            if batch.is_empty() {
                thread::yield_now();
            }
            left -= batch.len() as u64;
            for item in batch {
                let (thread, sequence) = ((item >> 32) as usize, item & 0xffff_ffff);
                assert_eq!(sequence, next[thread], "lost, doubled or out of order");
                next[thread] += 1;
            }
        }
    });
    assert_eq!(next, [EACH; THREADS as usize]);
    assert_eq!(ring.unpublished(), 0);
}

#[test]
fn producers_lose_nothing_and_keep_order() {
    run_producers(64, u32::MAX - 500);
}

#[test]
fn producers_on_a_tiny_ring() {
    run_producers(2, 0);
}

fn run_consumers(len: u32, start: u32) {
    consume_all(len, start, 16, THREADS * EACH);
}

/// Has threads consume `total` descriptors, by up to `most` at once.
fn consume_all(len: u32, start: u32, most: usize, total: u64) {
    let kernel = SimulatedKernel::new(len, start, 0u64).unwrap();
    // SAFETY: `kernel` lives until the end of the function, the scope ends before.
    let ring = unsafe { MultiConsumer::new(kernel.parts()) }.unwrap();
    let left = AtomicUsize::new(total as usize);
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let seen = consume(&ring, &left, most);
                assert!(seen.is_sorted(), "one consumer sees the ring's order");
                all.lock().unwrap().extend(seen);
            });
        }
        let items: Vec<u64> = (0..total).collect();
        let mut given = 0;
        while given < items.len() {
            let end = (given + 29).min(items.len());
            // SAFETY: only this thread gives.
            match unsafe { kernel.give(&items[given..end]) } {
                0 => thread::yield_now(),
                n => given += n,
            }
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..total), "each descriptor exactly once");
    assert_eq!(ring.unreleased(), 0);
    let (producer, consumer) = kernel.indices();
    assert_eq!(producer, consumer);
}

fn consume(ring: &MultiConsumer<u64>, left: &AtomicUsize, most: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut buffer = vec![0; most];
    let mut size = 1;
    while left.load(Ordering::Relaxed) > 0 {
        let n = ring.pop(&mut buffer[..size]);
        if n == 0 {
            thread::yield_now();
        }
        seen.extend_from_slice(&buffer[..n]);
        left.fetch_sub(n, Ordering::Relaxed);
        size = size % most + 1;
    }
    seen
}

#[test]
fn consumers_see_each_descriptor_once() {
    run_consumers(64, u32::MAX - 500);
}

#[test]
fn rings_and_batches_of_every_usual_size() {
    let lens: &[u32] = if cfg!(miri) { &[64] } else { &[64, 256, 1024, 4096] };
    for &len in lens {
        for most in [1, 2, 7, 32, 64] {
            consume_all(len, u32::MAX - len / 2, most, 4 * u64::from(len));
        }
    }
}

/// What it had claimed is lost with it, as the frames in its hands are; the ring goes on.
#[test]
fn a_thread_that_panics_with_a_claim_open_releases_it() {
    let kernel = SimulatedKernel::new(8, u32::MAX - 2, 0u64).unwrap();
    // SAFETY: `kernel` outlives the ring.
    let ring = unsafe { MultiConsumer::new(kernel.parts()) }.unwrap();
    // SAFETY: a single thread gives.
    let give = |items: &[u64]| unsafe { kernel.give(items) };
    give(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let ended = thread::scope(|scope| {
        let claims = || {
            let _claim = ring.claim(3);
            std::panic::resume_unwind(Box::new("it ends"));
        };
        scope.spawn(claims).join()
    });
    assert!(ended.is_err());
    assert_eq!(ring.unreleased(), 0);
    let mut seen = Vec::new();
    for item in 8..40 {
        assert_eq!(give(&[item]), 1);
        ring.drain(4, |item| seen.push(item));
    }
    ring.drain(8, |item| seen.push(item));
    assert!(seen.into_iter().eq(3..40));
}

#[test]
fn consumers_on_a_tiny_ring() {
    run_consumers(2, 7);
}

/// COREC §3.4.4: a thread that sleeps on a claim lets the others go a whole lap, no further; when
/// it wakes, everything is released at once.
#[test]
fn a_sleeping_claim_costs_at_most_a_lap() {
    let kernel = SimulatedKernel::new(8, 0, 0u64).unwrap();
    // SAFETY: `kernel` outlives the ring.
    let ring = unsafe { MultiConsumer::new(kernel.parts()) }.unwrap();
    // SAFETY: a single thread.
    let give = |items: &[u64]| unsafe { kernel.give(items) };
    give(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let sleeper = ring.claim(1).unwrap();
    assert_eq!(ring.drain(100, |_| ()), 7);
    assert_eq!((ring.available(), ring.unreleased()), (0, 8));
    assert_eq!(give(&[8]), 0, "the kernel finds the ring full");
    assert_eq!(sleeper.iter().collect::<Vec<_>>(), [0]);
    drop(sleeper);
    assert_eq!(ring.unreleased(), 0);
    assert_eq!(give(&[8]), 1);
}

/// The same on the producing side.
#[test]
fn a_sleeping_reservation_costs_at_most_a_lap() {
    let kernel = SimulatedKernel::new(8, u32::MAX - 3, 0u64).unwrap();
    // SAFETY: `kernel` outlives the ring.
    let ring = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
    let sleeper = ring.reserve_exact(2).unwrap();
    assert!(!ring.push_all(&[9; 7]));
    assert_eq!(ring.push(&[1, 2, 3, 4, 5, 6, 7]), 6);
    assert_eq!((ring.free(), ring.unpublished()), (0, 8));
    // SAFETY: a single thread.
    assert!(unsafe { kernel.take(8) }.is_empty());
    sleeper.publish_with(|i| 100 + u64::from(i));
    // SAFETY: a single thread.
    assert_eq!(unsafe { kernel.take(8) }, [100, 101, 1, 2, 3, 4, 5, 6]);
}

/// Threads that end with a reservation all the time, beside others that push: each item of those arrives once.
#[test]
fn threads_that_end_beside_others_that_push_cost_nothing() {
    const PUSHED: u64 = if cfg!(miri) { 30 } else { 4_000 };
    /// What fills the last gaps.
    const NOTHING: u64 = u64::MAX;
    let kernel = SimulatedKernel::new(8, u32::MAX - 2, 0u64).unwrap();
    // SAFETY: `kernel` lives until the end of the function, the scope ends before.
    let ring = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
    let push = |item| {
        while ring.push(&[item]) == 0 {
            thread::yield_now();
        }
    };
    let (mut seen, mut ended) = (Vec::new(), 0);
    thread::scope(|scope| {
        let threads =
            [0, PUSHED].map(|first| scope.spawn(move || (first..first + PUSHED).for_each(push)));
        while seen.len() < 2 * PUSHED as usize {
            if let Some(slots) = ring.reserve(1 + ended % 4) {
                thread::scope(|scope| scope.spawn(move || drop(slots)).join().unwrap());
                ended += 1;
            }
            // SAFETY: only this thread takes.
            seen.extend(unsafe { kernel.take(8) });
            // Gaps are filled by later pushes, or lie behind all of them.
            if threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                while ring.unpublished() > 0 && ring.push(&[NOTHING]) == 1 {}
            }
            seen.retain(|item| *item != NOTHING);
        }
    });
    assert!(ended > 0);
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..2 * PUSHED));
}

/// Every thread leaves gaps and fills those of others, and none of their items is lost or doubled.
#[test]
fn gaps_of_many_threads_are_each_filled_once() {
    const ITEMS: u64 = if cfg!(miri) { 40 } else { 10_000 };
    let kernel = SimulatedKernel::new(16, u32::MAX - 5, 0u64).unwrap();
    // SAFETY: `kernel` lives until the end of the function, the scope ends before.
    let ring = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
    let produce = |me: u64| {
        for sequence in 0..ITEMS {
            if sequence % 3 == me % 3 {
                drop(ring.reserve(1 + (sequence % 4) as u32));
            }
            while ring.push(&[tag(me, sequence)]) == 0 {
                thread::yield_now();
            }
        }
    };
    let mut seen = Vec::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|me| scope.spawn(move || produce(me))).collect();
        let take = |seen: &mut Vec<u64>| {
            // SAFETY: only this thread takes.
            seen.extend(unsafe { kernel.take(5) });
        };
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            take(&mut seen);
            thread::yield_now();
        }
        // Only this orders what the threads did before what is read below.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // The last ones may lie behind gaps.
        while ring.unpublished() > 0 {
            assert_eq!(ring.push(&[u64::MAX]), 1);
        }
        (0..16).for_each(|_| take(&mut seen));
    });
    assert_eq!(ring.free(), 16, "no gap is left");
    seen.retain(|item| *item != u64::MAX);
    seen.sort_unstable();
    let all = (0..THREADS).flat_map(|me| (0..ITEMS).map(move |sequence| tag(me, sequence)));
    assert!(seen.into_iter().eq(all), "each once");
}
