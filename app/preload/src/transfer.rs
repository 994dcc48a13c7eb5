//! The calls that move octets, as the program finds them.

use std::ffi::{c_int, c_uint, c_void};
use std::net::SocketAddr;

use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::calls::{answer, calls, duration, fits, is_ours};
use crate::failure::{Answer, Failure};
use crate::parts::{Parts, Places};
use crate::receive::receive;
use crate::send::send as send_parts;
use crate::state::lock;
use crate::wait::Moment;
use crate::{address, control, real, rights, splice};

/// The most buffers of a message (`UIO_MAXIOV`); the kernel refuses more.
const MOST_PARTS: c_int = 1024;

calls! {
    /// Reads from a descriptor.
    fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
        if !is_ours(fd) || len == 0 {
            return real::read(fd, to, len);
        }
        get(fd, (to, len), 0, || real::read(fd, to, len))
    }

    /// Reads into several places.
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let Some(all) = list(parts, count).filter(|_| is_ours(fd)) else {
            return real::readv(fd, parts, count);
        };
        let places = Places::new(all);
        if places.len() == 0 {
            return 0;
        }
        let got = receive(fd, &places, 0, None).map(|got| got.octets as ssize_t);
        answer(got, -1, || real::readv(fd, parts, count))
    }

    /// Receives.
    fn recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        if !is_ours(fd) {
            return real::recv(fd, to, len, flags);
        }
        get(fd, (to, len), flags, || real::recv(fd, to, len, flags))
    }

    /// Receives, and tells the sender.
    fn recvfrom(fd: c_int, to: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t {
        if !is_ours(fd) {
            return real::recvfrom(fd, to, len, flags, from, from_len);
        }
        let mut part = iovec { iov_base: to, iov_len: len };
        let mut message: msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        if !from.is_null() && !from_len.is_null() {
            (message.msg_name, message.msg_namelen) = (from.cast(), *from_len);
            if is_stream(fd) {
                message.msg_namelen = 0;
            }
        }
        let places = Places::new(std::slice::from_ref(&part));
        let got = receive(fd, &places, flags, Some(&mut message));
        if got.is_ok() && !from_len.is_null() {
            *from_len = message.msg_namelen;
        }
        let got = got.map(|got| got.octets as ssize_t);
        answer(got, -1, || real::recvfrom(fd, to, len, flags, from, from_len))
    }

    /// Receives with everything that is known of it.
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        if !is_ours(fd) || message.is_null() || (*message).msg_iovlen > MOST_PARTS as usize {
            let special = message.as_mut().and_then(|message| rights::receive(fd, message, flags));
            return special.unwrap_or_else(|| real::recvmsg(fd, message, flags));
        }
        answer(take(fd, &mut *message, flags), -1, || real::recvmsg(fd, message, flags))
    }

    /// Receives several messages.
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        if !is_ours(fd) {
            return real::recvmmsg(fd, messages, count, flags, timeout);
        }
        let one = flags & libc::MSG_WAITFORONE != 0;
        let mut flags = flags & !libc::MSG_WAITFORONE;
        let limit = match duration(timeout) {
            Ok(limit) => limit.map(|limit| (Moment::now(), limit)),
            Err(why) => return answer(Err(why), -1, || -1),
        };
        for at in 0..count {
            let there = &mut *messages.add(at as usize);
            match take(fd, &mut there.msg_hdr, flags) {
                Ok(len) => there.msg_len = len as c_uint,
                Err(_) if at > 0 => return at as c_int,
                Err(why) => return answer(Err(why), -1, || {
                    real::recvmmsg(fd, messages, count, flags, timeout)
                }),
            }
            if one {
                flags |= libc::MSG_DONTWAIT;
            }
            // As on Linux, the time is looked at after each message (recvmmsg(2)).
            if limit.is_some_and(|(start, limit)| start.elapsed() >= limit) {
                return at as c_int + 1;
            }
        }
        count as c_int
    }

    /// Writes to a descriptor.
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
        if !is_ours(fd) {
            return real::write(fd, from, len);
        }
        let part = iovec { iov_base: from.cast_mut(), iov_len: len };
        let parts = Parts::new(std::slice::from_ref(&part));
        put(send_parts(fd, &parts, 0, None, None), || real::write(fd, from, len))
    }

    /// Writes from several places.
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let Some(all) = list(parts, count).filter(|_| is_ours(fd)) else {
            return real::writev(fd, parts, count);
        };
        put(send_parts(fd, &Parts::new(all), 0, None, None), || real::writev(fd, parts, count))
    }

    /// Sends.
    fn send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        if !is_ours(fd) {
            return real::send(fd, from, len, flags);
        }
        let part = iovec { iov_base: from.cast_mut(), iov_len: len };
        let parts = Parts::new(std::slice::from_ref(&part));
        put(send_parts(fd, &parts, flags, None, None), || real::send(fd, from, len, flags))
    }

    /// Sends to an address.
    fn sendto(fd: c_int, from: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t {
        let address = address::read(to, to_len);
        let kernel = || real::sendto(fd, from, len, flags, to, to_len);
        if !is_ours(fd) && address.is_none() {
            return kernel();
        }
        if goes_nowhere(fd, !to.is_null(), address) {
            return kernel();
        }
        let part = iovec { iov_base: from.cast_mut(), iov_len: len };
        let parts = Parts::new(std::slice::from_ref(&part));
        put(send_parts(fd, &parts, flags, address, None), kernel)
    }

    /// Sends with control messages.
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        let kernel = || real::sendmsg(fd, message, flags);
        if message.is_null() || (*message).msg_iovlen > MOST_PARTS as usize {
            return kernel();
        }
        if !is_ours(fd)
            && let Some(sent) = rights::send(fd, &*message, flags)
        {
            return sent;
        }
        put(give(fd, &*message, flags), kernel)
    }

    /// Sends several messages.
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        if messages.is_null() || count == 0 {
            return real::sendmmsg(fd, messages, count, flags);
        }
        for at in 0..count {
            let there = &mut *messages.add(at as usize);
            match give(fd, &there.msg_hdr, flags) {
                Ok(len) => there.msg_len = len as c_uint,
                Err(Failure::Kernel) => {
                    let rest = real::sendmmsg(fd, messages.add(at as usize), count - at, flags);
                    return if rest < 0 && at > 0 { at as c_int } else { rest + at as c_int };
                }
                Err(_) if at > 0 => return at as c_int,
                Err(why) => return answer(Err(why), -1, || -1),
            }
        }
        count as c_int
    }

    /// Sends a file.
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        if !is_ours(to) {
            return real::sendfile(to, from, offset, count);
        }
        crate::sendfile::sendfile(to, from, offset, count)
    }

    /// The same, with 64 bits in any case.
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        sendfile(to, from, offset, count)
    }

    /// Moves octets between a pipe and something else.
    fn splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, len: size_t, flags: c_uint) -> ssize_t {
        let kernel = || real::splice(from, from_offset, to, to_offset, len, flags);
        if !is_ours(from) && !is_ours(to) {
            return kernel();
        }
        let ends = ((from, !from_offset.is_null()), (to, !to_offset.is_null()));
        answer(splice::splice(ends.0, ends.1, len, flags), -1, kernel)
    }

    /// `read` of a program built with `_FORTIFY_SOURCE`.
    fn __read_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t {
        fits(len, room);
        read(fd, to, len)
    }

    /// `recv` of such a program.
    fn __recv_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
        fits(len, room);
        recv(fd, to, len, flags)
    }

    /// `recvfrom` of such a program.
    fn __recvfrom_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t {
        fits(len, room);
        recvfrom(fd, to, len, flags, from, from_len)
    }
}

