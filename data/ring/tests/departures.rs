//! What several threads receive from one ring leaves in the ring's order; a thread that stops with a batch in hand holds
//! the others up for their patience, once, and nothing is lost or sent twice.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "rings are made of raw parts")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weever_ring::simulated::SimulatedKernel;
use weever_ring::{Departures, MultiConsumer, Ticket};

const LEN: u32 = 64;
const PATIENCE: u64 = 8;

struct Shared {
    ring: MultiConsumer<u64>,
    departures: Departures,
    kernel: SimulatedKernel<u64>,
}

impl Shared {
    fn new(start: u32) -> Shared {
        let kernel = SimulatedKernel::new(LEN, start, u64::MAX).unwrap();
        // SAFETY: the memory of `kernel` lives as long as the ring beside it.
        let ring = unsafe { MultiConsumer::new(kernel.parts()) }.unwrap();
        let departures = Departures::new(ring.position());
        Shared { ring, departures, kernel }
    }
}

/// A batch in hand, and what its thread does next.
enum InHand {
    Nothing,
    /// It waits for its turn.
    Waits(Vec<u64>, Ticket),
    /// It has sent, and has not said so.
    Sent(Ticket),
}

/// One of several threads, a step at a time.
struct Stepped {
    most: usize,
    in_hand: InHand,
}

impl Stepped {
    fn step(&mut self, shared: &Shared, now: u64, sink: &mut Vec<u64>) {
        self.in_hand = match std::mem::replace(&mut self.in_hand, InHand::Nothing) {
            InHand::Nothing => {
                let mut taken = vec![0; self.most];
                let positions = shared.ring.pop_positions(&mut taken);
                taken.truncate((positions.end - positions.start) as usize);
                match positions.is_empty() {
                    true => InHand::Nothing,
                    false => InHand::Waits(taken, Ticket::new(positions)),
                }
            }
            InHand::Waits(taken, mut ticket) => {
                if shared.departures.may_leave(&mut ticket, now, PATIENCE) {
                    sink.extend(taken);
                    InHand::Sent(ticket)
                } else {
                    assert!(ticket.leaves_by(PATIENCE).is_some_and(|by| by > now));
                    InHand::Waits(taken, ticket)
                }
            }
            InHand::Sent(ticket) => {
                shared.departures.left(ticket);
                InHand::Nothing
            }
        };
    }
}

/// Runs threads in turns that a seed picks, each at least once in a unit of time; one of them stops after so many steps, for
/// so long. Returns what left, in order, and how often order was given up.
fn run(seed: u64, stop_after: u64, stopped_for: u64) -> (Vec<u64>, u64) {
    const TOTAL: u64 = 300;
    let mut random = fastrand(seed);
    let shared = Shared::new(u32::MAX - 100);
    let mut threads: Vec<_> =
        (1..=3).map(|most| Stepped { most: 2 * most, in_hand: InHand::Nothing }).collect();
    let (mut sink, mut given, mut steps) = (Vec::new(), 0, 0);
    for now in 0..2_000 {
        let items: Vec<u64> = (given..TOTAL.min(given + 5)).collect();
        // SAFETY: only this thread gives.
        given += unsafe { shared.kernel.give(&items) } as u64;
        let mut order = [0, 1, 2];
        order.rotate_left(random() as usize % 3);
        if random().is_multiple_of(2) {
            order.swap(1, 2);
        }
        for thread in order {
            if thread == 0 {
                steps += 1;
                if (stop_after..stop_after + stopped_for).contains(&steps) {
                    continue;
                }
            }
            threads[thread].step(&shared, now, &mut sink);
        }
    }
    assert!(threads.iter().all(|thread| matches!(thread.in_hand, InHand::Nothing)), "seed {seed}");
    (sink, shared.departures.given_up())
}

fn fastrand(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(2) | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    }
}

fn sorted(mut all: Vec<u64>) -> Vec<u64> {
    all.sort_unstable();
    all
}

#[test]
fn threads_that_are_not_stopped_send_in_order() {
    for seed in 0..200 {
        let (sink, given_up) = run(seed, 0, 0);
        assert!(sink.into_iter().eq(0..300), "seed {seed}");
        assert_eq!(given_up, 0, "seed {seed}");
    }
}

