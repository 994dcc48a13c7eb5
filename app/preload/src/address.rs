//! Socket addresses between C's form and Rust's.

use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::{AF_INET, AF_INET6, c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// Reads an address of the program's; nothing when it is of another family or too short. An IPv4-mapped one
/// becomes an IPv4 address.
///
/// # Safety
/// `address` is null or has `len` readable bytes.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if address.is_null() || (len as usize) < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: there are that many bytes.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        AF_INET if len as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: by the length just checked.
            let from = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = from.sin_addr.s_addr.to_ne_bytes();
            Some(SocketAddr::new(IpAddr::from(ip), u16::from_be(from.sin_port)))
        }
        AF_INET6 if len as usize >= size_of::<sockaddr_in6>() => {
            // SAFETY: as above.
            let from = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(from.sin6_addr.s6_addr);
            Some(canonical(SocketAddr::V6(SocketAddrV6::new(
                ip,
                u16::from_be(from.sin6_port),
                from.sin6_flowinfo,
                from.sin6_scope_id,
            ))))
        }
        _ => None,
    }
}

/// Whether an address has the family `AF_UNSPEC`, by which `connect` undoes an earlier one.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn is_unspecified_family(address: *const sockaddr, len: socklen_t) -> bool {
    if address.is_null() || (len as usize) < size_of::<libc::sa_family_t>() {
        return false;
    }
    // SAFETY: there are that many bytes.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    c_int::from(family) == libc::AF_UNSPEC
}

/// An IPv4-mapped address as the IPv4 address that it means.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(six) => match six.ip().to_ipv4_mapped() {
            Some(four) => SocketAddr::new(four.into(), six.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// The unspecified address of a family.
pub(crate) fn unspecified(family: c_int) -> SocketAddr {
    let ip: IpAddr = match family {
        AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => std::net::Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

/// Whether the buffer for an address is null or has a negative length: the kernel then reports the
/// right error.
///
/// # Safety
/// `len` is null or valid.
pub(crate) unsafe fn is_misused(to: *mut sockaddr, len: *mut socklen_t) -> bool {
    // SAFETY: the caller's promise.
    to.is_null() || unsafe { len.as_ref() }.is_none_or(|len| len.cast_signed() < 0)
}

/// Writes an address as a socket of this family has it, as far as there is room, and its length.
///
/// # Safety
/// `len` is null or names the writable bytes at `to`, which may be null.
pub(crate) unsafe fn write(
    from: SocketAddr,
    family: c_int,
    to: *mut sockaddr,
    len: *mut socklen_t,
) {
    if to.is_null() || len.is_null() {
        return;
    }
    let (bytes, size) = encoded(from, family);
    // SAFETY: as the caller promises; never more than there is room for.
    unsafe {
        let room = (*len as usize).min(size);
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast::<u8>(), to.cast::<u8>(), room);
        *len = size as socklen_t;
    }
}

/// An address in C's form, and its length.
pub(crate) fn encoded(
    from: SocketAddr,
    family: c_int,
) -> (MaybeUninit<libc::sockaddr_storage>, usize) {
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let port = from.port().to_be();
    match (from.ip(), family) {
        (IpAddr::V4(ip), AF_INET) => {
            // SAFETY: any bytes are valid for it, and it is shorter than the storage.
            let to = unsafe { &mut *storage.as_mut_ptr().cast::<sockaddr_in>() };
            to.sin_family = AF_INET as libc::sa_family_t;
            to.sin_port = port;
            to.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
            (storage, size_of::<sockaddr_in>())
        }
        (ip, _) => {
            // SAFETY: as above.
            let to = unsafe { &mut *storage.as_mut_ptr().cast::<sockaddr_in6>() };
            to.sin6_family = AF_INET6 as libc::sa_family_t;
            to.sin6_port = port;
            let six = match ip {
                IpAddr::V4(four) => four.to_ipv6_mapped(),
                IpAddr::V6(six) => six,
            };
            to.sin6_addr.s6_addr = six.octets();
            if let SocketAddr::V6(from) = from {
                to.sin6_scope_id = from.scope_id();
            }
            (storage, size_of::<sockaddr_in6>())
        }
    }
}
