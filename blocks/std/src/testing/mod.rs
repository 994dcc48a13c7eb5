//! Help for tests: frames to send, and an independent look at them. For this crate, fuzz targets
//! and whoever tests a graph.

pub mod fields;
pub mod frames;
