//! Connections are made, accepted and shut down.

use std::net::SocketAddr;

use libc::{O_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, c_int, sockaddr, socklen_t};
use weever_app_sockets::{Handle, StreamOption};

use crate::adopt::adopt_one;
use crate::behind::{fits, is_v6_only, kernel_name, kind_of, option};
use crate::failure::{Answer, Failure, fail};
use crate::file::{File, Kind, Phase, Stream, Udp};
use crate::numbers::{self, Meaning};
use crate::open::{file, is_selected};
use crate::state::{Held, State, lock};
use crate::wait::{Direction, until};
use crate::{address, real};

/// `connect`.
///
/// # Safety
/// As `connect` of the C library.
pub(crate) unsafe fn connect(fd: c_int, raw: *const sockaddr, len: socklen_t) -> Answer<c_int> {
    // SAFETY: the caller's promise.
    let to = unsafe { address::read(raw, len) };
    if to.is_none() && numbers::file(fd).is_none() {
        return Err(Failure::Kernel);
    }
    let mut held = lock();
    if let Some(place) = numbers::file(fd) {
        // How the first call ended, and datagrams from before the next peer.
        held.pump();
        let waits = held.files.get(place).is_some_and(|file| {
            let connecting = matches!(&file.kind, Kind::Stream(s) if s.phase == Phase::Connecting);
            connecting && !file.nonblocking
        });
        // SAFETY: the caller's promise.
        if to.is_none() && unsafe { address::is_unspecified_family(raw, len) } {
            return disconnect(&mut held, fd, place);
        }
        if held.files.get(place).is_some_and(|file| {
            file.is_udp() && !to.is_some_and(|to| fits(file.family, file.v6_only, to))
        }) {
            return Err(Failure::Kernel);
        }
        if !waits {
            return once_more(&mut held, fd, place, to);
        }
        // A signal or a timeout has ended the first call; the connection is still being opened.
        drop(held);
        return wait_for_connection(fd, libc::EALREADY);
    }
    let to = to.ok_or(Failure::Kernel)?;
    let kind = kind_of(fd).ok_or(Failure::Kernel)?;
    let local = kernel_name(fd).ok_or(Failure::Kernel)?;
    if local.ip().is_loopback()
        || !is_selected(kind.stream, &[to.port(), local.port()])
        || to.port() == 0
        || !fits(kind.family, is_v6_only(fd, kind.family), to)
        || !held.reaches(to.ip())
    {
        return Err(Failure::Kernel);
    }
    let local = same_family(local, to);
    if !kind.stream {
        let udp = Udp { peer: Some(to), ..Udp::default() };
        let place = held.attach(fd, File { local, ..file(kind.family, Kind::Udp(udp)) })?;
        return opened(&mut held, fd, place);
    }
    let fast = option::<c_int>(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT) == Some(1);
    let place = begin(&mut held, fd, (kind.family, local, to), fast)?;
    if fast {
        // The SYN leaves with the first write, or with any other call that commits the queue.
        return Ok(0);
    }
    held.commit();
    let nonblocking = held.files.get(place).is_some_and(|file| file.nonblocking);
    drop(held);
    if nonblocking {
        return fail(libc::EINPROGRESS);
    }
    wait_for_connection(fd, libc::EINPROGRESS)
}

/// `connect` to no family (`AF_UNSPEC`): a datagram socket has no peer any more, a connection is reset, and its descriptor
/// can be used anew.
fn disconnect(held: &mut Held, fd: c_int, place: u32) -> Answer<c_int> {
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    match &file.kind {
        // The kernel's socket is bound if the program has bound it.
        Kind::Udp(_) if kernel_name(fd).is_some_and(|name| name.port() != 0) => {
            return again(held, place, None);
        }
        Kind::Udp(_) => {}
        Kind::Listening(_) => return Err(Failure::Kernel),
        Kind::Stream(_) => file.options.reset_on_close = true,
    }
    held.detach(fd);
    Ok(0)
}

/// Waits until the connection is there; after a timeout (`SO_SNDTIMEO`) it fails with `unfinished`.
fn wait_for_connection(fd: c_int, unfinished: c_int) -> Answer<c_int> {
    let connected = until(fd, false, Direction::Send, |held, place| established(held, fd, place));
    match connected {
        Err(Failure::Errno(libc::EAGAIN)) => fail(unfinished),
        connected => connected,
    }
}

