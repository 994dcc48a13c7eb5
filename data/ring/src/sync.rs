//! The atomics and cells everything else uses: the standard library's, or loom's.

#[cfg(loom)]
pub use loom::sync::atomic::AtomicU32;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(not(loom))]
pub use std::sync::atomic::AtomicU32;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

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
