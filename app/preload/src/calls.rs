//! The C library's calls, as the program finds them: each looks whether its descriptor is weever's, and is the
//! next library's otherwise.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use libc::{sockaddr, socklen_t, timespec};

use crate::failure::{Answer, Failure, fail};
use crate::numbers::{self, Meaning};
use crate::state::lock;
use crate::{address, behind, connect, log, options, owners, real};

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
pub(crate) fn is_ours(fd: c_int) -> bool {
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
        let done = crate::bind::bind(&mut lock(), fd, (to, len));
        answer(done, -1, kernel)
    }

    /// Makes a socket a listener.
    fn listen(fd: c_int, backlog: c_int) -> c_int {
        let done = crate::bind::listen(&mut lock(), fd, backlog);
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
        let mut held = lock();
        let named = held.look_at(fd).and_then(|()| held.local_name(fd)).map(|(local, family)| address::write(local, family, to, len));
        answer(named.map(|()| 0), -1, || real::getsockname(fd, to, len))
    }

    /// A socket's peer.
    fn getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
        if !is_ours(fd) {
            return real::getpeername(fd, to, len);
        }
        let mut held = lock();
        let named = held.look_at(fd).and_then(|()| held.of(fd)).and_then(|(_, file)| {
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
            // A socket that weever gets later would never tell that it has done with the memory.
            if (level, name) == (libc::SOL_SOCKET, libc::SO_ZEROCOPY) && behind::kind_of(fd).is_some() {
                return answer(fail(libc::EOPNOTSUPP), -1, || -1);
            }
            return kernel();
        }
        answer(options::set(fd, level, name, value, len), -1, kernel)
    }

    /// Controls a device or socket.
    fn ioctl(fd: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int {
        if !is_ours(fd) {
            return real::ioctl(fd, request, argument);
        }
        let done = answer(options::control(fd, request, argument), -1, || real::ioctl(fd, request, argument));
        if owners::is_changed_by_ioctl(request)
            && let Some(place) = numbers::file(fd)
        {
            lock().note_owner(fd, place);
        }
        done
    }

    /// Whether the next octet of a connection is the urgent one.
    fn sockatmark(fd: c_int) -> c_int {
        let mut at_mark: c_int = 0;
        match ioctl(fd, options::SIOCATMARK, (&raw mut at_mark).cast()) {
            -1 => -1,
            _ => at_mark,
        }
    }
}

/// As the C library: more than there is room for ends the program.
pub(crate) fn fits(len: usize, room: usize) {
    if len > room {
        log::always(format_args!("buffer overflow detected: {len} octets where {room} have room"));
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
}

/// Whether a descriptor is one that this library needs.
pub(crate) fn is_internal(fd: c_int) -> bool {
    numbers::meaning(fd) == Some(Meaning::Internal)
}

/// A timeout; `EINVAL` for one that is none.
///
/// # Safety
/// `timeout` is null or readable.
pub(crate) unsafe fn duration(timeout: *const timespec) -> Answer<Option<Duration>> {
    // SAFETY: the caller's promise.
    let Some(limit) = (unsafe { timeout.as_ref() }) else { return Ok(None) };
    match (u64::try_from(limit.tv_sec), u32::try_from(limit.tv_nsec)) {
        (Ok(seconds), Ok(nanos @ 0..1_000_000_000)) => Ok(Some(Duration::new(seconds, nanos))),
        _ => fail(libc::EINVAL),
    }
}

/// A timeout in milliseconds, negative for none.
pub(crate) fn milliseconds(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}
