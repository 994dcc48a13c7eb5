//! A ring that the kernel fills and we drain: completion and RX.

use std::ops::Range;

use crate::parts::{RingError, RingParts};
use crate::sequencer::{Sequencer, Users};

/// The most descriptors that a thread claims at once.
pub const MOST_CLAIMED: u32 = 64;
/// Fewer descriptors do not justify a wake-up: a thread that is awake has done with them by the time
/// that another has begun.
pub const WORTH_WAKING: u32 = 4;

/// How many of the descriptors that wait one of so many threads (at least one) should claim: as many as each
/// other, so that none idles, and at most [`MOST_CLAIMED`].
///
/// There is no least number. Threads that are awake poll all the time, and a thread that claims four packets
/// while another has none makes three of them wait for nothing: with eight threads at 80 % of their
/// capacity, that made the 99th percentile of latency half as long again (`weever bench corec`, on its virtual clock).
#[inline]
pub fn part(waiting: u32, threads: u32) -> u32 {
    waiting.div_ceil(threads.max(1)).clamp(1, MOST_CLAIMED)
}

/// Several threads consume from a ring that the kernel produces (COREC on AF_XDP).
///
/// `pop`, `drain` and [`claim`](Self::claim) take descriptors out; the other methods are getters.
/// None blocks, allocates or makes a system call. The ring looks readable to `poll()` until the
/// descriptors are released, and one arrival wakes every waiter: let one thread sleep per queue.
pub struct MultiConsumer<T> {
    parts: RingParts<T>,
    gate: Sequencer,
}

impl<T: Copy + Send> MultiConsumer<T> {
    /// Takes over our side of a ring, from its current position on.
    ///
    /// # Errors
    /// [`RingError::Length`] if the length is not a power of two of at most 2³⁰.
    ///
    /// # Safety
    /// The parts lead to memory that is valid, aligned and laid out as they say until the ring and
    /// all its claims are gone; no one else writes `consumer`; the other side has written valid
    /// `T`s between `consumer` and `producer` and leaves them alone until `consumer` has passed.
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
    /// As for [`new`](Self::new). No two threads take descriptors out, or drop claims, at a time: all but getters.
    pub unsafe fn for_one_thread(parts: RingParts<T>) -> Result<Self, RingError> {
        // SAFETY: by the caller's word.
        unsafe { Self::of(Users::One, parts) }
    }

    /// # Safety
    /// As for [`new`](Self::new), and as [`Users`] says.
    unsafe fn of(users: Users, parts: RingParts<T>) -> Result<Self, RingError> {
        parts.check()?;
        // SAFETY: the indices are valid and ours alone by the caller's word.
        let gate = unsafe { Sequencer::new(users, parts.consumer, parts.producer, parts.len, 0) };
        Ok(MultiConsumer { parts, gate })
    }

    /// The number of slots.
    pub fn capacity(&self) -> u32 {
        self.parts.len
    }

    /// How many descriptors wait; only a hint when other threads consume too.
    pub fn available(&self) -> u32 {
        self.gate.room()
    }

    /// How many descriptors are claimed and not yet released to the kernel. If it stays up, some
    /// thread sleeps while it holds a [`Claim`].
    pub fn unreleased(&self) -> u32 {
        self.gate.unfinished()
    }

    /// Grows by one with each descriptor that is claimed, by any thread: the difference of two counts.
    pub fn position(&self) -> u64 {
        self.gate.position()
    }

    /// Whether the kernel wants a system call before it goes on with the ring.
    pub fn needs_wakeup(&self) -> bool {
        // SAFETY: the parts are live by the contract of `new`.
        unsafe { self.parts.needs_wakeup() }
    }

    /// Moves up to `out.len()` descriptors to the front of `out` and returns their number.
    #[inline]
    pub fn pop(&self, out: &mut [T]) -> usize {
        let positions = self.pop_positions(out);
        (positions.end - positions.start) as usize
    }

    /// The same, and returns their positions: of two descriptors, the one that the kernel gave first has the
    /// smaller one. Positions never repeat.
    #[inline]
    pub fn pop_positions(&self, out: &mut [T]) -> Range<u64> {
        let max = u32::try_from(out.len()).unwrap_or(u32::MAX);
        let Some(claim) = self.claim(max) else { return 0..0 };
        for (place, descriptor) in out.iter_mut().zip(claim.iter()) {
            *place = descriptor;
        }
        claim.range.clone()
    }

    /// Hands up to `max` descriptors to `take` in ring order and returns their number. They are
    /// released after the last one, also if `take` panics: keep it short.
    #[inline]
    pub fn drain(&self, max: u32, take: impl FnMut(T)) -> usize {
        let Some(claim) = self.claim(max) else { return 0 };
        claim.iter().for_each(take);
        claim.len() as usize
    }

    /// Takes up to `max` descriptors for this thread alone; `None` if there are none (or `max` is
    /// 0). Copy them out and drop the claim: until then the kernel cannot reuse their slots nor
    /// those behind them.
    #[inline]
    pub fn claim(&self, max: u32) -> Option<Claim<'_, T>> {
        let range = self.gate.claim(1, max)?;
        Some(Claim { ring: self, range })
    }
}

/// Descriptors that belong to the holder; dropping it releases their slots to the kernel.
#[must_use = "dropping a claim without reading it loses its descriptors"]
pub struct Claim<'r, T: Copy + Send> {
    ring: &'r MultiConsumer<T>,
    range: Range<u64>,
}

impl<T: Copy + Send> Claim<'_, T> {
    /// The number of descriptors, at least 1.
    #[allow(clippy::len_without_is_empty, reason = "a claim is never empty")]
    pub fn len(&self) -> u32 {
        (self.range.end - self.range.start) as u32
    }

    /// The descriptors in ring order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + '_ {
        (0..self.len()).map(|i| self.at(i))
    }

    fn at(&self, i: u32) -> T {
        // SAFETY: the parts are live by the contract of `MultiConsumer::new`; the position is ours
        // alone, and the kernel does not write it before we complete it.
        unsafe { self.ring.parts.slot(self.range.start + u64::from(i)).read() }
    }
}

impl<T: Copy + Send> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        // SAFETY: claimed in `MultiConsumer::claim`, completed only here.
        unsafe { self.ring.gate.complete(self.range.clone()) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_leave_something_for_each_thread() {
        assert_eq!([0, 1, 2, 3, 8, 9].map(|waiting| part(waiting, 2)), [1, 1, 1, 2, 4, 5]);
        assert_eq!([7, 8, 9, 600].map(|waiting| part(waiting, 8)), [1, 1, 2, 64]);
        assert_eq!((part(5, 1), part(5, 0)), (5, 5));
    }
}
