//! Plans onto devices.
//!
//! - [`ethtool`]: the kernel's interface to a NIC's settings, and a simulated NIC.
//! - [`actions`]: a plan as the steps from a NIC's settings to the desired ones, which are
//!   taken, reverted when one fails, and undone in the end.
//! - [`xdp`]: a plan on any device, by a program that sorts frames into software queues.
//! - [`nic`]: a NIC that is kept to a plan by the two above it, with a file that outlives the process.
//! - [`claim`]: one process steers a device at a time.
//!
//! Nothing here plans or reads files of policies, and nothing runs on its own: the caller decides
//! when. Calls block for as long as the device or the kernel takes.
#![allow(unsafe_code, reason = "ethtool's ioctl takes addresses")]

pub mod actions;
pub mod claim;
pub mod ethtool;
mod model;
pub mod nic;
pub mod xdp;

pub use model::{hands_over_partial_checksums, model_of};

use std::ffi::{CStr, CString};

/// The number of an interface of the calling thread's network namespace; nothing if there is none
/// of that name.
pub fn ifindex(device: &str) -> Option<u32> {
    let name = CString::new(device).ok()?;
    // SAFETY: the name is a live string that ends in a zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// The present name of an interface of the calling thread's network namespace; nothing if there is none
/// of that number.
pub fn name_of(ifindex: u32) -> Option<String> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: there is room for IF_NAMESIZE bytes, which is all that is written.
    let found = unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: the call has filled the array, which is live, with a string that ends in a zero.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().ok().map(str::to_owned)
}
