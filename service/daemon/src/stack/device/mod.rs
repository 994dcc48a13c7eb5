//! Devices: opened, claimed, wrapped, shared with the kernel, and followed there.

pub(super) mod applications;
pub(super) mod ephemeral;
mod holders;
pub(super) mod kernel;
pub(super) mod links;
pub(super) mod middleware;
pub(super) mod ports;
mod replay;
