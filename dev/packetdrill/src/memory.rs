//! The memory that callers pass: buffers, addresses and vectors, as slices and values of Rust's.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::{ptr, slice};

use libc::{iovec, size_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::calls::Flags;
use crate::stack::{Errno, Stack};

/// Bytes of a caller's.
///
/// # Safety
/// `len` bytes can be read at `at` for the call, or `len` is 0.
pub(crate) unsafe fn bytes<'b>(at: *const c_void, len: size_t) -> &'b [u8] {
    if at.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts(at.cast(), len) }
}

/// Room of a caller's.
///
/// # Safety
/// `len` bytes can be written at `at` for the call, or `len` is 0.
pub(crate) unsafe fn room<'b>(at: *mut c_void, len: size_t) -> &'b mut [u8] {
    if at.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts_mut(at.cast(), len) }
}

/// The address in a `sockaddr`.
///
/// # Safety
/// `len` bytes can be read at `at`.
pub(crate) unsafe fn address(at: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    let len = len as usize;
    if at.is_null() || len < size_of::<libc::sa_family_t>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the family is there; each form is only read if it is there whole.
    match i32::from(unsafe { (*at).sa_family }) {
        libc::AF_INET if len >= size_of::<sockaddr_in>() => {
            // SAFETY: as above.
            let v4 = unsafe { at.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok((ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            // SAFETY: as above.
            let v6 = unsafe { at.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            // An IPv4 peer of an IPv6 socket.
            match ip.to_ipv4_mapped() {
                Some(v4) => Ok((v4, port).into()),
                None => Ok(SocketAddrV6::new(ip, port, 0, 0).into()),
            }
        }
        libc::AF_INET | libc::AF_INET6 => Err(libc::EINVAL),
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// Writes a `sockaddr` as far as there is room, and its length.
///
/// # Safety
/// `at` is null, or `len` points to how many bytes can be written there.
pub(crate) unsafe fn tell(at: *mut sockaddr, len: *mut socklen_t, address: SocketAddr) {
    if at.is_null() || len.is_null() {
        return;
    }
    let mut form = [0; size_of::<sockaddr_in6>()];
    let whole = match address {
        SocketAddr::V4(v4) => {
            form[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            form[2..4].copy_from_slice(&v4.port().to_be_bytes());
            form[4..8].copy_from_slice(&v4.ip().octets());
            size_of::<sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            form[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            form[2..4].copy_from_slice(&v6.port().to_be_bytes());
            form[8..24].copy_from_slice(&v6.ip().octets());
            size_of::<sockaddr_in6>()
        }
    };
    // SAFETY: the caller says how much room there is; it gets the whole length.
    unsafe {
        let room = (*len as usize).min(whole);
        ptr::copy_nonoverlapping(form.as_ptr(), at.cast(), room);
        *len = whole as socklen_t;
    }
}

/// The pieces of a vector.
///
/// # Safety
/// `count` pieces can be read at `at`.
pub(crate) unsafe fn pieces<'v>(at: *const iovec, count: usize) -> &'v [iovec] {
    // SAFETY: as the caller says.
    if at.is_null() { &[] } else { unsafe { slice::from_raw_parts(at, count) } }
}

/// Reads into the pieces of a vector.
///
/// # Safety
/// Each piece is room for the call.
pub(crate) unsafe fn scatter(
    stack: &Stack,
    fd: c_int,
    to: &[iovec],
    flags: Flags,
) -> Result<usize, Errno> {
    let mut all = vec![0; to.iter().map(|piece| piece.iov_len).sum()];
    let len = stack.read(fd, &mut all, flags)?;
    let mut rest = &all[..len];
    for piece in to {
        let (now, later) = rest.split_at(rest.len().min(piece.iov_len));
        // SAFETY: as the caller says.
        unsafe { room(piece.iov_base, now.len()) }.copy_from_slice(now);
        rest = later;
    }
    Ok(len)
}

/// Writes the pieces of a vector.
///
/// # Safety
/// Each piece can be read for the call.
pub(crate) unsafe fn gather(
    stack: &Stack,
    fd: c_int,
    from: &[iovec],
    flags: Flags,
) -> Result<usize, Errno> {
    // SAFETY: as the caller says.
    let parts = from.iter().map(|piece| unsafe { bytes(piece.iov_base, piece.iov_len) });
    stack.write(fd, &parts.collect::<Vec<_>>().concat(), flags)
}
