//! The algorithm both rings share: claim by CAS, complete in any order, release in order.
//!
//! Words: `ours` is the kernel-visible index that our side moves, `theirs` the one the kernel
//! moves. Positions are 64 bits and never wrap; the low 32 bits of one are the ring's index.
//! Invariant: `ours ≤ head ≤ theirs + slack` and `theirs + slack - ours ≤ len`, where `slack` is
//! `len` when we produce (we may run a lap ahead of the consumer) and 0 when we consume.
//!
//! A claimed position is with one owner until it is finished: with the thread that claimed it, or, once that has
//! abandoned it, with whoever takes it over. Its mark says which: [`finished`], [`abandoned`], or neither.
//!
//! Where [one thread](Users::One) at a time works a ring, the same words are moved without locked instructions, and no
//! mark is looked at that only another thread could have left.
//!
//! `docs/design/0072` says which model fails if one of the orderings is weaker.

use std::ops::Range;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::parts::{AtomicU32, AtomicU64, Ordering, fence};

/// The mark of a finished position. Tagged with the position, so that a mark never has to be cleared and one of an
/// earlier lap cannot be mistaken.
fn finished(position: u64) -> u64 {
    position + 1
}

/// The mark of a position that its owner has given up. Positions are far below 2⁶³.
fn abandoned(position: u64) -> u64 {
    1 << 63 | finished(position)
}

/// The mark of a position that was abandoned and has an owner again. No position has this tag.
const TAKEN_OVER: u64 = 0;

/// The threads that claim positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// One at a time, for as long as the ring is there.
    One,
    Several,
}

pub(crate) struct Sequencer {
    users: Users,
    ours: NonNull<AtomicU32>,
    theirs: NonNull<AtomicU32>,
    slack: u32,
    /// The next position to be claimed.
    head: CachePadded<AtomicU64>,
    /// How far `head` may go as far as is known: a cached lower bound of `theirs + slack`, so that
    /// the cache line which the kernel writes is only fetched when the known room is used up.
    limit: CachePadded<AtomicU64>,
    /// The mark of position `p` is `marks[p % len]`, or that of an earlier lap.
    marks: Box<[AtomicU64]>,
    /// The number of abandoned positions, or more for a moment: a hint that saves looking for them.
    abandoned: AtomicU64,
}

// SAFETY: the pointers lead to atomics, which may be used from any thread.
unsafe impl Send for Sequencer {}
// SAFETY: as above; all other state is atomic.
unsafe impl Sync for Sequencer {}

impl Sequencer {
    /// # Safety
    /// `ours` and `theirs` stay valid while the sequencer lives; no one else writes `ours`. With [`Users::One`], no two
    /// threads claim, complete, abandon or take over at a time.
    pub(crate) unsafe fn new(
        users: Users,
        ours: NonNull<AtomicU32>,
        theirs: NonNull<AtomicU32>,
        len: u32,
        slack: u32,
    ) -> Self {
        // SAFETY: valid by the caller's word.
        let start = unsafe { ours.as_ref() }.load(Ordering::Acquire);
        // One lap above, so that `head - len` cannot go below zero.
        let head = u64::from(start) + (1 << 32);
        let marks = (0..len).map(|_| AtomicU64::new(TAKEN_OVER)).collect();
        let head_cell = CachePadded::new(AtomicU64::new(head));
        let limit = CachePadded::new(AtomicU64::new(head));
        let abandoned = AtomicU64::new(0);
        Sequencer { users, ours, theirs, slack, head: head_cell, limit, marks, abandoned }
    }

    fn ours(&self) -> &AtomicU32 {
        // SAFETY: valid as long as self, by the contract of `new`.
        unsafe { self.ours.as_ref() }
    }

    fn theirs(&self) -> &AtomicU32 {
        // SAFETY: valid as long as self, by the contract of `new`.
        unsafe { self.theirs.as_ref() }
    }

