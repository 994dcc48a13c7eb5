//! Random schedules of reservations, completions in any order and kernel moves, against an obvious
//! reference.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "rings are made of raw parts")]

use std::collections::VecDeque;

use proptest::prelude::*;
use weever_ring::simulated::SimulatedKernel;
use weever_ring::{MultiConsumer, MultiProducer, RingError, RingParts};

#[derive(Debug, Clone)]
enum Step {
    /// Reserve or claim up to so many.
    Begin(u32),
    /// Finish one of those begun, picked by this number.
    Finish(usize),
    /// Drop one that was reserved, unwritten; as finishing where slots were claimed.
    Abandon(usize),
    /// The kernel moves by up to so many.
    Kernel(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0u32..9).prop_map(Step::Begin),
        any::<usize>().prop_map(Step::Finish),
        any::<usize>().prop_map(Step::Abandon),
        (0u32..9).prop_map(Step::Kernel),
    ];
    prop::collection::vec(step, 0..if cfg!(miri) { 40 } else { 200 })
}

fn ring_shape() -> impl Strategy<Value = (u32, u32)> {
    (0u32..5).prop_flat_map(|log| (Just(1 << log), prop_oneof![any::<u32>(), u32::MAX - 40..]))
}

/// A position that is begun and not yet visible to the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Open,
    Finished,
    Gap,
}

/// The positions begun, in ring order; from the front the finished ones become visible to the kernel.
#[derive(Default)]
struct Reference {
    begun: VecDeque<(u64, Slot)>,
    next: u64,
}

impl Reference {
    fn begin(&mut self, n: u32) -> Vec<u64> {
        let items: Vec<u64> = (self.next..).take(n as usize).collect();
        self.begun.extend(items.iter().map(|item| (*item, Slot::Open)));
        self.next += u64::from(n);
        items
    }

    /// Up to `max` slots of the first gap; without one, new ones if there is room for them.
    fn reserve(&mut self, max: u32, room: u32) -> Vec<u64> {
        let gap = self.begun.iter_mut().skip_while(|(_, slot)| *slot != Slot::Gap);
        let gap = gap.take_while(|(_, slot)| *slot == Slot::Gap).take(max as usize);
        let items: Vec<u64> = gap
            .map(|(item, slot)| {
                *slot = Slot::Open;
                *item
            })
            .collect();
        if items.is_empty() { self.begin(room.min(max)) } else { items }
    }

    fn set(&mut self, items: &[u64], now: Slot) {
        let begun = self.begun.iter_mut().filter(|(item, _)| items.contains(item));
        begun.for_each(|(_, slot)| *slot = now);
    }

    fn finish(&mut self, items: &[u64]) -> usize {
        self.set(items, Slot::Finished);
        let n = self.begun.iter().take_while(|(_, slot)| *slot == Slot::Finished).count();
        self.begun.drain(..n);
        n
    }

    fn gaps(&self) -> u32 {
        self.begun.iter().filter(|(_, slot)| *slot == Slot::Gap).count() as u32
    }
}

/// Few cases under Miri, which is slow; nothing is written to files there.
fn cases(cases: u32) -> ProptestConfig {
    let few = ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() };
    if cfg!(miri) { few } else { ProptestConfig::with_cases(cases) }
}

/// A ring for one thread, or for several.
///
/// # Safety
/// The parts outlive it, and one thread works it.
unsafe fn producer(parts: RingParts<u64>, alone: bool) -> Result<MultiProducer<u64>, RingError> {
    // SAFETY: by the caller's word.
    unsafe { if alone { MultiProducer::for_one_thread(parts) } else { MultiProducer::new(parts) } }
}

