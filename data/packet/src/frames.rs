//! The frames of a pool as buffers, stocks and handles share them: their bookkeeping, the
//! borrower outside that each is lent to, and the final owner of the memory.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64 as Count;
use std::sync::{Mutex, Weak};

use crate::depot::Depot;
use crate::sync::{AtomicU32, Ordering};
use crate::{Meta, Region};

/// A frame's bookkeeping, apart from its bytes: an application that shares the frame cannot
/// rewrite it. Two cache lines, the first of which is all that a received packet needs.
#[repr(C, align(128))]
pub(crate) struct Slot {
    pub(crate) start: NonNull<u8>,
    pub(crate) home: NonNull<Shared>,
    /// The only field that threads look at to which the frame does not belong.
    pub(crate) loan: Loan,
    pub(crate) head: u16,
    pub(crate) len: u16,
    pub(crate) meta: Meta,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 128, "two cache lines");

impl Slot {
    pub(crate) fn new(start: NonNull<u8>, home: NonNull<Shared>) -> Slot {
        Slot { start, home, loan: Loan::new(), head: 0, len: 0, meta: Meta::default() }
    }
}

/// The shared state that buffers point at. It outlives every pool handle and cache; see [`Owner`].
pub(crate) struct Shared {
    pub(crate) region: Region,
    pub(crate) slots: Box<[UnsafeCell<Slot>]>,
    pub(crate) frame_size: u32,
    pub(crate) headroom: u16,
    pub(crate) depot: Depot,
    /// The borrowers, by number less one.
    pub(crate) borrowers: Mutex<Vec<(String, Weak<Account>)>>,
}

impl Shared {
    /// The loan of a frame; `None`: there is no such frame.
    #[inline]
    pub(crate) fn loan(&self, index: u32) -> Option<&Loan> {
        let slot = self.slots.get(index as usize)?.get();
        // SAFETY: the slot lives as long as `self`. The frame's owner makes no exclusive reference
        // to this field, which is atomic.
        Some(unsafe { &(*slot).loan })
    }

    /// The number of a slot of this pool.
    #[inline]
    pub(crate) fn index_of(&self, slot: NonNull<Slot>) -> u32 {
        let first = self.slots.as_ptr().cast::<Slot>();
        ((slot.as_ptr().addr() - first.addr()) / size_of::<Slot>()) as u32
    }
}

// SAFETY: slots are reached only through the unique `Buffer` that owns their index, except for their
// loans, which are atomic; the rest is immutable or made for several threads.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing is tied to a thread.
unsafe impl Send for Shared {}

/// Frees the shared part when the last handle or cache is gone and every frame is home. A buffer
/// that is still out would dangle, so then the memory is left mapped: safe, and finite.
pub(crate) struct Owner(NonNull<Shared>);

// SAFETY: `Shared` is Send and Sync; the owner is a counted pointer to it.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    /// # Safety
    /// `shared` was leaked from a box, is complete, and gets no other owner.
    pub(crate) unsafe fn new(shared: NonNull<Shared>) -> Owner {
        Owner(shared)
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: freed only in `drop`, which no borrow of `self` survives.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> NonNull<Shared> {
        self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let shared = self.shared();
        // Taken out, not counted: the thread of a frame that can be taken is done with the depot.
        let mut home = Vec::with_capacity(shared.slots.len());
        loop {
            let before = home.len();
            shared.depot.withdraw(&mut home);
            if home.len() == before {
                break;
            }
        }
        if home.len() == shared.slots.len() {
            // SAFETY: made by `Box::leak` in `Pool::new`; no handle, cache or buffer is left.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

/// The bytes that [`prefetch`] brings.
pub(crate) const LINE: usize = 64;

/// Hints that an address will be read or written soon; it need not lead anywhere.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; it never faults, at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Bits of a loan that count how often the frame was lent.
const GENERATION_BITS: u32 = 20;
const GENERATION: u32 = (1 << GENERATION_BITS) - 1;
/// The most borrowers of a pool: the rest of 32 bits, less 0 for none.
pub(crate) const MOST_BORROWERS: usize = (1 << (u32::BITS - GENERATION_BITS)) - 1;

/// Which borrower has a frame (0: none), and how often it was lent, modulo 2^20.
pub(crate) struct Loan(AtomicU32);

impl Loan {
    pub(crate) fn new() -> Loan {
        Loan(AtomicU32::new(0))
    }

    /// The caller owns the frame, which is not lent. Returns its generation.
    #[inline]
    pub(crate) fn start(&self, borrower: u32) -> u32 {
        let generation = (self.0.load(Ordering::Relaxed) + 1) & GENERATION;
        // Publishes the frame's bookkeeping to the thread that takes it back.
        self.0.store(borrower << GENERATION_BITS | generation, Ordering::Release);
        generation
    }

    /// Ends the loan to a borrower; false: it is another's, or of another time, or none.
    #[inline]
    pub(crate) fn end(&self, borrower: u32, takers: Takers, generation: Option<u32>) -> bool {
        let seen = self.0.load(Ordering::Acquire);
        let is_same = generation.is_none_or(|wanted| seen & GENERATION == wanted & GENERATION);
        if seen >> GENERATION_BITS != borrower || !is_same {
            return false;
        }
        if takers == Takers::One {
            self.0.store(seen & GENERATION, Ordering::Relaxed);
            return true;
        }
        let (ok, fail) = (Ordering::Acquire, Ordering::Relaxed);
        self.0.compare_exchange(seen, seen & GENERATION, ok, fail).is_ok()
    }

    pub(crate) fn borrower(&self) -> u32 {
        self.0.load(Ordering::Relaxed) >> GENERATION_BITS
    }
}

/// How many threads take a borrower's frames back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takers {
    /// One at a time: it costs no atomic read-modify-write.
    One,
    /// Several at once, say the workers on one device queue.
    Several,
}

/// Lives as long as the borrower.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) rejected: Count,
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn of_two_returns_at_once_one_is_believed() {
        loom::model(|| {
            let loan = Arc::new(Loan::new());
            loan.start(3);
            let other = {
                let loan = loan.clone();
                thread::spawn(move || loan.end(3, Takers::Several, None))
            };
            let mine = loan.end(3, Takers::Several, None);
            assert_ne!(mine, other.join().unwrap());
        });
    }
}
