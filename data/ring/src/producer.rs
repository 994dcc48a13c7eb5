//! A ring that we fill and the kernel drains: fill and TX.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::parts::{RingError, RingParts};
use crate::sequencer::Sequencer;

/// Several threads produce into a ring that the kernel consumes.
///
/// `push*` and [`reserve`](Self::reserve) put descriptors in; the other methods are getters.
/// Share it by reference or in an `Arc`. None of its methods blocks, allocates or makes a system
/// call, but for a [`Reservation`] that ends unpublished; kicking the kernel
/// ([`needs_wakeup`](Self::needs_wakeup)) is the caller's business.
pub struct MultiProducer<T> {
    parts: RingParts<T>,
    gate: Sequencer,
    gaps: Gaps,
}

impl<T: Copy + Send> MultiProducer<T> {
    /// Takes over our side of a ring, from its current position on.
    ///
    /// # Errors
    /// [`RingError::Length`] if the length is not a power of two of at most 2³⁰.
    ///
    /// # Safety
    /// The parts lead to memory that is valid, aligned and laid out as they say until the ring and
    /// all its reservations are gone; no one else writes `producer` or the slots between `producer`
    /// and `consumer + len`; the other side moves `consumer` by no more than was produced.
    pub unsafe fn new(parts: RingParts<T>) -> Result<Self, RingError> {
        parts.check()?;
        // SAFETY: the indices are valid and ours alone by the caller's word.
        let gate = unsafe { Sequencer::new(parts.producer, parts.consumer, parts.len, parts.len) };
        Ok(MultiProducer { parts, gate, gaps: Gaps::default() })
    }

    /// The number of slots.
    pub fn capacity(&self) -> u32 {
        self.parts.len
    }

    /// How many descriptors fit now; only a hint when other threads push too.
    pub fn free(&self) -> u32 {
        self.gate.room()
    }

    /// How many slots are reserved and not yet visible to the kernel. If it stays up, some thread
    /// sleeps between [`reserve`](Self::reserve) and publishing.
    pub fn unpublished(&self) -> u32 {
        self.gate.unfinished()
    }

    /// Whether the kernel wants a system call (`sendto` or `poll`) before it looks at the ring.
    /// Meaningful after a push when the socket was bound with `XDP_USE_NEED_WAKEUP`.
    pub fn needs_wakeup(&self) -> bool {
        // SAFETY: the parts are live by the contract of `new`.
        unsafe { self.parts.needs_wakeup() }
    }

    /// Puts in as many of `items` as fit, from the front, and returns their number.
    #[inline]
    pub fn push(&self, items: &[T]) -> usize {
        self.push_at_least(1, items)
    }

    /// Puts in all of `items`, or none if they do not all fit; says which.
    #[inline]
    pub fn push_all(&self, items: &[T]) -> bool {
        self.push_at_least(clamp(items.len()), items) == items.len()
    }

    #[inline]
    fn push_at_least(&self, min: u32, items: &[T]) -> usize {
        if self.gaps.is_any() {
            return self.push_from_a_gap_on(min, items);
        }
        let Some(slots) = self.take(min, clamp(items.len())) else { return 0 };
        slots.publish(items)
    }

    /// The same where a reservation has left a gap: the gap is filled first, since descriptors behind it
    /// are not visible before.
    #[cold]
    fn push_from_a_gap_on(&self, min: u32, items: &[T]) -> usize {
        let max = clamp(items.len());
        let gap = self.gaps.take(1, max).map(|range| self.reservation(range));
        let filled = gap.as_ref().map_or(0, Reservation::len);
        let rest = if filled < max {
            self.take(min.saturating_sub(filled).max(1), max - filled)
        } else {
            None
        };
        if filled + rest.as_ref().map_or(0, Reservation::len) < min {
            return 0;
        }
        let (first, behind) = items.split_at(filled as usize);
        [(gap, first), (rest, behind)]
            .into_iter()
            .map(|(slots, items)| slots.map_or(0, |slots| slots.publish(items)))
            .sum()
    }

