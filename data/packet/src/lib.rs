//! Packets in memory: who owns a frame, where its headers are, and sixty-four of them at a time.
//!
//! One path: a [`Pool`] maps a region of frames (a memfd, on huge pages when they can be had). A
//! worker takes [`Buffer`]s from its own [`PoolCache`], gathers them in a [`Burst`], and gives
//! them back; the caches trade whole bundles with the pool's depot, so the packet path neither
//! locks nor allocates. A `Buffer` is the unique owner of its frame: dropping one anywhere returns
//! the frame to its pool, only more slowly than [`PoolCache::free`].
//!
//! This crate knows neither graphs nor protocols (design/0000 §3, rule 5).
#![allow(
    unsafe_code,
    reason = "frames are raw memory shared with the kernel; ownership is enforced by `Buffer`"
)]

mod buffer;
mod burst;
mod cache;
mod frames;
mod meta;
mod pool;
mod region;

pub use buffer::Buffer;
pub use burst::{BURST, Bits, Burst, Mask, bits, first_n};
pub use cache::PoolCache;
pub use meta::{Endpoints, Flags, Fragment, Meta, NO_IFACE, NOWHERE};
pub use pool::{LARGE_FRAME, Pool, PoolConfig};
pub use region::{HugePages, PoolError, Region};

/// Nanoseconds on the caller's monotonic clock.
pub type Nanos = u64;
