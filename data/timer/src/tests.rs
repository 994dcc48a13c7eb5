use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use crate::{Key, Nanos, Wheel};

fn fired(wheel: &mut Wheel<u32>, now: Nanos) -> Vec<u32> {
    std::iter::from_fn(|| wheel.poll(now)).collect()
}

#[test]
fn fires_at_its_tick_and_not_before() {
    let mut wheel = Wheel::new(1000, 4, 0);
    wheel.insert(1500, 7);
    assert_eq!(wheel.next_deadline(), Some(2000));
    assert_eq!(fired(&mut wheel, 1999), []);
    assert_eq!(fired(&mut wheel, 2000), [7]);
    assert!(wheel.is_empty());
    assert_eq!(wheel.next_deadline(), None);
}

#[test]
fn a_deadline_in_the_past_fires_at_the_next_poll() {
    let mut wheel = Wheel::new(1000, 4, 50_000);
    wheel.insert(3, 1);
    assert!(wheel.next_deadline().is_some_and(|d| d <= 50_000));
    assert_eq!(fired(&mut wheel, 50_000), [1]);
}

#[test]
fn a_cancelled_key_is_dead_even_when_its_place_is_reused() {
    let mut wheel = Wheel::new(1, 4, 0);
    let first = wheel.insert(10, 1);
    assert_eq!(wheel.cancel(first), Some(1));
    let second = wheel.insert(10, 2);
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(fired(&mut wheel, 10), [2]);
    assert_eq!(wheel.cancel(second), None);
}

#[test]
fn the_farthest_deadline_is_kept() {
    let mut wheel = Wheel::new(1, 4, 0);
    wheel.insert(u64::MAX, 1);
    wheel.insert(5, 2);
    assert_eq!(fired(&mut wheel, u64::MAX - 1), [2]);
    assert_eq!(fired(&mut wheel, u64::MAX), [1]);
}

#[test]
fn a_clock_that_goes_back_loses_nothing() {
    let mut wheel = Wheel::new(10, 4, 1_000_000);
    assert_eq!(fired(&mut wheel, 2_000_000), []);
    wheel.insert(2_000_100, 1);
    assert_eq!(fired(&mut wheel, 5), []);
    wheel.insert(2_000_050, 2);
    assert_eq!(fired(&mut wheel, 2_000_100), [2, 1]);
}

#[test]
fn does_not_allocate_beyond_its_capacity() {
    let mut wheel = Wheel::new(1, 2, 0);
    for round in 0..if cfg!(miri) { 50 } else { 1000u64 } {
        wheel.insert(round * 3 + 1, 0);
        wheel.insert(round * 3 + 2, 1);
        assert_eq!(fired(&mut wheel, round * 3 + 3), [0, 1]);
        assert_eq!(wheel.capacity(), 2);
    }
}

/// A wheel and its reference.
struct Pair {
    wheel: Wheel<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    keys: Vec<(Key, u32)>,
    tick: u64,
    now: u64,
    farthest: u64,
    inserted: u32,
}

impl Pair {
    fn new(tick: u64, now: u64) -> Pair {
        Pair {
            wheel: Wheel::new(tick, 0, now),
            heap: BinaryHeap::new(),
            keys: Vec::new(),
            tick,
            now,
            farthest: now,
            inserted: 0,
        }
    }

    fn insert(&mut self, deadline: u64) {
        let id = self.inserted;
        self.inserted += 1;
        let key = self.wheel.insert(deadline, id);
        self.keys.push((key, id));
        // One tick's timers fire in the order of insertion, the overdue as if due now.
        let when = deadline.div_ceil(self.tick).max(self.farthest / self.tick);
        self.heap.push(Reverse((when, id)));
    }