    /// Reserves between 1 and `max` slots, to be written and published in one go; `None` if the
    /// ring is full or `max` is 0.
    #[inline]
    pub fn reserve(&self, max: u32) -> Option<Reservation<'_, T>> {
        self.reserve_between(1, max)
    }

    /// Reserves exactly `n` slots, or none.
    #[inline]
    pub fn reserve_exact(&self, n: u32) -> Option<Reservation<'_, T>> {
        self.reserve_between(n, n)
    }

    fn reserve_between(&self, min: u32, max: u32) -> Option<Reservation<'_, T>> {
        let gap = if self.gaps.is_any() { self.gaps.take(min, max) } else { None };
        gap.map(|range| self.reservation(range)).or_else(|| self.take(min, max))
    }

    #[inline]
    fn take(&self, min: u32, max: u32) -> Option<Reservation<'_, T>> {
        Some(self.reservation(self.gate.claim(min, max)?))
    }

    #[inline]
    fn reservation(&self, range: Range<u64>) -> Reservation<'_, T> {
        Reservation { ring: self, written: range.start, range }
    }
}

fn clamp(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Slots that belong to the holder until it publishes them.
///
/// The kernel's ring has no holes, so descriptors behind a reservation wait for it: reserve when the descriptors are
/// at hand. Slots that a reservation has not written when it is dropped, however its thread ends, are a gap, which
/// the next call to reserve or push gets before any other slots. Descriptors of a thread that fills one of them may
/// overtake earlier ones of its own.
#[must_use = "descriptors behind a reservation wait until it is published"]
pub struct Reservation<'r, T> {
    ring: &'r MultiProducer<T>,
    range: Range<u64>,
    /// All slots before this one are written.
    written: u64,
}

impl<T> Reservation<'_, T> {
    /// The number of slots, at least 1.
    #[allow(clippy::len_without_is_empty, reason = "a reservation is never empty")]
    pub fn len(&self) -> u32 {
        (self.range.end - self.range.start) as u32
    }
}

impl<T: Copy + Send> Reservation<'_, T> {
    /// Writes `descriptor(i)` into slot `i`, for `i` in `0..len`, and hands all to the kernel as
    /// soon as earlier reservations are handed over. If `descriptor` panics, those that it has made are handed over.
    #[inline]
    pub fn publish_with(mut self, mut descriptor: impl FnMut(u32) -> T) {
        for (i, position) in self.range.clone().enumerate() {
            let value = descriptor(i as u32);
            // SAFETY: the parts are live by the contract of `MultiProducer::new`; the position was
            // claimed for us alone, and the kernel does not look before we complete it.
            unsafe { self.ring.parts.slot(position).write(value) };
            self.written = position + 1;
        }
    }

    /// Writes the first of `items` into its slots and returns their number.
    #[inline]
    fn publish(self, items: &[T]) -> usize {
        let items = &items[..self.len() as usize];
        self.publish_with(|i| items[i as usize]);
        items.len()
    }
}

impl<T> Drop for Reservation<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let Range { start, end } = self.range;
        if self.written > start {
            // SAFETY: claimed in `MultiProducer::take`, perhaps by a reservation that did not write it; completed
            // only here.
            unsafe { self.ring.gate.complete(start..self.written) };
        }
        if self.written < end {
            self.ring.gaps.add(self.written..end);
        }
    }
}

/// Slots that were reserved and not written, by reservations that are gone.
#[derive(Default)]
struct Gaps {
    ranges: Mutex<Vec<Range<u64>>>,
    /// Their number, which can be read without the lock; the slots are behind the lock.
    count: AtomicUsize,
}

impl Gaps {
    #[inline]
    fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn add(&self, range: Range<u64>) {
        self.change(|ranges| ranges.push(range));
    }

    /// Takes between `min` and `max` slots from the first range that has at least `min`.
    #[cold]
    fn take(&self, min: u32, max: u32) -> Option<Range<u64>> {
        self.change(|ranges| {
            ranges.sort_unstable_by_key(|range| range.start);
            let least = u64::from(min.max(1));
            let place = ranges.iter().position(|range| range.end - range.start >= least)?;
            let Range { start, end } = ranges[place];
            let taken = start..end.min(start + u64::from(max));
            ranges[place].start = taken.end;
            ranges.retain(|range| !range.is_empty());
            (!taken.is_empty()).then_some(taken)
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut Vec<Range<u64>>) -> R) -> R {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut ranges);
        self.count.store(ranges.len(), Ordering::Relaxed);
        result
    }
}
