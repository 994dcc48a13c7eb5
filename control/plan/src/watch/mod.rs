//! Detects flows by their traffic, and decides which flows to place and when.
//!
//! Observers (a program in the kernel, a worker, a socket that opens) report the packets of each
//! five-tuple to a [`Watch`]. It keeps a bounded table, estimates rates, and from time to time, as a
//! token bucket allows, returns the flows that have become worth a filter and those that have gone. The
//! time is an argument, in nanoseconds of any clock that does not run backwards.

mod table;
#[cfg(test)]
mod tests;
mod tuple;

pub use table::{DueFlow, Settings, TokenBucket, Watch};
pub use tuple::FiveTuple;
