//! Options: the kernel's socket checks and keeps them; those that weever has are passed on.

use std::mem::size_of;

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int, c_void, socklen_t};
use weever_app_sockets::StreamInfo;

use crate::adopt::adopt_one;
use crate::failure::{Answer, fail};
use crate::file::{Kind, Phase};
use crate::real;
use crate::state::{State, lock};

/// `setsockopt`.
///
/// # Safety
/// As `setsockopt` of the C library.
pub(crate) unsafe fn set(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Answer<c_int> {
    let mut held = lock();
    let (place, file) = held.of(fd)?;
    let unconnected = !file.kernel;
    if (level, name) == (IPPROTO_TCP, libc::TCP_ULP) {
        // As a kernel without such a protocol (kernel TLS): its octets do not pass the kernel.
        return fail(libc::ENOENT);
    }
    // SAFETY: the caller's promise.
    if unsafe { real::setsockopt(fd, level, name, value, len) } != 0 {
        let errno = real::errno();
        // The kernel's socket is not connected, and says so for options that only connections have.
        if !(unconnected && errno == libc::ENOTCONN) {
            return fail(errno);
        }
    }
    // SAFETY: the kernel has read as much.
    let group = unsafe { membership(level, name, value, len) };
    if let Some((group, join)) = group {
        held.ensure(place)?;
        let queue = held.opened()?;
        if let Some(Kind::Udp(udp)) = held.files.get(place).map(|file| &file.kind)
            && let Some(socket) = udp.socket
        {
            let changed = match join {
                true => queue.join(socket, group, None),
                false => queue.leave(socket, group, None),
            };
            changed.unwrap_or_else(|error| crate::log::note(format_args!("{group}: {error}")));
        }
        return Ok(0);
    }
    if let Some(Kind::Listening(listening)) = held.files.get_mut(place).map(|file| &mut file.kind) {
        listening.inherited.note(fd, level, name);
    }
    adopt_one(&mut held, fd, place, level, name);
    Ok(0)
}

/// A group that is joined, or left, by an option.
///
/// # Safety
/// `value` has `len` readable bytes.
unsafe fn membership(
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Option<(std::net::IpAddr, bool)> {
    let len = len as usize;
    match (level, name) {
        (IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP)
            if len >= size_of::<libc::ip_mreq>() =>
        {
            // SAFETY: by the length; the group comes first in all forms of the option.
            let group = unsafe { value.cast::<libc::ip_mreq>().read_unaligned() };
            let group = group.imr_multiaddr.s_addr.to_ne_bytes();
            Some((group.into(), name == libc::IP_ADD_MEMBERSHIP))
        }
        (IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP)
            if len >= size_of::<libc::ipv6_mreq>() =>
        {
            // SAFETY: as above.
            let group = unsafe { value.cast::<libc::ipv6_mreq>().read_unaligned() };
            let group = group.ipv6mr_multiaddr.s6_addr;
            Some((group.into(), name == libc::IPV6_ADD_MEMBERSHIP))
        }
        _ => None,
    }
}

/// Asks whether the next octet is the urgent one (`asm-generic/sockios.h`).
pub(crate) const SIOCATMARK: libc::c_ulong = 0x8905;

/// Times that a connection's state is looked for, a millisecond apart.
const INFO_LOOKS: u32 = 100;

/// `getsockopt`.
///
/// # Safety
/// As `getsockopt` of the C library.
pub(crate) unsafe fn get(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    let mut held = lock();
    held.of(fd)?;
    held.pump();
    let (_, file) = held.of(fd)?;
    if (level, name) == (SOL_SOCKET, libc::SO_ERROR) {
        // SAFETY: the caller's promise.
        if value.is_null() || unsafe { len.as_ref() }.is_none_or(|len| len.cast_signed() < 0) {
            // The kernel reports the right error.
            return Err(crate::failure::Failure::Kernel);
        }
        let errno = std::mem::take(&mut file.error);
        // SAFETY: the caller's promise.
        unsafe { put(value, len, &errno) };
        return Ok(0);
    }
    if (level, name) == (IPPROTO_TCP, libc::TCP_INFO) && matches!(file.kind, Kind::Stream(_)) {
        // SAFETY: the caller's promise.
        return unsafe { info(&mut held, fd, value, len) };
    }
    if (level, name) == (IPPROTO_TCP, libc::TCP_MAXSEG)
        && let Some(info) = ask(&mut held, fd)
    {
        // SAFETY: the caller's promise, as the kernel checks it.
        return unsafe {
            let done = real::getsockopt(fd, level, name, value, len);
            put_if(done, value, len, &info.segment_size())
        };
    }
    Err(crate::failure::Failure::Kernel)
}

/// Asks the stack how a connection is doing; it answers in its next turn.
fn ask(held: &mut State, fd: c_int) -> Option<StreamInfo> {
    let stream = held.stream(fd)?;
    stream.info = None;
    let handle = stream.stream.filter(|_| stream.phase == Phase::Connected)?;
    held.opened().ok()?.request_info(handle).ok()?;
    held.commit();
    for _ in 0..INFO_LOOKS {
        held.pump();
        if let Some(info) = held.stream(fd).and_then(|stream| stream.info.take()) {
            return Some(info);
        }
        held.wait_for_stack();
    }
    None
}

/// `TCP_INFO`: asks the stack, which answers in its next turn. Without an answer, or a connection, the kernel fills it
/// in, and the state of its socket is corrected.
///
/// # Safety
/// As [`get`].
unsafe fn info(
    held: &mut State,
    fd: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Answer<c_int> {
    if let Some(info) = ask(held, fd) {
        // SAFETY: the caller's promise.
        unsafe { put(value, len, info.as_bytes()) };
        return Ok(0);
    }
    // TCP_ESTABLISHED, TCP_SYN_SENT, TCP_CLOSE.
    let state = match held.stream(fd).map(|stream| stream.phase) {
        Some(Phase::Connected) => 1,
        Some(Phase::Connecting) => 2,
        _ => 7,
    };
    // SAFETY: the caller's promise.
    unsafe {
        if real::getsockopt(fd, IPPROTO_TCP, libc::TCP_INFO, value, len) != 0 {
            return fail(real::errno());
        }
        if *len > 0 {
            value.cast::<u8>().write(state);
        }
    }
    Ok(0)
}

/// Writes an option's value, as much as there is room for.
///
/// # Safety
/// `len` names the writable bytes at `value`.
unsafe fn put<T>(value: *mut c_void, len: *mut socklen_t, from: &T) {
    // SAFETY: the caller's promise.
    unsafe {
        let count = (*len as usize).min(size_of::<T>());
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast::<u8>(), value.cast(), count);
        *len = count as socklen_t;
    }
}

/// The same, after a call of the kernel's that has judged the arguments.
///
/// # Safety
/// As [`put`], if the call has succeeded.
unsafe fn put_if<T>(
    done: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
    from: &T,
) -> Answer<c_int> {
    if done != 0 {
        return fail(real::errno());
    }
    // SAFETY: the caller's promise; the length is what the kernel has written.
    unsafe { put(value, len, from) };
    Ok(0)
}

/// `ioctl`, for what sockets answer themselves.
///
/// # Safety
/// As `ioctl` of the C library.
pub(crate) unsafe fn control(
    fd: c_int,
    request: libc::c_ulong,
    argument: *mut c_void,
) -> Answer<c_int> {
    let mut held = lock();
    held.of(fd)?;
    held.pump();
    let (_, file) = held.of(fd)?;
    let count = match (request, &file.kind) {
        (libc::FIONBIO, _) => {
            // SAFETY: the caller's promise: an integer.
            file.nonblocking = unsafe { argument.cast::<c_int>().read() } != 0;
            return Err(crate::failure::Failure::Kernel);
        }
        (libc::FIONREAD | libc::TIOCOUTQ, Kind::Listening(_)) => return fail(libc::EINVAL),
        (libc::FIONREAD, Kind::Stream(stream)) => match stream.before_mark() {
            Some(before) if !file.options.urgent_in_line => before,
            _ => stream.readable(),
        },
        (SIOCATMARK, Kind::Stream(stream)) => stream.is_at_mark().into(),
        (libc::FIONREAD, Kind::Udp(udp)) => match udp.received.first() {
            Some(first) => first.len(),
            None => return Err(crate::failure::Failure::Kernel),
        },
        (libc::TIOCOUTQ, Kind::Stream(stream)) => match stream.stream {
            Some(stream) => held.opened()?.unacknowledged(stream)? as usize,
            None => 0,
        },
        _ => return Err(crate::failure::Failure::Kernel),
    };
    // SAFETY: the caller's promise: an integer.
    unsafe { argument.cast::<c_int>().write(count as c_int) };
    Ok(0)
}
