//! The frames of a pool as buffers, caches and handles share them: their bookkeeping, and the depot that
//! caches trade with.

use std::cell::UnsafeCell;
use std::ptr::NonNull;

use crossbeam_queue::ArrayQueue;

use crate::{Meta, Region};

/// How many frames move between a cache and the depot at once.
pub(crate) const BUNDLE: usize = 64;
pub(crate) type Bundle = [u32; BUNDLE];

/// A frame's bookkeeping, apart from its bytes: an application that shares the frame cannot
/// rewrite it. Two cache lines, the first of which is all that a received packet needs.
#[repr(C, align(128))]
pub(crate) struct Slot {
    pub(crate) start: NonNull<u8>,
    pub(crate) home: NonNull<Shared>,
    pub(crate) index: u32,
    pub(crate) head: u16,
    pub(crate) len: u16,
    pub(crate) meta: Meta,
}

impl Slot {
    pub(crate) fn new(start: NonNull<u8>, home: NonNull<Shared>, index: u32) -> Slot {
        Slot { start, home, index, head: 0, len: 0, meta: Meta::default() }
    }
}

/// What buffers point at. It outlives every pool handle and cache; see [`Owner`].
pub(crate) struct Shared {
    pub(crate) region: Region,
    pub(crate) slots: Box<[UnsafeCell<Slot>]>,
    pub(crate) frame_size: u32,
    pub(crate) headroom: u16,
    /// Whole bundles: one compare-and-swap moves 64 frames.
    pub(crate) bundles: ArrayQueue<Bundle>,
    /// Frames that came home one by one, through `Drop`.
    pub(crate) singles: ArrayQueue<u32>,
}

impl Shared {
    /// A frame from the depot, if need be out of a bundle whose others become singles.
    pub(crate) fn take_one(&self) -> Option<u32> {
        if let Some(index) = self.singles.pop() {
            return Some(index);
        }
        let bundle = self.bundles.pop()?;
        for index in &bundle[1..] {
            let pushed = self.singles.push(*index);
            debug_assert!(pushed.is_ok(), "the depot has room for every frame");
        }
        Some(bundle[0])
    }
}

// SAFETY: slots are reached only through the unique `Buffer` that owns their index; the rest is
// immutable or a concurrent queue.
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

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: freed only in `drop`, which no borrow of `self` survives.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn as_ptr(&self) -> NonNull<Shared> {
        self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let shared = self.shared();
        // Popping, not counting: a queue's length includes a push that has not finished, whose
        // thread still touches the queue.
        let mut home = 0;
        while shared.bundles.pop().is_some() {
            home += BUNDLE;
        }
        while shared.singles.pop().is_some() {
            home += 1;
        }
        if home == shared.slots.len() {
            // SAFETY: made by `Box::leak` in `Pool::new`; no handle, cache or buffer is left.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

/// Hints that an address will be read or written soon; it need not lead anywhere.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; it never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
