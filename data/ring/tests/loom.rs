//! Every interleaving (up to a bound on preemptions) of small cases, checked by loom.
#![cfg(loom)]
#![allow(unsafe_code, reason = "rings are made of raw parts")]

use loom::sync::Arc;
use loom::thread;
use weever_ring::simulated::SimulatedKernel;
use weever_ring::{Departures, MultiConsumer, MultiProducer, Ticket};

fn check(model: impl Fn() + Sync + Send + 'static) {
    check_bounded(3, model);
}

fn check_bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A ring and the memory it lies in, dropped in this order.
struct Shared<R> {
    ring: R,
    kernel: SimulatedKernel<u32>,
}

fn producers(len: u32, start: u32) -> Arc<Shared<MultiProducer<u32>>> {
    let kernel = SimulatedKernel::new(len, start, 0).unwrap();
    // SAFETY: the memory of `kernel` lives as long as the ring beside it.
    let ring = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
    Arc::new(Shared { ring, kernel })
}

fn consumers(len: u32, start: u32) -> Arc<Shared<MultiConsumer<u32>>> {
    let kernel = SimulatedKernel::new(len, start, 0).unwrap();
    // SAFETY: the memory of `kernel` lives as long as the ring beside it.
    let ring = unsafe { MultiConsumer::new(kernel.parts()) }.unwrap();
    Arc::new(Shared { ring, kernel })
}

fn sorted(mut all: Vec<u32>) -> Vec<u32> {
    all.sort_unstable();
    all
}

/// When all threads have finished, nothing may be left behind the kernel's index.
#[test]
fn two_producers_leave_nothing_unpublished() {
    check(|| {
        let shared = producers(4, u32::MAX - 1);
        let other = shared.clone();
        let thread = thread::spawn(move || assert!(other.ring.push_all(&[1, 2])));
        assert!(shared.ring.push_all(&[3]));
        thread.join().unwrap();
        assert_eq!(shared.ring.unpublished(), 0);
        // SAFETY: the only thread left.
        let seen = unsafe { shared.kernel.take(4) };
        assert!(seen == [1, 2, 3] || seen == [3, 1, 2], "{seen:?}");
    });
}

/// Three threads: an owner in order, one that marks, one that helps.
#[test]
fn three_producers_leave_nothing_unpublished() {
    check_bounded(2, || {
        let shared = producers(4, 0);
        let threads = [1, 2].map(|item| {
            let other = shared.clone();
            thread::spawn(move || assert_eq!(other.ring.push(&[item]), 1))
        });
        assert_eq!(shared.ring.push(&[3]), 1);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(shared.ring.unpublished(), 0);
        // SAFETY: the only thread left.
        assert_eq!(sorted(unsafe { shared.kernel.take(4) }), [1, 2, 3]);
    });
}

/// A descriptor that one producer finished and another carried over is complete when the kernel
/// sees it.
#[test]
fn the_kernel_sees_only_finished_descriptors() {
    check(|| {
        let shared = producers(2, u32::MAX);
        let other = shared.clone();
        let thread = thread::spawn(move || assert!(other.ring.push_all(&[1])));
        let kernel = shared.clone();
        // SAFETY: no other call to `take`.
        let taker = thread::spawn(move || unsafe { kernel.kernel.take(2) });
        assert!(shared.ring.push_all(&[2]));
        thread.join().unwrap();
        let seen = taker.join().unwrap();
        assert!(seen.iter().all(|item| [1, 2].contains(item)), "{seen:?}");
        assert_eq!(shared.ring.unpublished(), 0);
    });
}

/// The same of one thread's ring, which moves its words without locked instructions.
#[test]
fn the_kernel_sees_only_finished_descriptors_of_one_thread() {
    check(|| {
        let kernel = SimulatedKernel::new(2, u32::MAX, 0).unwrap();
        // SAFETY: the memory of `kernel` lives as long as the ring beside it, which this thread works.
        let ring = unsafe { MultiProducer::for_one_thread(kernel.parts()) }.unwrap();
        let shared = Arc::new(Shared { ring, kernel });
        let other = shared.clone();
        // SAFETY: no other call to `take`.
        let taker = thread::spawn(move || unsafe { other.kernel.take(2) });
        assert!(shared.ring.push_all(&[1]));
        let pushed = shared.ring.push(&[2, 3]);
        let seen = taker.join().unwrap();
        assert!([1, 2].contains(&pushed) && [1, 2, 3].starts_with(&seen), "{pushed} {seen:?}");
        assert_eq!(shared.ring.unpublished(), 0);
    });
}

