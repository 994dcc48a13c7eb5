//! Work that a device does for a host's stack, or leaves to us: checksums and segmentation.
//!
//! The rule that links know no protocols has its exception here: requests to a device on behalf of
//! TCP and UDP name places in their headers.

mod cutter;
mod headers;
mod sum;
#[cfg(test)]
mod tests;

pub(crate) use cutter::Cutter;
pub(crate) use headers::{Layers, Transport};