    /// Takes between `min` and `max` positions for the caller alone, or none.
    #[inline]
    pub(crate) fn claim(&self, min: u32, max: u32) -> Option<Range<u64>> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let mut room = self.limit.load(Ordering::Acquire).saturating_sub(head);
            if room < u64::from(max) {
                room = self.look_for_room(head);
            }
            let n = room.min(u64::from(max));
            if n == 0 || n < u64::from(min) {
                return None;
            }
            if self.users == Users::One {
                self.head.store(head + n, Ordering::Release);
                return Some(head..head + n);
            }
            let taken = self.head.compare_exchange_weak(
                head,
                head + n,
                Ordering::Release,
                Ordering::Acquire,
            );
            match taken {
                Ok(_) => return Some(head..head + n),
                Err(now) => head = now,
            }
        }
    }

    /// The room behind `head`, from the kernel's index.
    #[inline]
    fn look_for_room(&self, head: u64) -> u64 {
        let theirs = self.theirs().load(Ordering::Acquire);
        // `theirs` was at least `head - slack` when `head` was read, hence is so now, and the
        // 32-bit difference never exceeds the true one however long we were descheduled.
        let ahead = theirs.wrapping_add(self.slack).wrapping_sub(head as u32);
        let limit = head + u64::from(ahead);
        let mut known = self.limit.load(Ordering::Acquire);
        // Another thread that asks for the room may store an older limit: a lower bound, too.
        if self.users == Users::One && known < limit {
            self.limit.store(limit, Ordering::Release);
            known = limit;
        }
        // Most looks find nothing new (an empty poll, the end of a burst): a locked instruction
        // for each would cost more than the rest of the claim. `fetch_max` is the same loop, but
        // ThreadSanitizer does not see that it synchronises.
        while known < limit {
            let raised = self.limit.compare_exchange_weak(
                known,
                limit,
                Ordering::Release,
                Ordering::Acquire,
            );
            match raised {
                Ok(_) => break,
                Err(now) => known = now,
            }
        }
        known.max(limit) - head
    }

    /// Declares a claimed range finished, and moves the kernel-visible index as far as it can.
    ///
    /// # Safety
    /// The range belongs to the caller, who claimed it or took it over here. It belongs to nobody afterwards.
    #[inline]
    pub(crate) unsafe fn complete(&self, claimed: Range<u64>) {
        // While `claimed.start` is unmarked only its owner can move the index beyond it, so the
        // owner needs neither mark nor CAS once the index has arrived there.
        if self.ours().load(Ordering::Acquire) == claimed.start as u32 {
            self.ours().store(claimed.end as u32, Ordering::Release);
            // Nobody can have claimed anything since.
            if self.users == Users::One && claimed.end == self.position() {
                return;
            }
        } else {
            for position in claimed {
                self.mark(position).store(finished(position), Ordering::Release);
            }
        }
        self.carry_over_marks();
    }

    /// Gives a range up unfinished, for [`take_over`](Self::take_over). The index stays in front of it until then.
    ///
    /// # Safety
    /// As for [`complete`](Self::complete).
    #[cold]
    pub(crate) unsafe fn abandon(&self, owned: Range<u64>) {
        // Counted before they can be taken over, so that the count does not go below zero.
        self.abandoned.fetch_add(owned.end - owned.start, Ordering::Relaxed);
        for position in owned {
            self.mark(position).store(abandoned(position), Ordering::Release);
        }
    }

    /// Whether positions were abandoned; a hint when others do that too.
    #[inline]
    pub(crate) fn has_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) > 0
    }

    /// Takes between `min` and `max` abandoned positions for the caller alone, the first that lie together; or none.
    #[cold]
    pub(crate) fn take_over(&self, min: u32, max: u32) -> Option<Range<u64>> {
        let mut start = self.widen(self.ours().load(Ordering::Acquire));
        let head = self.head.load(Ordering::Relaxed);
        while start < head {
            let end = self.take_over_until(start, head.min(start + u64::from(max)));
            if end - start >= u64::from(min.max(1)) {
                return Some(start..end);
            }
            // SAFETY: taken over just before.
            unsafe { self.abandon(start..end) };
            start = end.max(start + 1);
        }
        None
    }

    /// Takes over abandoned positions from `start` on, up to `most`. Returns the first that is not.
    fn take_over_until(&self, start: u64, most: u64) -> u64 {
        let is_ours = |position: &u64| {
            let (old, new) = (abandoned(*position), TAKEN_OVER);
            let mark = self.mark(*position);
            mark.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let count = (start..most).take_while(is_ours).count() as u64;
        self.abandoned.fetch_sub(count, Ordering::Relaxed);
        start + count
    }

    /// Moves the index over finished positions until there is an unfinished one right behind it.
    ///
    /// A thread that moves the index then looks for a mark behind it, and a thread that leaves a
    /// mark then looks at the index, with a SeqCst fence in between in both cases: so at least one
    /// of the two sees the other, and no finished position is forgotten.
    #[inline]
    fn carry_over_marks(&self) {
        loop {
            fence(Ordering::SeqCst);
            let index = self.ours().load(Ordering::Acquire);
            let from = self.widen(index);
            let to = self.end_of_marks(from);
            if to == from {
                return;
            }
            // A failure means that another thread moved the index: look again from there.
            let _ = self.ours().compare_exchange(
                index,
                to as u32,
                Ordering::Release,
                Ordering::Relaxed,
            );
        }
    }

    fn end_of_marks(&self, mut position: u64) -> u64 {
        while self.mark(position).load(Ordering::Acquire) == finished(position) {
            position += 1;
        }
        position
    }

    /// The position of `index`, a value of `ours` read just before. `ours` is at most `len` behind
    /// `head`, and `head` is read later, so the nearest position below is meant.
    fn widen(&self, index: u32) -> u64 {
        let head = self.head.load(Ordering::Relaxed);
        let behind = (head as u32).wrapping_sub(index);
        if cfg!(loom) {
            assert!(behind <= i32::MAX as u32, "head is not older than the index");
        }
        head - u64::from(behind)
    }

    fn mark(&self, position: u64) -> &AtomicU64 {
        &self.marks[(position & (self.marks.len() as u64 - 1)) as usize]
    }

    /// The next position to be claimed.
    pub(crate) fn position(&self) -> u64 {
        self.head.load(Ordering::Relaxed)
    }

    /// How many positions can be claimed or taken over now; a hint when others do it too.
    pub(crate) fn room(&self) -> u32 {
        let head = self.head.load(Ordering::Acquire);
        let free = self.look_for_room(head) + self.abandoned.load(Ordering::Relaxed);
        (free as u32).min(self.marks.len() as u32)
    }

    /// How many positions are claimed but not yet visible to the kernel.
    pub(crate) fn unfinished(&self) -> u32 {
        let index = self.ours().load(Ordering::Acquire);
        let head = self.head.load(Ordering::Acquire);
        (head as u32).wrapping_sub(index)
    }
}
