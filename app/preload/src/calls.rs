//! The C library's calls, as the program finds them: each looks whether its descriptor is weever's, and is the
//! next library's otherwise.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::time::Duration;

use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::failure::{Answer, Failure};
use crate::numbers::{self, Meaning};
use crate::parts::{Parts, Places};
use crate::receive::receive;
use crate::send::send as send_parts;
use crate::state::lock;
use crate::{address, connect, control, log, open, options, process, real, splice};
use crate::{handover, rights};

/// The most buffers of a message (`UIO_MAXIOV`); the kernel refuses more.
const MOST_PARTS: c_int = 1024;

/// The result of a call in C's manner, or the next library's.
pub(crate) fn answer<T>(answer: Answer<T>, failed: T, kernel: impl FnOnce() -> T) -> T {
    match answer {
        Ok(done) => done,
        Err(Failure::Kernel) => kernel(),
        Err(Failure::Errno(errno)) => {
            real::set_errno(errno);
            failed
        }
    }
}

/// Whether a descriptor leads to one of weever's sockets.
#[inline]
fn is_ours(fd: c_int) -> bool {
    numbers::file(fd).is_some()
}

macro_rules! calls {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty $body:block)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// As the call of the C library.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            // SAFETY: the caller's promise, for all pointers that are passed on.
            unsafe { $body }
        }
    )*};
}
pub(crate) use calls;

calls! {
    /// Binds a socket.
    fn bind(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
        let kernel = || real::bind(fd, to, len);
        if address::read(to, len).is_none() {
            return kernel();
        }
        let done = open::bind(&mut lock(), fd, (to, len));
        answer(done, -1, kernel)
    }

    /// Makes a socket a listener.
    fn listen(fd: c_int, backlog: c_int) -> c_int {
        let done = open::listen(&mut lock(), fd, backlog);
        answer(done, -1, || real::listen(fd, backlog))
    }

    /// Connects a socket.
    fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
        answer(connect::connect(fd, to, len), -1, || real::connect(fd, to, len))
    }

    /// Accepts a connection.
    fn accept(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
        accept4(fd, to, len, 0)
    }

    /// Accepts a connection, with flags for its descriptor.
    fn accept4(fd: c_int, to: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        if !is_ours(fd) {
            return real::accept4(fd, to, len, flags);
        }
        answer(connect::accept(fd, to, len, flags), -1, || real::accept4(fd, to, len, flags))
    }

    /// Ends one direction of a connection, or both.
    fn shutdown(fd: c_int, how: c_int) -> c_int {
        if !is_ours(fd) {
            return real::shutdown(fd, how);
        }
        answer(connect::shutdown(fd, how), -1, || real::shutdown(fd, how))
    }

    /// A socket's own address.
    fn getsockname(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
        if !is_ours(fd) {
            return real::getsockname(fd, to, len);
        }
        if address::is_misused(to, len) {
            return real::getsockname(fd, to, len);
        }
        let named = lock().of(fd).map(|(_, file)| address::write(file.local, file.family, to, len));
        answer(named.map(|()| 0), -1, || real::getsockname(fd, to, len))
    }

    /// A socket's peer.
    fn getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
        if !is_ours(fd) {
            return real::getpeername(fd, to, len);
        }
        let named = lock().of(fd).and_then(|(_, file)| {
            address::write(file.peer()?, file.family, to, len);
            Ok(0)
        });
        answer(named, -1, || real::getpeername(fd, to, len))
    }

    /// Reads an option.
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        let kernel = || real::getsockopt(fd, level, name, value, len);
        if !is_ours(fd) {
            return kernel();
        }
        answer(options::get(fd, level, name, value, len), -1, kernel)
    }

    /// Sets an option.
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        let kernel = || real::setsockopt(fd, level, name, value, len);
        if !is_ours(fd) {
            return kernel();
        }
        answer(options::set(fd, level, name, value, len), -1, kernel)
    }

    /// Reads from a descriptor.
    fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
        if !is_ours(fd) {
            return real::read(fd, to, len);
        }
        get(fd, (to, len), 0, || real::read(fd, to, len))
    }

    /// Reads into several places.
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        if !is_ours(fd) || !(0..=MOST_PARTS).contains(&count) {
            return real::readv(fd, parts, count);
        }
        let places = Places::new(std::slice::from_raw_parts(parts, count as usize));
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
        if !is_ours(fd) || !(0..=MOST_PARTS).contains(&count) {
            return real::writev(fd, parts, count);
        }
        let all = Parts::new(std::slice::from_raw_parts(parts, count as usize));
        put(send_parts(fd, &all, 0, None, None), || real::writev(fd, parts, count))
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

    /// Controls a device or socket.
    fn ioctl(fd: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int {
        if !is_ours(fd) {
            return real::ioctl(fd, request, argument);
        }
        answer(options::control(fd, request, argument), -1, || real::ioctl(fd, request, argument))
    }

    /// Forks. A child that shared its parent's memory would change its parent's sockets.
    fn vfork() -> libc::pid_t {
        real::fork()
    }

    /// Changes properties of the process; one of them restricts its system calls.
    fn prctl(option: c_int, first: libc::c_ulong, second: libc::c_ulong, third: libc::c_ulong, fourth: libc::c_ulong) -> c_int {
        if option == libc::PR_SET_SECCOMP {
            process::before_sandbox();
        }
        real::prctl(option, first, second, third, fourth)
    }

    /// Replaces this program by another one.
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int {
        let _undone = handover::before_exec();
        real::execve(path, arguments, environment)
    }

    /// The same, with this program's environment.
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
        execve(path, arguments, environment())
    }

    /// The same, with a search for the program in `PATH`.
    fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
        execvpe(file, arguments, environment())
    }

    /// The same, with another environment.
    fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int {
        let _undone = handover::before_exec();
        real::execvpe(file, arguments, environment)
    }

    /// Changes the user.
    fn setuid(user: libc::uid_t) -> c_int {
        process::before_change();
        real::setuid(user)
    }

    /// Changes the users.
    fn setresuid(first: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) -> c_int {
        process::before_change();
        real::setresuid(first, effective, saved)
    }

    /// Changes the users.
    fn setreuid(first: libc::uid_t, effective: libc::uid_t) -> c_int {
        process::before_change();
        real::setreuid(first, effective)
    }

    /// Changes the user.
    fn seteuid(user: libc::uid_t) -> c_int {
        process::before_change();
        real::seteuid(user)
    }

    /// Changes the root.
    fn chroot(path: *const c_char) -> c_int {
        process::before_change();
        real::chroot(path)
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

/// The program's environment.
fn environment() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's variable, which the program changes only while it calls nothing here.
    unsafe { environ }
}

