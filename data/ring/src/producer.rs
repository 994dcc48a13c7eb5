//! A ring that we fill and the kernel drains: fill and TX.

use std::ops::Range;

use crate::parts::{RingError, RingParts};
use crate::sequencer::Sequencer;

/// Several threads produce into a ring that the kernel consumes.
///
/// `push*` and [`reserve`](Self::reserve) put descriptors in; the other methods are getters.
/// Share it by reference or in an `Arc`. None of its methods blocks, allocates or makes a system
/// call; kicking the kernel ([`needs_wakeup`](Self::needs_wakeup)) is the caller's business.
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
        parts.check()?;
        // SAFETY: the indices are valid and ours alone by the caller's word.
        let gate = unsafe { Sequencer::new(parts.producer, parts.consumer, parts.len, parts.len) };
        Ok(MultiProducer { parts, gate })
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
        let Some(slots) = self.reserve_between(min, clamp(items.len())) else { return 0 };
        let n = slots.len() as usize;
        slots.publish_with(|i| items[i as usize]);
        n
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

    #[inline]
    fn reserve_between(&self, min: u32, max: u32) -> Option<Reservation<'_, T>> {
        let range = self.gate.claim(min, max)?;
        Some(Reservation { ring: self, range })
    }
}

fn clamp(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Slots that belong to the holder until it publishes them.
///
/// A reservation that is dropped without being published blocks the ring for good, as the kernel
/// knows no holes: reserve when the descriptors are at hand.
#[must_use = "a reservation that is not published blocks the ring"]
pub struct Reservation<'r, T> {
    ring: &'r MultiProducer<T>,
    range: Range<u64>,
}

impl<T: Copy + Send> Reservation<'_, T> {
    /// The number of slots, at least 1.
    #[allow(clippy::len_without_is_empty, reason = "a reservation is never empty")]
    pub fn len(&self) -> u32 {
        (self.range.end - self.range.start) as u32
    }

    /// Writes `descriptor(i)` into slot `i`, for `i` in `0..len`, and hands all to the kernel as
    /// soon as earlier reservations are handed over. `descriptor` must not panic.
    #[inline]
    pub fn publish_with(self, mut descriptor: impl FnMut(u32) -> T) {
        for (i, position) in self.range.clone().enumerate() {
            let value = descriptor(i as u32);
            // SAFETY: the parts are live by the contract of `MultiProducer::new`; the position was
            // claimed for us alone, and the kernel does not look before we complete it.
            unsafe { self.ring.parts.slot(position).write(value) };
        }
        // SAFETY: claimed in `reserve_between`, completed only here, where self ends.
        unsafe { self.ring.gate.complete(self.range) };
    }
}
