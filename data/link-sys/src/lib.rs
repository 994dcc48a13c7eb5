//! Links onto the kernel, and the helpers of their tests and benchmarks.
//!
//! - [`af_xdp`]: the link that matters. All queues of a device, without the kernel's stack.
//! - [`tap`]: an interface of the kernel whose cable ends here.
//! - [`mirror`]: links, addresses, routes and neighbours as the kernel has them.
//! - [`netdev`]: the properties of an interface: index, MTU, address, driver, queues.
//! - [`mod@overhear`]: frames that are for the kernel and the stack both.
//! - [`packet`]: packet sockets, for frames made by hand and as the benchmark's peer.
//! - [`mmsg`]: batches of UDP datagrams through the kernel's stack, the other peer.
#![allow(unsafe_code, reason = "system calls without a safe wrapper, and rings in mapped memory")]

pub mod af_xdp;
pub mod mirror;
pub mod mmsg;
pub mod netdev;
mod offload;
pub mod overhear;
pub mod packet;
pub mod tap;
