//! The table of functions that packetdrill calls, and the C side of each.
//!
//! The order of the fields is that of `packetdrill.h` of google/packetdrill; forks that have fields in between
//! cannot load this library.

use std::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use std::{ptr, slice};

use libc::{
    epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval,
};

use crate::calls::Flags;
use crate::memory::{address, bytes, gather, pieces, room, scatter, tell};
use crate::settings::Settings;
use crate::stack::{Errno, Stack};

type User = *mut c_void;

macro_rules! interface {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?,)*) => {
        /// `struct packetdrill_interface`: a field for each function, in the order of the header.
        ///
        /// `fcntl` and `ioctl` take a variable number of arguments there; callers of such functions pass the
        /// first ones as they pass those of others on every system that this is built for.
        #[repr(C)]
        #[derive(Debug)]
        #[allow(missing_docs, reason = "the fields have the names of the calls that they stand for")]
        pub struct Interface {
            pub userdata: User,
            $(pub $name: unsafe extern "C" fn(User $(, $argument)*) $(-> $result)?,)*
        }

        const TABLE: Interface = Interface { userdata: ptr::null_mut(), $($name,)* };
    };
}

interface! {
    free: fn(),
    socket: fn(c_int, c_int, c_int) -> c_int,
    bind: fn(c_int, *const sockaddr, socklen_t) -> c_int,
    listen: fn(c_int, c_int) -> c_int,
    accept: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: fn(c_int, *const sockaddr, socklen_t) -> c_int,
    read: fn(c_int, *mut c_void, size_t) -> ssize_t,
    readv: fn(c_int, *const iovec, c_int) -> ssize_t,
    recv: fn(c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: fn(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t,
    recvmsg: fn(c_int, *mut msghdr, c_int) -> ssize_t,
    write: fn(c_int, *const c_void, size_t) -> ssize_t,
    writev: fn(c_int, *const iovec, c_int) -> ssize_t,
    send: fn(c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t,
    sendmsg: fn(c_int, *const msghdr, c_int) -> ssize_t,
    fcntl: fn(c_int, c_int, c_long) -> c_int,
    ioctl: fn(c_int, c_ulong, *mut c_int) -> c_int,
    close: fn(c_int) -> c_int,
    shutdown: fn(c_int, c_int) -> c_int,
    getsockopt: fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: fn(*mut pollfd, nfds_t, c_int) -> c_int,
    netdev_send: fn(*const c_void, size_t) -> c_int,
    netdev_receive: fn(*mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: fn(c_uint) -> c_int,
    gettimeofday: fn(*mut timeval, *mut c_void) -> c_int,
    epoll_create: fn(c_int) -> c_int,
    epoll_ctl: fn(c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: fn(c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: fn(*mut c_int) -> c_int,
    splice: fn(c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint) -> c_int,
}

/// Fills the table of functions. `flags` is the value of `--so_flags`, or null. Flags that are not understood are
/// told on standard error, and end the process: packetdrill takes no error here.
///
/// # Safety
/// `flags` is null or a C string, and `interface` points to room for the table; both only for the call. The
/// functions in the table are called with its `userdata` until `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    // SAFETY: it is null or a C string, says the caller.
    let flags = if flags.is_null() { c"" } else { unsafe { CStr::from_ptr(flags) } };
    let settings = Settings::parse(&flags.to_string_lossy()).unwrap_or_else(|wrong| {
        eprintln!("libweever_packetdrill: {wrong}");
        std::process::exit(1);
    });
    let stack = Box::into_raw(Box::new(Stack::new(settings)));
    // SAFETY: there is room for the table, says the caller; it need not be initialised.
    unsafe { interface.write(Interface { userdata: stack.cast(), ..TABLE }) };
}

/// The stack of a table.
///
/// # Safety
/// `user` is the `userdata` of a table that was not freed.
unsafe fn stack<'s>(user: User) -> &'s Stack {
    // SAFETY: it was made from a box in `packetdrill_interface_init`, and is there until `free`.
    unsafe { &*user.cast::<Stack>() }
}

/// The result of a call as C has it: -1 and `errno`.
fn done<T: From<i8>>(result: Result<T, Errno>) -> T {
    result.unwrap_or_else(|errno| {
        // SAFETY: the place is this thread's.
        unsafe { *libc::__errno_location() = errno };
        T::from(-1)
    })
}

fn status(result: Result<(), Errno>) -> c_int {
    done(result.map(|()| 0))
}

fn size(result: Result<usize, Errno>) -> ssize_t {
    done(result.map(|len| len as ssize_t))
}

unsafe extern "C" fn free(user: User) {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    drop(unsafe { Box::from_raw(user.cast::<Stack>()) });
}

unsafe extern "C" fn socket(user: User, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    done(unsafe { stack(user) }.socket(domain, kind, protocol))
}

unsafe extern "C" fn bind(user: User, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    status(unsafe { address(at, len).and_then(|local| stack(user).bind(fd, local)) })
}

unsafe extern "C" fn listen(user: User, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    status(unsafe { stack(user) }.listen(fd, backlog))
}

unsafe extern "C" fn accept(
    user: User,
    fd: c_int,
    at: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    let accepted = unsafe { stack(user) }.accept(fd);
    if let Ok((_, peer)) = accepted {
        // SAFETY: as above.
        unsafe { tell(at, len, peer) };
    }
    done(accepted.map(|(fd, _)| fd))
}

unsafe extern "C" fn connect(user: User, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    status(unsafe { address(at, len).and_then(|peer| stack(user).connect(fd, peer)) })
}

unsafe extern "C" fn read(user: User, fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    size(unsafe { stack(user).read(fd, room(buf, count), Flags(0)) })
}

unsafe extern "C" fn readv(user: User, fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    size(unsafe { scatter(stack(user), fd, pieces(iov, count.max(0) as usize), Flags(0)) })
}

unsafe extern "C" fn recv(
    user: User,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    size(unsafe { stack(user).read(fd, room(buf, len), Flags(flags)) })
}

unsafe extern "C" fn recvfrom(
    user: User,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    _from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // A connected stream names no sender.
    if !from_len.is_null() {
        // SAFETY: it is a place for a length.
        unsafe { *from_len = 0 };
    }
    // SAFETY: as above.
    size(unsafe { stack(user).read(fd, room(buf, len), Flags(flags)) })
}

unsafe extern "C" fn recvmsg(user: User, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    let message = unsafe { &mut *message };
    (message.msg_namelen, message.msg_controllen, message.msg_flags) = (0, 0, 0);
    // SAFETY: as above.
    size(unsafe {
        let pieces = pieces(message.msg_iov, message.msg_iovlen);
        scatter(stack(user), fd, pieces, Flags(flags))
    })
}

unsafe extern "C" fn write(user: User, fd: c_int, buf: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    size(unsafe { stack(user).write(fd, bytes(buf, count), Flags(0)) })
}

unsafe extern "C" fn writev(user: User, fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    size(unsafe { gather(stack(user), fd, pieces(iov, count.max(0) as usize), Flags(0)) })
}

unsafe extern "C" fn send(
    user: User,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    size(unsafe { stack(user).write(fd, bytes(buf, len), Flags(flags)) })
}

unsafe extern "C" fn sendto(
    user: User,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    if flags & libc::MSG_FASTOPEN != 0 {
        // SAFETY: as above.
        return size(unsafe {
            address(to, to_len)
                .and_then(|to| stack(user).write_fast(fd, bytes(buf, len), Flags(flags), to))
        });
    }
    // SAFETY: as above.
    size(unsafe { stack(user).write(fd, bytes(buf, len), Flags(flags)) })
}

unsafe extern "C" fn sendmsg(
    user: User,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    size(unsafe {
        let pieces = pieces((*message).msg_iov, (*message).msg_iovlen);
        gather(stack(user), fd, pieces, Flags(flags))
    })
}

unsafe extern "C" fn fcntl(user: User, fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    let stack = unsafe { stack(user) };
    done(stack.with(|state| {
        let socket = state.socket(fd)?;
        match command {
            libc::F_GETFL => {
                Ok(libc::O_RDWR | if socket.nonblocking { libc::O_NONBLOCK } else { 0 })
            }
            libc::F_SETFL => {
                socket.nonblocking = argument as c_int & libc::O_NONBLOCK != 0;
                Ok(0)
            }
            _ => Err(libc::EINVAL),
        }
    }))
}

unsafe extern "C" fn ioctl(user: User, fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    let stack = unsafe { stack(user) };
    let asked = stack.with(|state| {
        let (_, there) = state.connection(fd)?;
        let readable = there.readable();
        match request {
            libc::FIONREAD => Ok(readable.end - readable.start),
            libc::TIOCOUTQ => Ok(there.queued() - there.acknowledged()),
            // SIOCOUTQNSD: of these, those that were not sent.
            0x894b => Ok(there.queued() - there.acknowledged() - u64::from(there.in_flight())),
            _ => Err(libc::EINVAL),
        }
    });
    status(asked.map(|number| {
        if !argument.is_null() {
            // SAFETY: these requests have a place for a number.
            unsafe { *argument = number as c_int };
        }
    }))
}

unsafe extern "C" fn close(user: User, fd: c_int) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    status(unsafe { stack(user) }.close(fd))
}

unsafe extern "C" fn shutdown(user: User, fd: c_int, how: c_int) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    status(unsafe { stack(user) }.shutdown(fd, how))
}

unsafe extern "C" fn getsockopt(
    user: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    let option = unsafe { stack(user) }.option(fd, level, name);
    status(option.map(|option| {
        // SAFETY: `len` points to how many bytes can be written at `value`.
        unsafe {
            let short = option.len().min(*len as usize);
            room(value, short).copy_from_slice(&option[..short]);
            *len = short as socklen_t;
        }
    }))
}

unsafe extern "C" fn setsockopt(
    user: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    status(unsafe { stack(user).set_option(fd, level, name, bytes(value, len as usize)) })
}

unsafe extern "C" fn poll(user: User, fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    let fds: &mut [pollfd] = match (fds.is_null(), count) {
        (true, _) | (_, 0) => &mut [],
        // SAFETY: so many can be read and written there.
        _ => unsafe { slice::from_raw_parts_mut(fds, count as usize) },
    };
    // SAFETY: as above.
    unsafe { stack(user) }.poll(fds, timeout) as c_int
}

unsafe extern "C" fn netdev_send(user: User, buf: *const c_void, count: size_t) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    unsafe { stack(user).arrive(bytes(buf, count)) };
    0
}

unsafe extern "C" fn netdev_receive(
    user: User,
    buf: *mut c_void,
    count: *mut size_t,
    time: *mut c_longlong,
) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    let packet = unsafe { stack(user) }.depart();
    // SAFETY: `count` points to how many bytes can be written at `buf`, and `time` to a place for a number.
    unsafe {
        let (at, bytes) = packet.unwrap_or_default();
        let short = bytes.len().min(*count);
        room(buf, short).copy_from_slice(&bytes[..short]);
        *count = short;
        *time = (at / 1000) as c_longlong;
    }
    0
}

unsafe extern "C" fn usleep(user: User, microseconds: c_uint) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    unsafe { stack(user) }.sleep(u64::from(microseconds) * 1000);
    0
}