/// And it frees no slot before it has read it.
#[test]
fn one_thread_reads_what_the_kernel_gave() {
    check(|| {
        let kernel = SimulatedKernel::new(2, u32::MAX, 0).unwrap();
        // SAFETY: as above.
        let ring = unsafe { MultiConsumer::for_one_thread(kernel.parts()) }.unwrap();
        let shared = Arc::new(Shared { ring, kernel });
        let other = shared.clone();
        // SAFETY: no other call to `give`.
        let giver = thread::spawn(move || {
            [&[1, 2][..], &[3]].map(|items| unsafe { other.kernel.give(items) })
        });
        let (mut out, mut seen) = ([0; 2], Vec::new());
        for _ in 0..2 {
            let n = shared.ring.pop(&mut out);
            seen.extend_from_slice(&out[..n]);
        }
        let given: usize = giver.join().unwrap().iter().sum();
        let n = shared.ring.pop(&mut out);
        seen.extend_from_slice(&out[..n]);
        assert!(seen.len() == given && [1, 2, 3].starts_with(&seen), "{given} {seen:?}");
        assert_eq!(shared.ring.unreleased(), 0);
    });
}

/// A reservation that ends unpublished does not block the ring: the next push fills its slot.
#[test]
fn a_gap_is_filled_by_the_next_to_push() {
    check(|| {
        let shared = producers(4, u32::MAX - 1);
        let other = shared.clone();
        let thread = thread::spawn(move || drop(other.ring.reserve(1)));
        assert_eq!(shared.ring.push(&[1]), 1);
        thread.join().unwrap();
        assert_eq!(shared.ring.push(&[2]), 1);
        assert_eq!(shared.ring.unpublished(), 0);
        // SAFETY: the only thread left.
        assert_eq!(sorted(unsafe { shared.kernel.take(4) }), [1, 2]);
    });
}

/// Two threads push while there is a gap: one of them fills it, and nothing is lost.
#[test]
fn a_gap_is_filled_once() {
    check(|| {
        let shared = producers(4, u32::MAX - 1);
        drop(shared.ring.reserve(1));
        let other = shared.clone();
        let thread = thread::spawn(move || assert_eq!(other.ring.push(&[1]), 1));
        assert_eq!(shared.ring.push(&[2]), 1);
        thread.join().unwrap();
        assert_eq!(shared.ring.unpublished(), 0);
        // SAFETY: the only thread left.
        assert_eq!(sorted(unsafe { shared.kernel.take(4) }), [1, 2]);
    });
}

/// Two reservations end at once, one behind the other: their slots are one gap in the end.
#[test]
fn gaps_of_two_threads_are_both_filled() {
    check(|| {
        let shared = producers(4, 0);
        let other = shared.clone();
        let thread = thread::spawn(move || drop(other.ring.reserve_exact(2)));
        drop(shared.ring.reserve_exact(2));
        thread.join().unwrap();
        assert_eq!(shared.ring.free(), 4);
        assert!(shared.ring.push_all(&[1, 2, 3, 4]));
        assert_eq!(shared.ring.unpublished(), 0);
        // SAFETY: the only thread left.
        assert_eq!(unsafe { shared.kernel.take(4) }, [1, 2, 3, 4]);
    });
}

/// A thread that has not seen how far the ring got finds a gap there.
#[test]
fn a_gap_behind_a_descriptor_is_filled() {
    check(|| {
        let shared = producers(4, u32::MAX);
        let [leaves, pushes] = [shared.clone(), shared.clone()];
        let leaves = thread::spawn(move || {
            assert_eq!(leaves.ring.push(&[1]), 1);
            drop(leaves.ring.reserve(1));
        });
        let pushes = thread::spawn(move || assert_eq!(pushes.ring.push(&[2]), 1));
        leaves.join().unwrap();
        pushes.join().unwrap();
        assert_eq!(shared.ring.push(&[3]), 1);
        assert_eq!(shared.ring.unpublished(), 0);
        // SAFETY: the only thread left.
        assert_eq!(sorted(unsafe { shared.kernel.take(4) }), [1, 2, 3]);
    });
}