/// The same.
///
/// # Safety
/// As there.
unsafe fn consumer(parts: RingParts<u64>, alone: bool) -> Result<MultiConsumer<u64>, RingError> {
    // SAFETY: by the caller's word.
    unsafe { if alone { MultiConsumer::for_one_thread(parts) } else { MultiConsumer::new(parts) } }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn producing_matches_the_reference((len, start) in ring_shape(), steps in steps(), alone in any::<bool>()) {
        let kernel = SimulatedKernel::new(len, start, u64::MAX).unwrap();
        // SAFETY: `kernel` outlives the ring; a single thread throughout.
        let ring = unsafe { producer(kernel.parts(), alone) }.unwrap();
        let (mut reference, mut open) = (Reference::default(), Vec::new());
        let (mut visible, mut taken) = (0, 0);
        for step in steps {
            match step {
                Step::Begin(max) => {
                    let room = len - visible - reference.begun.len() as u32;
                    prop_assert_eq!(ring.free(), room + reference.gaps());
                    let reservation = ring.reserve(max);
                    let items = reference.reserve(max, room);
                    let n = reservation.as_ref().map_or(0, |r| r.len());
                    prop_assert_eq!(n as usize, items.len());
                    open.extend(reservation.map(|r| (r, items)));
                }
                Step::Finish(pick) if !open.is_empty() => {
                    let (reservation, items) = open.swap_remove(pick % open.len());
                    reservation.publish_with(|i| items[i as usize]);
                    visible += reference.finish(&items) as u32;
                }
                Step::Abandon(pick) if !open.is_empty() => {
                    let (reservation, items) = open.swap_remove(pick % open.len());
                    drop(reservation);
                    reference.set(&items, Slot::Gap);
                }
                Step::Finish(_) | Step::Abandon(_) => {}
                Step::Kernel(max) => {
                    // SAFETY: as above.
                    let seen = unsafe { kernel.take(max) };
                    prop_assert_eq!(seen.len() as u32, visible.min(max));
                    prop_assert!(seen.iter().copied().eq(taken..taken + seen.len() as u64));
                    taken += seen.len() as u64;
                    visible -= seen.len() as u32;
                }
            }
            prop_assert_eq!(ring.unpublished() as usize, reference.begun.len());
        }
    }

    #[test]
    fn consuming_matches_the_reference((len, start) in ring_shape(), steps in steps(), alone in any::<bool>()) {
        let kernel = SimulatedKernel::new(len, start, u64::MAX).unwrap();
        // SAFETY: `kernel` outlives the ring; a single thread throughout.
        let ring = unsafe { consumer(kernel.parts(), alone) }.unwrap();
        let (mut reference, mut open) = (Reference::default(), Vec::new());
        let (mut waiting, mut given) = (0, 0u64);
        for step in steps {
            match step {
                Step::Begin(max) => {
                    prop_assert_eq!(ring.available(), waiting);
                    let claim = ring.claim(max);
                    let n = claim.as_ref().map_or(0, |c| c.len());
                    prop_assert_eq!(n, waiting.min(max));
                    let items = reference.begin(n);
                    waiting -= n;
                    open.extend(claim.map(|c| (c, items)));
                }
                Step::Finish(pick) | Step::Abandon(pick) if !open.is_empty() => {
                    let (claim, items) = open.swap_remove(pick % open.len());
                    prop_assert!(claim.iter().eq(items.iter().copied()));
                    drop(claim);
                    reference.finish(&items);
                }
                Step::Finish(_) | Step::Abandon(_) => {}
                Step::Kernel(max) => {
                    let items: Vec<u64> = (given..).take(max as usize).collect();
                    let room = len - waiting - reference.begun.len() as u32;
                    // SAFETY: as above.
                    let n = unsafe { kernel.give(&items) } as u32;
                    prop_assert_eq!(n, room.min(max));
                    given += u64::from(n);
                    waiting += n;
                }
            }
            prop_assert_eq!(ring.unreleased() as usize, reference.begun.len());
        }
    }
}

#[test]
fn lengths_that_are_no_ring_are_refused() {
    for len in [0, 3, 12] {
        let refused = SimulatedKernel::new(len, 0, 0u64).err();
        assert_eq!(refused, Some(RingError::Length { len }));
    }
}

#[test]
fn wakeup_flag_is_the_first_bit() {
    let kernel = SimulatedKernel::new(2, 0, 0u64).unwrap();
    // SAFETY: `kernel` outlives the ring.
    let ring = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
    assert!(!ring.needs_wakeup());
    kernel.set_needs_wakeup(true);
    assert!(ring.needs_wakeup());
}
