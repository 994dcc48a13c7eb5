//! Devices: opened, claimed, wrapped, shared with the kernel, and followed there.

pub(super) mod claimed;
pub(super) mod kernel;
mod kernel_sockets;
pub(super) mod links;
pub(super) mod middleware;
pub(super) mod names;
pub(super) mod ports;
mod replay;