unsafe extern "C" fn gettimeofday(user: User, time: *mut timeval, _zone: *mut c_void) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    let micros = unsafe { stack(user) }.look() / 1000;
    // SAFETY: it is a place for a time.
    unsafe {
        time.write(timeval {
            tv_sec: (micros / 1_000_000) as libc::time_t,
            tv_usec: (micros % 1_000_000) as libc::suseconds_t,
        });
    }
    0
}

unsafe extern "C" fn epoll_create(user: User, _size: c_int) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    unsafe { stack(user) }.epoll_create()
}

unsafe extern "C" fn epoll_ctl(
    user: User,
    poller: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    let event = if event.is_null() { (0, 0) } else { unsafe { ((*event).events, (*event).u64) } };
    // SAFETY: as above.
    status(unsafe { stack(user) }.epoll_control(poller, op, fd, event))
}

unsafe extern "C" fn epoll_wait(
    user: User,
    poller: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    let most = most.max(0) as usize;
    // SAFETY: `user` is the table's.
    let found = unsafe { stack(user) }.epoll_wait(poller, most, timeout);
    done(found.map(|found| {
        for (at, (ready, data)) in found.iter().enumerate() {
            // SAFETY: there is room for `most`, and no more were found.
            unsafe { events.add(at).write(epoll_event { events: *ready, u64: *data }) };
        }
        found.len() as c_int
    }))
}

unsafe extern "C" fn pipe(_user: User, fds: *mut c_int) -> c_int {
    // SAFETY: `user` is the table's, and the arguments are those of the call of this name.
    unsafe { libc::pipe(fds) }
}

unsafe extern "C" fn splice(
    _user: User,
    _from: c_int,
    _from_at: *mut loff_t,
    _to: c_int,
    _to_at: *mut loff_t,
    _len: size_t,
    _flags: c_uint,
) -> c_int {
    // Pipes are the kernel's, sockets are not.
    done(Err(libc::EINVAL))
}