/// A thread that did not see the kernel read a slot fills it, after one that saw it has left it as a gap. This thread
/// plays the kernel, as in [`consumers_learn_of_descriptors`].
#[test]
fn a_gap_is_overwritten_only_after_the_kernel() {
    check(|| {
        let shared = producers(1, 0);
        assert!(shared.ring.push_all(&[1]));
        let [leaves, fills] = [shared.clone(), shared.clone()];
        let leaves = thread::spawn(move || drop(leaves.ring.reserve(1)));
        let fills = thread::spawn(move || fills.ring.push(&[2]));
        // SAFETY: the other call to `take` comes later.
        let mut seen = unsafe { shared.kernel.take(1) };
        leaves.join().unwrap();
        let pushed = fills.join().unwrap();
        // SAFETY: the only thread left.
        seen.extend(unsafe { shared.kernel.take(1) });
        assert_eq!(seen, [1, 2][..1 + pushed]);
    });
}

/// The kernel consumes while slots are reused: no slot is overwritten before it was read.
#[test]
fn producers_reuse_slots_only_after_the_kernel() {
    check(|| {
        let shared = producers(2, u32::MAX);
        let other = shared.clone();
        let thread = thread::spawn(move || other.ring.push(&[1, 2]));
        let kernel = shared.clone();
        // SAFETY: the other call to `take` comes after this thread has ended.
        let taker = thread::spawn(move || unsafe { kernel.kernel.take(2) });
        let mine = shared.ring.push(&[3, 4]);
        let theirs = thread.join().unwrap();
        let mut seen = taker.join().unwrap();
        assert_eq!(shared.ring.unpublished(), 0);
        // SAFETY: the only thread left.
        seen.extend(unsafe { shared.kernel.take(4) });
        let expected = [1, 2].iter().take(theirs).chain([3, 4].iter().take(mine));
        assert_eq!(sorted(seen), expected.copied().collect::<Vec<_>>());
    });
}

/// Two consumers split the descriptors, and the slots all go back to the kernel.
#[test]
fn two_consumers_split_and_release() {
    check(|| {
        let shared = consumers(4, u32::MAX - 1);
        // SAFETY: the only thread so far.
        unsafe { shared.kernel.give(&[1, 2, 3]) };
        let other = shared.clone();
        let thread = thread::spawn(move || drain(&other.ring, 2));
        let mut seen = drain(&shared.ring, 1);
        seen.extend(thread.join().unwrap());
        assert_eq!(shared.ring.unreleased(), 0);
        seen.extend(drain(&shared.ring, 4));
        assert_eq!(sorted(seen), [1, 2, 3]);
        let (producer, consumer) = shared.kernel.indices();
        assert_eq!(producer, consumer);
    });
}

/// The kernel produces into slots that the consumers release meanwhile.
#[test]
fn consumers_against_a_producing_kernel() {
    check(|| {
        let shared = consumers(2, u32::MAX);
        // SAFETY: the only thread so far.
        unsafe { shared.kernel.give(&[1, 2]) };
        let other = shared.clone();
        let thread = thread::spawn(move || drain(&other.ring, 1));
        let kernel = shared.clone();
        // SAFETY: no other call to `give` at the same time.
        let giver = thread::spawn(move || unsafe { kernel.kernel.give(&[3]) });
        let mut seen = drain(&shared.ring, 2);
        seen.extend(thread.join().unwrap());
        let given = giver.join().unwrap() as u32;
        assert_eq!(shared.ring.unreleased(), 0);
        seen.extend(drain(&shared.ring, 2));
        assert_eq!(sorted(seen), (1..=2 + given).collect::<Vec<_>>());
    });
}

