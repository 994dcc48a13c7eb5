//! The kernel's interfaces and their addresses in this network namespace.
//!
//! The kernel is asked for them each time. A process that restricts its system calls remembers them from before the
//! restriction.

use std::ffi::{CStr, CString};
use std::net::IpAddr;
use std::sync::OnceLock;

use libc::{AF_INET6, c_int, sockaddr_in, sockaddr_in6, socklen_t};

use crate::address::read;

/// An interface's name, its number and one of its addresses.
type Interface = (CString, u32, Option<IpAddr>);

static REMEMBERED: OnceLock<Vec<Interface>> = OnceLock::new();

/// Remembers the interfaces from now on: they cannot be asked for later.
pub(crate) fn remember() {
    REMEMBERED.get_or_init(all);
}

/// The number of an interface; 0 for one that the kernel does not know.
pub(crate) fn number(name: &CStr) -> u32 {
    match REMEMBERED.get() {
        Some(all) => {
            let there = all.iter().find(|(there, ..)| there.as_c_str() == name);
            there.map_or(0, |(_, number, _)| *number)
        }
        // SAFETY: a name that ends with a zero.
        None => unsafe { libc::if_nametoindex(name.as_ptr()) },
    }
}

/// Whether an address is one of the kernel's.
pub(crate) fn have(address: IpAddr) -> bool {
    let is_it = |(_, _, there): &Interface| *there == Some(address);
    REMEMBERED.get().map_or_else(|| all().iter().any(is_it), |all| all.iter().any(is_it))
}

/// All interfaces, once for each address.
fn all() -> Vec<Interface> {
    let mut list = std::ptr::null_mut();
    // SAFETY: a place for the list, which is freed below.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: entries of the list live until it is freed; their addresses have their family's length.
        unsafe {
            let there = (*at).ifa_addr;
            let len = size_of::<sockaddr_in6>() as socklen_t;
            let is_six = !there.is_null() && c_int::from((*there).sa_family) == AF_INET6;
            let len = if is_six { len } else { size_of::<sockaddr_in>() as socklen_t };
            let name = CStr::from_ptr((*at).ifa_name).to_owned();
            let number = libc::if_nametoindex(name.as_ptr());
            all.push((name, number, read(there, len).map(|there| there.ip())));
            at = (*at).ifa_next;
        }
    }
    // SAFETY: made above, and freed once.
    unsafe { libc::freeifaddrs(list) };
    all
}
