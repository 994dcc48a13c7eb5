//! Where a ring lies in memory, and the atomics and cells it is made of: the standard library's, loom's, or
//! those of unit tests with a place to stop at before each operation.

use std::ptr::NonNull;

#[cfg(loom)]
pub use loom::sync::atomic::AtomicU32;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(all(test, not(loom)))]
pub use crate::stepped::AtomicU32;
#[cfg(all(test, not(loom)))]
pub(crate) use crate::stepped::{AtomicU64, Ordering, fence};

#[cfg(not(any(loom, test)))]
pub use std::sync::atomic::AtomicU32;
#[cfg(not(any(loom, test)))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

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

/// One descriptor of a ring. In normal builds it is exactly a `T` in memory, so that an array of
/// slots can lie over a mapped ring; under loom accesses to it are checked for races.
#[cfg_attr(not(loom), repr(transparent))]
pub struct Slot<T>(Cell<T>);

#[cfg(loom)]
type Cell<T> = loom::cell::UnsafeCell<T>;
#[cfg(not(loom))]
type Cell<T> = std::cell::UnsafeCell<T>;

impl<T: Copy> Slot<T> {
    /// A slot holding `value`.
    pub fn new(value: T) -> Self {
        Slot(Cell::new(value))
    }

    /// Copies the descriptor out.
    ///
    /// # Safety
    /// No other thread writes the slot at the same time.
    pub(crate) unsafe fn read(&self) -> T {
        // SAFETY: the pointer comes from a live cell, and the caller excludes writers.
        self.with(|slot| unsafe { slot.read() })
    }

    /// Overwrites the descriptor.
    ///
    /// # Safety
    /// No other thread reads or writes the slot at the same time.
    pub(crate) unsafe fn write(&self, value: T) {
        // SAFETY: the pointer comes from a live cell, and the caller excludes all other threads.
        self.with_mut(|slot| unsafe { slot.write(value) });
    }

    #[cfg(loom)]
    fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.0.with(f)
    }
    #[cfg(loom)]
    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(f)
    }
    #[cfg(not(loom))]
    fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }
    #[cfg(not(loom))]
    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
