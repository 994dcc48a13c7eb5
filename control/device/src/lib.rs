//! Plans onto devices.
//!
//! - [`ethtool`]: what the kernel lets one ask of a NIC, and a simulated one.
//! - [`actions`]: a plan as the steps from what a NIC is told to what it should be told, which are
//!   taken, taken back when one fails, and undone in the end.
//! - [`xdp`]: a plan on any device, by a program that sorts frames into software queues.
//!
//! Nothing here plans or reads files of policies, and nothing runs by itself: the caller decides
//! when. Calls block for as long as the device or the kernel takes.
#![allow(unsafe_code, reason = "ethtool's ioctl takes addresses")]

pub mod actions;
pub mod ethtool;
pub mod xdp;

use std::ffi::CString;

/// The number of an interface of the calling thread's network namespace; nothing if there is none
/// of that name.
pub fn ifindex(device: &str) -> Option<u32> {
    let name = CString::new(device).ok()?;
    // SAFETY: the name is a live string that ends in a zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}
