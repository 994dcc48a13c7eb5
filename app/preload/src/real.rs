//! The calls as the next library has them: the C library, or another preloaded one.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t, pollfd, sigset_t};
use libc::{posix_spawn_file_actions_t, posix_spawnattr_t};
use libc::{size_t, sockaddr, socklen_t, ssize_t, timespec, timeval};

/// Looks for the next definition of a call. A program cannot go on without: it ends with a message.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a name that ends with a zero.
    let there = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if there.is_null() {
        crate::log::always(format_args!("the C library has no {}", name.to_string_lossy()));
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
    there
}

macro_rules! originals {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        /// # Safety
        /// As the call of the C library.
        #[inline]
        pub(crate) unsafe fn $name($($argument: $kind),*) -> $result {
            static PLACE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let mut place = PLACE.load(Ordering::Relaxed);
            if place.is_null() {
                let name = concat!(stringify!($name), "\0");
                place = find(CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c""));
                PLACE.store(place, Ordering::Relaxed);
            }
            type Call = unsafe extern "C" fn($($kind),*) -> $result;
            // SAFETY: the C library's function of this name has this type.
            let call = unsafe { std::mem::transmute::<*mut c_void, Call>(place) };
            // SAFETY: the caller's promise.
            unsafe { call($($argument),*) }
        }
    )*};
}

originals! {
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t;
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, to: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, from: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, len: size_t, flags: c_uint) -> ssize_t;
    close(fd: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup2(fd: c_int, to: c_int) -> c_int;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    ioctl(fd: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int;
    poll(entries: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    ppoll(entries: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    eventfd(count: c_uint, flags: c_int) -> c_int;
    epoll_create(size: c_int) -> c_int;
    epoll_create1(flags: c_int) -> c_int;
    epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    epoll_pwait(set: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    epoll_pwait2(set: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fork() -> libc::pid_t;
    prctl(option: c_int, first: libc::c_ulong, second: libc::c_ulong, third: libc::c_ulong, fourth: libc::c_ulong) -> c_int;
    execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    execveat(folder: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int;
    posix_spawn(child: *mut libc::pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    posix_spawnp(child: *mut libc::pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    posix_spawn_file_actions_adddup2(actions: *mut posix_spawn_file_actions_t, fd: c_int, to: c_int) -> c_int;
    syscall(number: libc::c_long, first: usize, second: usize, third: usize, fourth: usize, fifth: usize, sixth: usize) -> libc::c_long;
    setuid(user: libc::uid_t) -> c_int;
    setresuid(real: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) -> c_int;
    setreuid(real: libc::uid_t, effective: libc::uid_t) -> c_int;
    seteuid(user: libc::uid_t) -> c_int;
    chroot(path: *const c_char) -> c_int;
}

/// The calling thread's error number.
pub(crate) fn errno() -> c_int {
    // SAFETY: always a valid place of this thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's error number.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = errno }
}