/// Consumers take up to so many each, while the kernel gives one descriptor after the other, of which nobody knows but
/// for the first `known`. They learn of them from the kernel, or from each other.
///
/// The model's own thread plays the kernel: its search, led by conflicts, does not reach all orders of events if
/// another thread does.
fn consumers_learn_of_descriptors(known: usize, maxes: [u32; 2]) {
    let shared = consumers(2, u32::MAX);
    // SAFETY: only this thread gives.
    let give = |item| assert_eq!(unsafe { shared.kernel.give(&[item]) }, 1);
    [1, 2][..known].iter().for_each(|item| give(*item));
    let threads = maxes.map(|max| {
        let other = shared.clone();
        thread::spawn(move || drain(&other.ring, max))
    });
    [1, 2][known..].iter().for_each(|item| give(*item));
    let mut seen: Vec<u32> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    seen.extend(drain(&shared.ring, 2));
    assert_eq!(sorted(seen), [1, 2]);
    assert_eq!(shared.ring.unreleased(), 0);
}

#[test]
fn consumers_learn_of_descriptors_from_the_kernel() {
    check(|| consumers_learn_of_descriptors(0, [2, 1]));
}

#[test]
fn consumers_learn_of_descriptors_from_each_other() {
    check(|| consumers_learn_of_descriptors(1, [1, 2]));
}

/// A consumer that sleeps on its claim holds back the release, and only that.
#[test]
fn a_sleeping_claim_blocks_no_other_consumer() {
    check(|| {
        let shared = consumers(4, 0);
        // SAFETY: the only thread so far.
        unsafe { shared.kernel.give(&[1, 2, 3]) };
        let sleeper = shared.ring.claim(1).unwrap();
        let other = shared.clone();
        let thread = thread::spawn(move || drain(&other.ring, 1));
        let mut seen = drain(&shared.ring, 1);
        seen.extend(thread.join().unwrap());
        assert_eq!(sorted(seen), [2, 3]);
        assert_eq!(shared.kernel.indices().1, 0);
        drop(sleeper);
        assert_eq!(shared.kernel.indices().1, 3);
    });
}

fn drain(ring: &MultiConsumer<u32>, max: u32) -> Vec<u32> {
    let mut seen = Vec::new();
    ring.drain(max, |item| seen.push(item));
    seen
}

/// Two threads that receive and send: what leaves second has seen what left first, and no position leaves before
/// an earlier one.
#[test]
fn batches_leave_in_the_order_of_their_claims() {
    check(|| {
        let shared = consumers(4, u32::MAX - 1);
        // SAFETY: the only thread.
        unsafe { shared.kernel.give(&[1, 2]) };
        let departures = Arc::new(Departures::new(shared.ring.position()));
        let sink = Arc::new(loom::cell::UnsafeCell::new(Vec::new()));
        let send = |shared: Arc<Shared<_>>, departures: Arc<Departures>, sink: Arc<_>| {
            move || {
                let (shared, sink): (Arc<Shared<MultiConsumer<u32>>>, Arc<Sink>) = (shared, sink);
                let mut item = [0];
                let mut ticket = Ticket::new(shared.ring.pop_positions(&mut item));
                while !departures.may_leave(&mut ticket, 0, 1) {
                    thread::yield_now();
                }
                // SAFETY: in order, so one at a time; loom checks that.
                sink.with_mut(|sink| unsafe { (*sink).push(item[0]) });
                departures.left(ticket);
            }
        };
        let other = thread::spawn(send(shared.clone(), departures.clone(), sink.clone()));
        send(shared, departures.clone(), sink.clone())();
        other.join().unwrap();
        // SAFETY: the only thread left.
        sink.with(|sink| assert_eq!(unsafe { &*sink }, &[1, 2]));
        assert_eq!(departures.given_up(), 0);
    });
}

type Sink = loom::cell::UnsafeCell<Vec<u32>>;

/// One of them loses its patience at any moment: both still leave, and what comes later waits for neither.
#[test]
fn whoever_loses_patience_leaves_nobody_waiting() {
    check(|| {
        let departures = Arc::new(Departures::new(0));
        let other = departures.clone();
        let thread = thread::spawn(move || {
            let mut ticket = Ticket::new(2..4);
            assert!(other.may_leave(&mut ticket, 0, 0), "it has no patience");
            other.left(ticket);
        });
        let mut ticket = Ticket::new(0..2);
        assert!(departures.may_leave(&mut ticket, 0, 1), "nothing is before it");
        departures.left(ticket);
        thread.join().unwrap();
        assert!(departures.may_leave(&mut Ticket::new(4..5), 0, 1));
        assert!(departures.given_up() <= 1);
    });
}