/// Requests a new connection from the stack. With `fast`, its SYN carries the octets that are written next.
fn begin(
    held: &mut Held,
    fd: c_int,
    (family, local, to): (c_int, SocketAddr, SocketAddr),
    fast: bool,
) -> Answer<u32> {
    let queue = held.need_queue()?;
    // The kernel's socket behind it has the port, if there is one.
    queue.take_port(local.port(), true)?;
    let stream = queue.connect_tcp_from(local, to)?;
    // With a full ring it is an ordinary connection.
    let fast = fast && queue.set_option(stream, StreamOption::FastOpen(1)).is_ok();
    let state = Stream { fast, ..Stream::new(stream, Phase::Connecting, to) };
    let new = File { local, ..self::file(family, Kind::Stream(Box::new(state))) };
    let place = held.attach(fd, new).inspect_err(|_| drop(queue.abort(stream)))?;
    held.name(Handle::Stream(stream), place);
    Ok(place)
}

/// The connection of a write with `MSG_FASTOPEN`; false if it is not for a stream.
pub(crate) fn connect_fast(fd: c_int, to: SocketAddr) -> Answer<bool> {
    let kind = kind_of(fd).ok_or(Failure::Kernel)?;
    if !kind.stream {
        return Ok(false);
    }
    let mut held = lock();
    let local = kernel_name(fd).ok_or(Failure::Kernel)?;
    let foreign = to.ip().is_loopback() || local.ip().is_loopback() || to.port() == 0;
    if foreign || !is_selected(true, &[to.port(), local.port()]) || !held.reaches(to.ip()) {
        return Err(Failure::Kernel);
    }
    let local = same_family(local, to);
    begin(&mut held, fd, (kind.family, local, to), true)?;
    Ok(true)
}

/// `connect` of a socket that is weever's already.
fn once_more(held: &mut Held, fd: c_int, place: u32, to: Option<SocketAddr>) -> Answer<c_int> {
    let is_kernels = to.is_some_and(|to| !held.reaches(to.ip()));
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    match &mut file.kind {
        // A peer that only the kernel reaches: the socket becomes the kernel's, unless an epoll set waits for it here.
        Kind::Udp(_) if is_kernels && file.watchers.is_empty() => {
            held.detach(fd);
            Err(Failure::Kernel)
        }
        Kind::Udp(_) => again(held, place, to),
        Kind::Listening(_) => fail(libc::EISCONN),
        Kind::Stream(stream) => match stream.phase {
            Phase::Connecting => fail(libc::EALREADY),
            // Linux tells the end of a connect that did not wait once.
            Phase::Connected if !std::mem::replace(&mut stream.told, true) => Ok(0),
            Phase::Connected => fail(libc::EISCONN),
            Phase::Over if file.error != 0 => {
                let errno = file.error;
                held.detach(fd);
                fail(errno)
            }
            Phase::Over => fail(libc::EISCONN),
        },
    }
}

fn established(held: &mut Held, fd: c_int, place: u32) -> Answer<Option<c_int>> {
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let Kind::Stream(stream) = &mut file.kind else { return Err(Failure::Kernel) };
    stream.told = stream.phase == Phase::Connected;
    match (stream.phase, file.error) {
        (Phase::Connecting, _) => Ok(None),
        (_, 0) => Ok(Some(0)),
        (_, errno) => {
            held.detach(fd);
            fail(errno)
        }
    }
}

/// An unspecified address in the family of another.
fn same_family(local: SocketAddr, to: SocketAddr) -> SocketAddr {
    if !local.ip().is_unspecified() {
        return local;
    }
    let any = address::unspecified(if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 });
    SocketAddr::new(any.ip(), local.port())
}

/// A UDP socket gets another peer, or none.
fn again(held: &mut Held, place: u32, to: Option<SocketAddr>) -> Answer<c_int> {
    let queue = held.need_queue()?;
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let Kind::Udp(udp) = &mut file.kind else { return Err(Failure::Kernel) };
    let old = udp.socket.take();
    udp.peer = to;
    if let Some(to) = to {
        file.local = same_family(file.local, to);
    }
    if let Some(old) = old {
        held.forget(Handle::Udp(old));
        queue.close(old)?;
    }
    held.ensure(place).map(|()| 0)
}

/// The UDP socket of a new file is opened, or its descriptor is the kernel's again.
fn opened(held: &mut Held, fd: c_int, place: u32) -> Answer<c_int> {
    held.ensure(place).inspect_err(|_| held.detach(fd))?;
    Ok(0)
}

