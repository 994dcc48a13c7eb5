//! Benchmarks of weever beside their peers.
#![forbid(unsafe_code)]