    fn cancel(&mut self, which: usize) -> Result<(), TestCaseError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let (key, id) = self.keys[which % self.keys.len()];
        let pending = self.heap.iter().any(|Reverse((_, i))| *i == id);
        prop_assert_eq!(self.wheel.cancel(key), pending.then_some(id));
        self.heap.retain(|Reverse((_, i))| *i != id);
        Ok(())
    }

    fn advance(&mut self, by: i64) -> Result<(), TestCaseError> {
        self.now = self.now.saturating_add_signed(by);
        self.farthest = self.farthest.max(self.now);
        let due = self.farthest / self.tick;
        let mut expected = Vec::new();
        while self.heap.peek().is_some_and(|Reverse((when, _))| *when <= due) {
            expected.extend(self.heap.pop().map(|Reverse((_, id))| id));
        }
        prop_assert_eq!(fired(&mut self.wheel, self.now), expected);
        self.check_next()
    }

    fn check_next(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.wheel.len(), self.heap.len());
        let earliest = self.heap.peek().map(|Reverse((when, _))| when.saturating_mul(self.tick));
        prop_assert_eq!(self.wheel.next_deadline().is_some(), earliest.is_some());
        prop_assert!(self.wheel.next_deadline() <= earliest);
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Action {
    Insert(u64),
    Cancel(usize),
    Advance(i64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0u32..64, any::<u64>()).prop_map(|(bits, x)| Action::Insert(x >> bits)),
        2 => any::<usize>().prop_map(Action::Cancel),
        4 => (1u32..62, any::<i64>()).prop_map(|(bits, x)| Action::Advance(x >> bits)),
    ]
}

/// Few cases under Miri, which is slow; nothing is written to files there.
fn cases(cases: u32) -> ProptestConfig {
    let few = ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() };
    if cfg!(miri) { few } else { ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn fires_what_a_heap_would(
        tick in prop_oneof![Just(1u64), Just(7), Just(1_000_000)],
        start in any::<u32>(),
        actions in prop::collection::vec(action(), 1..if cfg!(miri) { 40 } else { 200 }),
    ) {
        let mut pair = Pair::new(tick, u64::from(start));
        for action in actions {
            match action {
                // Mostly near the present, sometimes anywhere.
                Action::Insert(after) => pair.insert(pair.now.wrapping_add(after)),
                Action::Cancel(which) => pair.cancel(which)?,
                Action::Advance(by) => pair.advance(by)?,
            }
        }
        pair.advance(i64::MAX)?;
    }
}

#[test]
fn timers_can_be_sifted() {
    let mut wheel = Wheel::new(1, 4, 0);
    for deadline in [3, 70, 5000, 400_000, 9] {
        wheel.insert(deadline, deadline);
    }
    assert_eq!(wheel.poll(3), Some(3));
    wheel.retain(|value| {
        *value += 1;
        !matches!(*value, 71 | 10)
    });
    assert_eq!(wheel.len(), 2);
    assert_eq!(wheel.poll(4999), None);
    assert_eq!(
        (wheel.poll(5000), wheel.poll(1 << 40), wheel.poll(1 << 41)),
        (Some(5001), Some(400_001), None)
    );
    assert_eq!(wheel.next_deadline(), None);
}

/// However many timers share a slot, no call moves more than a bounded number of them, and they fire in
/// their order all the same.
#[test]
fn a_crowded_slot_is_sorted_in_steps() {
    let mut wheel = Wheel::new(1, 4, 0);
    // More than two steps' worth.
    let n = if cfg!(miri) { 2100 } else { 5000 };
    // Later ones first, in one slot of the third level.
    let keys: Vec<Key> = (0..n).rev().map(|i| wheel.insert(8192 + u64::from(i) / 2, i)).collect();
    assert_eq!(wheel.poll(20_000), None, "it is not sorted yet");
    assert!(wheel.next_deadline().is_some_and(|deadline| deadline <= 20_000));
    assert_eq!(wheel.cancel(keys[17]), Some(n - 18), "whatever list it is in");
    let (mut seen, mut calls) = (Vec::new(), 0);
    while !wheel.is_empty() {
        seen.extend(fired(&mut wheel, 20_000));
        calls += 1;
        assert!(calls < 100, "it comes to an end");
    }
    assert_eq!(seen.len() as u32, n - 1);
    assert!(seen.is_sorted_by_key(|i| i / 2), "in the order of their ticks");
}
