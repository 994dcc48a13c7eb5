//! A hierarchical timing wheel without a clock: the time is always an argument.
//!
//! [`Wheel::insert`] and [`Wheel::cancel`] cost O(1); [`Wheel::poll`] costs O(1) per timer and
//! level it comes down (Varghese and Lauck, 1987). Memory grows with the largest number of timers
//! that were ever pending at once; after that nothing allocates.
#![forbid(unsafe_code)]

mod slab;
#[cfg(test)]
mod tests;
mod wheel;

pub use slab::Key;
pub use wheel::Wheel;

/// Nanoseconds on the caller's monotonic clock.
pub type Nanos = u64;
