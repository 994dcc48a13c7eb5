//! Where a ring lies in memory.

use std::ptr::NonNull;

use crate::sync::{AtomicU32, Ordering, Slot};

/// `XDP_RING_NEED_WAKEUP` of `<linux/if_xdp.h>`.
const NEED_WAKEUP: u32 = 1;

/// Why a ring cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The number of slots does not fit the index arithmetic.
    #[error("a ring of {len} slots: must be a power of two between 1 and 2^30")]
    Length {
        /// The number of slots asked for.
        len: u32,
    },
}

/// The raw parts of a mapped ring, in the layout of AF_XDP (`struct xdp_ring_offset`).
pub struct RingParts<T> {
    /// The index up to which descriptors have been produced; wraps at 2³².
    pub producer: NonNull<AtomicU32>,
    /// The index up to which descriptors have been consumed; wraps at 2³².
    pub consumer: NonNull<AtomicU32>,
    /// The ring's flags, written by the kernel (`XDP_RING_NEED_WAKEUP`).
    pub flags: NonNull<AtomicU32>,
    /// The first of `len` slots.
    pub slots: NonNull<Slot<T>>,
    /// The number of slots, a power of two.
    pub len: u32,
}

impl<T> Clone for RingParts<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for RingParts<T> {}

// SAFETY: the parts are only addresses; they point to atomics and slots whose use is ordered by the
// ring's protocol, and `T: Send` lets descriptors pass between threads.
unsafe impl<T: Send> Send for RingParts<T> {}
// SAFETY: as above; sharing the addresses gives no access without the ring's protocol.
unsafe impl<T: Send> Sync for RingParts<T> {}

impl<T: Copy> RingParts<T> {
    pub(crate) fn check(&self) -> Result<(), RingError> {
        if !self.len.is_power_of_two() || self.len > 1 << 30 {
            return Err(RingError::Length { len: self.len });
        }
        Ok(())
    }

    /// The slot of a position.
    ///
    /// # Safety
    /// The parts are those of a live ring.
    pub(crate) unsafe fn slot(&self, position: u64) -> &Slot<T> {
        let index = position & u64::from(self.len - 1);
        // SAFETY: the index is masked to the array that the caller vouches for.
        unsafe { self.slots.add(index as usize).as_ref() }
    }

    /// Whether the kernel asks for a system call to make it look at the ring.
    ///
    /// # Safety
    /// The parts are those of a live ring.
    pub(crate) unsafe fn needs_wakeup(&self) -> bool {
        // SAFETY: live by the caller's word.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}
