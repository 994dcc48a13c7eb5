//! The running parts and their counters, in the terms of control messages.

pub(super) mod counters;
pub(super) mod frames;
pub(super) mod network;
pub(super) mod picture;
mod sockets;
