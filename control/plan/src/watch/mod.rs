//! Detects flows by their traffic, and decides which of them to place and when.
//!
//! Observers (a program in the kernel, a worker, a socket that opens) tell a [`Watch`] how
//! many packets of each five-tuple came. It keeps a bounded table, estimates rates, and from time to time,
//! as a token bucket allows, says which flows have become worth a filter and which have gone. The
//! time is an argument, in nanoseconds of any clock that does not run backwards.

mod bucket;
mod table;
#[cfg(test)]
mod tests;
mod tuple;

pub use bucket::TokenBucket;
pub use table::{DueFlow, Settings, Watch};
pub use tuple::FiveTuple;
