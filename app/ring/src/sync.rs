//! The atomics that everything else uses: the standard library's, or loom's.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{Ordering, fence};

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{Ordering, fence};
