//! A ring that we fill and the kernel drains: fill and TX.

use std::ops::Range;

use crate::parts::{RingError, RingParts};
use crate::sequencer::{Sequencer, Users};

/// Several threads produce into a ring that the kernel consumes.
///
/// `push*` and [`reserve`](Self::reserve) put descriptors in; the other methods are getters.
/// Share it by reference or in an `Arc`. None of its methods blocks or makes a system call, and none allocates
/// but `push*` into gaps that a [`Reservation`] has left. Kicking the kernel
/// ([`needs_wakeup`](Self::needs_wakeup)) is the caller's business.
pub struct MultiProducer<T> {
    parts: RingParts<T>,
    gate: Sequencer,
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
        // SAFETY: by the caller's word.
        unsafe { Self::of(Users::Several, parts) }
    }

    /// The same for a ring that one thread at a time works, which needs no locked instruction for that.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Safety
    /// As for [`new`](Self::new). No two threads put descriptors in, reserve slots or drop reservations at a time: all but
    /// getters.
    pub unsafe fn for_one_thread(parts: RingParts<T>) -> Result<Self, RingError> {
        // SAFETY: by the caller's word.
        unsafe { Self::of(Users::One, parts) }
    }

    /// # Safety
    /// As for [`new`](Self::new), and as [`Users`] says.
    unsafe fn of(users: Users, parts: RingParts<T>) -> Result<Self, RingError> {
        parts.check()?;
        let RingParts { producer, consumer, len, .. } = parts;
        // SAFETY: the indices are valid and ours alone by the caller's word.
        let gate = unsafe { Sequencer::new(users, producer, consumer, len, len) };
        Ok(MultiProducer { parts, gate })
    }

    /// The number of slots.
    pub fn capacity(&self) -> u32 {
        self.parts.len
    }

    /// How many descriptors fit now, in gaps too; only a hint when other threads push too.
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
        if self.gate.has_abandoned() {
            return self.push_over_gaps(min, items);
        }
        let Some(slots) = self.take(min, clamp(items.len())) else { return 0 };
        slots.publish(items)
    }

    /// The same where reservations have left gaps: these are filled first, since descriptors behind them are not
    /// visible before.
    #[cold]
    fn push_over_gaps(&self, min: u32, items: &[T]) -> usize {
        let (max, mut slots) = (clamp(items.len()), Vec::new());
        let mut missing = max;
        while missing > 0
            && let Some(gap) = self.take_gap(1, missing)
        {
            missing -= gap.len();
            slots.push(gap);
        }
        if missing > 0
            && let Some(behind) = self.take(min.saturating_sub(max - missing).max(1), missing)
        {
            missing -= behind.len();
            slots.push(behind);
        }
        if max - missing < min {
            // Dropped, the slots are gaps again.
            return 0;
        }
        let mut left = items;
        for reserved in slots {
            left = &left[reserved.publish(left)..];
        }
        items.len() - left.len()
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
        let gap = if self.gate.has_abandoned() { self.take_gap(min, max) } else { None };
        gap.or_else(|| self.take(min, max))
    }

    #[cold]
    fn take_gap(&self, min: u32, max: u32) -> Option<Reservation<'_, T>> {
        Some(self.reservation(self.gate.take_over(min, max)?))
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
            // SAFETY: the range is this reservation's, from `take` or `take_gap`; it is completed only here.
            unsafe { self.ring.gate.complete(start..self.written) };
        }
        if self.written < end {
            // SAFETY: as above; this is the part that was not completed.
            unsafe { self.ring.gate.abandon(self.written..end) };
        }
    }
}