#[test]
fn a_thread_that_stops_at_any_step_loses_nothing_and_is_waited_for_once() {
    let (mut in_vain, mut gave_up) = (0, 0);
    for stop_after in 1..100 {
        for seed in 0..8 {
            let (sink, given_up) = run(seed, stop_after, 1000);
            let in_order = sink.is_sorted();
            assert!(
                given_up <= 2,
                "seed {seed}, step {stop_after}: by each other once at most, {given_up}"
            );
            assert!(in_order || given_up > 0, "seed {seed}, step {stop_after}: uncounted");
            assert!(sorted(sink).into_iter().eq(0..300), "seed {seed}, step {stop_after}");
            gave_up += given_up;
            in_vain += u64::from(given_up == 0);
        }
    }
    assert!(
        gave_up > 100 && in_vain > 100,
        "stopped with a batch in hand {gave_up} times, without {in_vain}"
    );
}

#[test]
fn a_thread_that_stops_for_less_than_the_patience_costs_no_order() {
    for (seed, stop_after) in (0..8).flat_map(|seed| (1..50).map(move |step| (seed, step))) {
        let (sink, given_up) = run(seed, stop_after, PATIENCE / 2);
        assert!(sink.into_iter().eq(0..300), "seed {seed}, step {stop_after}");
        assert_eq!(given_up, 0);
    }
}

#[test]
fn a_restart_waits_for_nothing_before_it() {
    let shared = Shared::new(7);
    // SAFETY: the only thread.
    assert_eq!(unsafe { shared.kernel.give(&[1, 2, 3]) }, 3);
    let mut one = [0];
    assert_eq!(shared.ring.pop(&mut one), 1);
    shared.departures.restart(shared.ring.position());
    let mut ticket = Ticket::new(shared.ring.pop_positions(&mut one));
    assert!(shared.departures.may_leave(&mut ticket, 0, PATIENCE));
    shared.departures.left(ticket);
    let mut next = Ticket::new(shared.ring.pop_positions(&mut one));
    assert!(shared.departures.may_leave(&mut next, 0, PATIENCE));
    shared.departures.left(next);
    assert_eq!((shared.departures.given_up(), shared.ring.pop_positions(&mut one)), (0, 0..0));
}

#[test]
fn a_thread_that_may_send_waits_for_no_time_any_more() {
    let departures = Departures::new(0);
    let [mut first, mut second, mut third] = [0..1, 1..2, 2..3].map(Ticket::new);
    assert!(!departures.may_leave(&mut second, 5, PATIENCE));
    assert_eq!(second.leaves_by(PATIENCE), Some(5 + PATIENCE));
    assert!(departures.may_leave(&mut first, 6, PATIENCE));
    departures.left(first);
    assert!(departures.may_leave(&mut second, 7, PATIENCE));
    assert_eq!(second.leaves_by(PATIENCE), None, "its turn has come");
    assert!(!departures.may_leave(&mut third, 8, PATIENCE));
    assert!(departures.may_leave(&mut third, 8 + PATIENCE, PATIENCE));
    assert_eq!(third.leaves_by(PATIENCE), None, "it has lost its patience");
    assert_eq!(departures.given_up(), 1);
    [second, third].into_iter().for_each(|ticket| departures.left(ticket));
}

/// Without a clock nobody loses patience.
#[test]
fn real_threads_send_in_order() {
    const TOTAL: u64 = if cfg!(miri) { 200 } else { 20_000 };
    let shared = Shared::new(u32::MAX - 1000);
    let (sink, sent) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs(120);
    std::thread::scope(|scope| {
        for most in 1..=4 {
            let (shared, sink, sent) = (&shared, &sink, &sent);
            scope.spawn(move || {
                while sent.load(Ordering::Relaxed) < TOTAL {
                    assert!(Instant::now() < end, "{sent:?} of {TOTAL}");
                    let mut taken = vec![0; most];
                    let positions = shared.ring.pop_positions(&mut taken);
                    if positions.is_empty() {
                        std::thread::yield_now();
                        continue;
                    }
                    taken.truncate((positions.end - positions.start) as usize);
                    let mut ticket = Ticket::new(positions);
                    while !shared.departures.may_leave(&mut ticket, 0, PATIENCE) {
                        std::thread::yield_now();
                    }
                    sent.fetch_add(taken.len() as u64, Ordering::Relaxed);
                    sink.lock().unwrap().extend(taken);
                    shared.departures.left(ticket);
                }
            });
        }
        let mut given = 0;
        while given < TOTAL {
            let items: Vec<u64> = (given..TOTAL.min(given + 7)).collect();
            // SAFETY: only this thread gives.
            given += unsafe { shared.kernel.give(&items) } as u64;
            std::thread::yield_now();
        }
    });
    assert!(sink.into_inner().unwrap().into_iter().eq(0..TOTAL));
    assert_eq!(shared.departures.given_up(), 0);
}