/// Whether a datagram's destination is not an address: the kernel's own call then returns the error. Connections ignore
/// a destination.
fn goes_nowhere(fd: c_int, named: bool, to: Option<SocketAddr>) -> bool {
    named && to.is_none() && is_ours(fd) && !is_stream(fd)
}

/// A list of buffers, which may be null if it has none; `None` for one that the kernel refuses.
///
/// # Safety
/// `parts` is null, or has `count` entries.
unsafe fn list<'p>(parts: *const iovec, count: c_int) -> Option<&'p [iovec]> {
    match usize::try_from(count) {
        Ok(0) => Some(&[]),
        Ok(count) if count <= MOST_PARTS as usize && !parts.is_null() => {
            // SAFETY: the caller's promise.
            Some(unsafe { std::slice::from_raw_parts(parts, count) })
        }
        _ => None,
    }
}

/// # Safety
/// `to` is writable.
unsafe fn get(
    fd: c_int,
    to: (*mut c_void, usize),
    flags: c_int,
    kernel: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let part = iovec { iov_base: to.0, iov_len: to.1 };
    // SAFETY: the caller's promise.
    let got = unsafe { receive(fd, &Places::new(std::slice::from_ref(&part)), flags, None) };
    answer(got.map(|got| got.octets as ssize_t), -1, kernel)
}

fn put(sent: Answer<usize>, kernel: impl FnOnce() -> ssize_t) -> ssize_t {
    answer(sent.map(|sent| sent as ssize_t), -1, kernel)
}

fn is_stream(fd: c_int) -> bool {
    lock().of(fd).is_ok_and(|(_, file)| !file.is_udp())
}

/// One message of `recvmsg` and `recvmmsg`.
///
/// # Safety
/// As `recvmsg` of the C library.
unsafe fn take(fd: c_int, message: &mut msghdr, flags: c_int) -> Answer<ssize_t> {
    // SAFETY: the caller's promise.
    let got = unsafe {
        let count = c_int::try_from(message.msg_iovlen).unwrap_or(c_int::MAX);
        let places = list(message.msg_iov, count).ok_or(Failure::Kernel)?;
        if is_stream(fd) {
            (message.msg_namelen, message.msg_controllen) = (0, 0);
        }
        receive(fd, &Places::new(places), flags, Some(message))?
    };
    message.msg_flags = got.flags;
    Ok(got.octets as ssize_t)
}

/// One message of `sendmsg` and `sendmmsg`.
///
/// # Safety
/// As `sendmsg` of the C library.
unsafe fn give(fd: c_int, message: &msghdr, flags: c_int) -> Answer<usize> {
    // SAFETY: the caller's promise.
    unsafe {
        let to = address::read(message.msg_name.cast(), message.msg_namelen);
        let named = !message.msg_name.is_null();
        if !is_ours(fd) && to.is_none() || goes_nowhere(fd, named, to) {
            return Err(Failure::Kernel);
        }
        let count = c_int::try_from(message.msg_iovlen).unwrap_or(c_int::MAX);
        let parts = list(message.msg_iov, count).ok_or(Failure::Kernel)?;
        let options = (message.msg_controllen > 0).then(|| {
            let own = lock().of(fd).map(|(_, file)| file.options.clone()).unwrap_or_default();
            control::read(message, &own)
        });
        send_parts(fd, &Parts::new(parts), flags, to, options)
    }
}