/// As the C library: more than there is room for ends the program.
pub(crate) fn fits(len: usize, room: usize) {
    if len > room {
        log::always(format_args!("buffer overflow detected: {len} octets where {room} have room"));
        // SAFETY: ends the process.
        unsafe { libc::abort() }
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

/// One message of `recvmsg` and `recvmmsg`.
///
/// # Safety
/// As `recvmsg` of the C library.
unsafe fn take(fd: c_int, message: &mut msghdr, flags: c_int) -> Answer<ssize_t> {
    // SAFETY: the caller's promise.
    let got = unsafe {
        let places = std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen);
        let is_stream = lock().of(fd).is_ok_and(|(_, file)| !file.is_udp());
        if is_stream {
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
        if !is_ours(fd) && to.is_none() {
            return Err(Failure::Kernel);
        }
        let parts = match message.msg_iovlen {
            0 => &[][..],
            count => std::slice::from_raw_parts(message.msg_iov, count),
        };
        let options = (message.msg_controllen > 0).then(|| {
            let own = lock().of(fd).map(|(_, file)| file.options.clone()).unwrap_or_default();
            control::read(message, &own)
        });
        send_parts(fd, &Parts::new(parts), flags, to, options)
    }
}

/// Whether a descriptor is one that this library needs.
pub(crate) fn is_internal(fd: c_int) -> bool {
    numbers::meaning(fd) == Some(Meaning::Internal)
}

/// A timeout in milliseconds, negative for none.
pub(crate) fn milliseconds(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}
