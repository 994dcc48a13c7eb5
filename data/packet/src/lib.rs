//! Packets in memory: the owner of a frame, the places of its headers, and bursts of sixty-four.
//!
//! One path: a [`Pool`] cuts a [`Region`] of memory into frames. A worker takes [`Buffer`]s from
//! its own [`PoolCache`], gathers them in a [`Burst`], and gives them back; the cache has a
//! [`Stock`] of each pool that the worker meets, and stocks trade whole bundles with the pool's
//! depot, so the packet path neither locks nor allocates. A `Buffer` is the unique owner of its
//! frame: dropping one anywhere returns the frame to its pool, only more slowly than
//! [`PoolCache::free`]. A frame that a device or an application gets is lent to a [`Borrower`], and
//! frames that it gives back are checked. A program that shares a pool's memory has a fixed number of frames, of
//! which an [`Exchange`] swaps one for each packet that passes.
//!
//! This crate knows neither graphs nor protocols (design/0000 §3, rule 5).
#![allow(
    unsafe_code,
    reason = "frames are raw memory shared with the kernel; ownership is enforced by `Buffer`"
)]

mod borrower;
mod buffer;
mod burst;
mod depot;
mod exchange;
mod frames;
mod meta;
#[cfg(not(miri))]
mod numa;
mod pool;
mod region;
mod stock;

/// The atomics that frames and depot are built on: the standard library's, or loom's.
mod sync {
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    #[cfg(not(loom))]
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

pub use borrower::{Borrower, Census};
pub use buffer::Buffer;
pub use burst::{BURST, Bits, Burst, Mask, bits, first_n, number_of};
pub use exchange::{Exchange, Lease};
pub use frames::Takers;
pub use meta::{Endpoints, Flags, Fragment, Meta, NO_IFACE, NOWHERE};
pub use pool::{LARGE_FRAME, Pool, PoolConfig};
pub use region::{HugePages, PoolError, Region};
pub use stock::{Loaned, PoolCache, Stock};

/// Nanoseconds on the caller's monotonic clock.
pub type Nanos = u64;
