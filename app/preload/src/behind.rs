//! What the kernel says of the socket behind a descriptor.

use std::mem::size_of;
use std::net::SocketAddr;

use libc::{AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM, SOL_SOCKET, c_int, c_void, socklen_t};

use crate::{address, real};

/// An option of the kernel's socket.
pub(crate) fn option<T: Copy + Default>(fd: c_int, level: c_int, name: c_int) -> Option<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as socklen_t;
    let to = (&raw mut value).cast::<c_void>();
    // SAFETY: `len` bytes to write to, of a type for which the callers' integers and timevals are valid.
    let done = unsafe { real::getsockopt(fd, level, name, to, &mut len) };
    (done == 0).then_some(value)
}

/// The address that the kernel's socket is bound to.
pub(crate) fn kernel_name(fd: c_int) -> Option<SocketAddr> {
    let mut storage = std::mem::MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
    // SAFETY: `len` bytes to write to, and as many to read afterwards.
    unsafe {
        let to = storage.as_mut_ptr().cast();
        let done = real::getsockname(fd, to, &mut len);
        if done == 0 { address::read(to, len) } else { None }
    }
}

/// A kind of socket that weever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) family: c_int,
    pub(crate) stream: bool,
}

/// The kind of a descriptor of the kernel's, if weever has such sockets.
pub(crate) fn kind_of(fd: c_int) -> Option<Type> {
    let family = option::<c_int>(fd, SOL_SOCKET, libc::SO_DOMAIN)?;
    if family != AF_INET && family != AF_INET6 {
        return None;
    }
    let protocol = option::<c_int>(fd, SOL_SOCKET, libc::SO_PROTOCOL)?;
    match (option::<c_int>(fd, SOL_SOCKET, libc::SO_TYPE)?, protocol) {
        (SOCK_STREAM, libc::IPPROTO_TCP) => Some(Type { family, stream: true }),
        (SOCK_DGRAM, libc::IPPROTO_UDP) => Some(Type { family, stream: false }),
        _ => None,
    }
}

/// Whether a socket of a family can have a peer of this address: one of IPv4 has none of IPv6, and one of IPv6 only none
/// of IPv4.
pub(crate) fn fits(family: c_int, v6_only: bool, to: SocketAddr) -> bool {
    match to {
        SocketAddr::V4(_) => family == AF_INET || !v6_only,
        SocketAddr::V6(_) => family == AF_INET6,
    }
}

/// Whether a socket has IPv6 only.
pub(crate) fn is_v6_only(fd: c_int, family: c_int) -> bool {
    family == AF_INET6 && option::<c_int>(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1)
}