/// `accept4`.
///
/// # Safety
/// As `accept4` of the C library.
pub(crate) unsafe fn accept(
    fd: c_int,
    to: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Answer<c_int> {
    if flags & !(SOCK_CLOEXEC | SOCK_NONBLOCK) != 0 {
        return fail(libc::EINVAL);
    }
    let attempt = |held: &mut Held, place: u32| {
        held.use_or_wait(place)?;
        let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
        let (family, kernel) = (file.family, file.kernel);
        let listening = match &mut file.kind {
            Kind::Listening(listening) => listening,
            Kind::Udp(_) => return fail(libc::EOPNOTSUPP),
            Kind::Stream(_) => return fail(libc::EINVAL),
        };
        if let Some(next) = listening.pending.pop_front() {
            let inherited = listening.inherited.clone();
            held.take_in(next);
            let new = give(held, next, family, flags)?;
            for (level, name) in inherited.set_at(new) {
                adopt_one(held, new, next, level, name);
            }
            return Ok(Some(new));
        }
        if !kernel {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { accept_kernels(fd, to, len, flags) }
    };
    let new = until(fd, false, Direction::Receive, attempt)?;
    let mut held = lock();
    if let Ok((_, file)) = held.of(new)
        && let Kind::Stream(stream) = &file.kind
    {
        // SAFETY: the caller's promise.
        unsafe { address::write(stream.remote, file.family, to, len) };
    }
    Ok(new)
}

/// Takes a connection of the kernel's listener, if there is one.
///
/// # Safety
/// As [`accept`].
unsafe fn accept_kernels(
    fd: c_int,
    to: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Answer<Option<c_int>> {
    let mut there = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    if unsafe { real::poll(&mut there, 1, 0) } <= 0 {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    match unsafe { real::accept4(fd, to, len, flags) } {
        new if new >= 0 => Ok(Some(new)),
        _ if real::errno() == libc::EAGAIN => Ok(None),
        _ => fail(real::errno()),
    }
}

/// Gives an accepted connection a descriptor.
fn give(held: &mut Held, place: u32, family: c_int, flags: c_int) -> Answer<c_int> {
    let kind = SOCK_STREAM | flags & (SOCK_CLOEXEC | SOCK_NONBLOCK);
    // SAFETY: it has no pointers.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 || !numbers::set(fd, Some(Meaning::File(place))) {
        let errno = if fd < 0 { real::errno() } else { libc::EMFILE };
        if fd >= 0 {
            // SAFETY: it was made above.
            unsafe { real::close(fd) };
        }
        held.close_file(place);
        return fail(errno);
    }
    if let Some(file) = held.files.get_mut(place) {
        file.descriptors = 1;
        file.nonblocking = flags & O_NONBLOCK != 0;
    }
    Ok(fd)
}

/// `shutdown`.
pub(crate) fn shutdown(fd: c_int, how: c_int) -> Answer<c_int> {
    let mut held = lock();
    held.look_at(fd)?;
    let (place, file) = held.of(fd)?;
    let (reading, writing) = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return fail(libc::EINVAL),
    };
    match &mut file.kind {
        // As Linux: the connection is given up.
        Kind::Stream(stream) if stream.phase == Phase::Connecting => {
            return disconnect(&mut held, fd, place);
        }
        Kind::Stream(_) => {}
        Kind::Udp(udp) => {
            (udp.deaf, udp.mute) = (udp.deaf || reading, udp.mute || writing);
            let has_peer = udp.peer.is_some();
            held.touch(place);
            // As on Linux, it has its effect without a peer as well.
            return if has_peer { Ok(0) } else { fail(libc::ENOTCONN) };
        }
        Kind::Listening(_) => {
            // SAFETY: it has no pointers.
            let done = unsafe { real::shutdown(fd, how) };
            held.stop_listening(place);
            return if done == 0 { Ok(0) } else { fail(real::errno()) };
        }
    }
    held.ensure(place)?;
    let queue = held.opened()?;
    let (_, file) = held.of(fd)?;
    let Kind::Stream(stream) = &mut file.kind else { return Err(Failure::Kernel) };
    if stream.phase != Phase::Connected || stream.mute && stream.finished {
        return fail(libc::ENOTCONN);
    }
    stream.deaf |= reading;
    if writing && !stream.mute {
        stream.mute = true;
        if let Some(handle) = stream.stream {
            queue.finish(handle)?;
        }
    }
    held.touch(place);
    held.commit();
    Ok(0)
}

impl State {
    /// The program has accepted a connection.
    fn take_in(&mut self, place: u32) {
        let stream = self.files.get(place).and_then(File::on_queue);
        if let Some((stream, queue)) = stream.zip(self.queue) {
            self.insist("an accepted connection cannot be reported", || queue.accept(stream));
            self.commit_soon();
        }
    }
}
