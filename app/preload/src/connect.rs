//! Connections are made and accepted, and descriptors duplicated and closed.

use std::net::SocketAddr;
use std::time::Duration;

use libc::{O_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, c_int, sockaddr, socklen_t};
use weever_app_sockets::{AppQueue, Error, Handle, StreamOption};

use crate::failure::{Answer, Failure, fail};
use crate::file::{File, Kind, Phase, Stream, Udp};
use crate::numbers::{self, Meaning};
use crate::open::{file, is_selected, kernel_name, kind_of, option};
use crate::state::{Held, State, lock};
use crate::wait::{Direction, Moment, until};
use crate::{address, log, real};

/// The time between two looks of a close whether everything is acknowledged.
const LOOK: Duration = Duration::from_millis(1);

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
        let waits = held.files.get(place).is_some_and(|file| {
            let connecting = matches!(&file.kind, Kind::Stream(s) if s.phase == Phase::Connecting);
            connecting && !file.nonblocking
        });
        // SAFETY: the caller's promise.
        if to.is_none() && unsafe { address::is_unspecified_family(raw, len) } {
            return disconnect(&mut held, fd, place);
        }
        if !waits {
            return once_more(&mut held, fd, place, to);
        }
        // A signal has ended the first call; the connection is still being opened.
        drop(held);
        return wait_for_connection(fd);
    }
    let to = to.ok_or(Failure::Kernel)?;
    let kind = kind_of(fd).ok_or(Failure::Kernel)?;
    let local = kernel_name(fd).ok_or(Failure::Kernel)?;
    if local.ip().is_loopback()
        || !is_selected(kind.stream, &[to.port(), local.port()])
        || to.port() == 0
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
    wait_for_connection(fd)
}

/// `connect` to no family (`AF_UNSPEC`): a datagram socket has no peer any more, a connection is reset, and its descriptor
/// can be used anew.
fn disconnect(held: &mut Held, fd: c_int, place: u32) -> Answer<c_int> {
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    match &file.kind {
        Kind::Udp(_) => return again(held, place, None),
        Kind::Listening(_) => return Err(Failure::Kernel),
        Kind::Stream(_) => file.options.reset_on_close = true,
    }
    held.detach(fd);
    Ok(0)
}

fn wait_for_connection(fd: c_int) -> Answer<c_int> {
    let connected = until(fd, false, Direction::Send, |held, place| established(held, fd, place));
    match connected {
        Err(Failure::Errno(libc::EAGAIN)) => fail(libc::EINPROGRESS),
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
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    match &mut file.kind {
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
    let attempt = |held: &mut Held, place: u32| {
        held.use_it(place)?;
        let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
        let (family, kernel) = (file.family, file.kernel);
        let Kind::Listening(listening) = &mut file.kind else { return fail(libc::EINVAL) };
        if let Some(next) = listening.pending.pop_front() {
            held.take_in(next);
            return give(held, next, family, flags).map(Some);
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
    let (place, file) = held.of(fd)?;
    let (reading, writing) = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return fail(libc::EINVAL),
    };
    match &mut file.kind {
        Kind::Stream(_) => {}
        Kind::Udp(udp) if udp.peer.is_some() => {
            (udp.deaf, udp.mute) = (udp.deaf || reading, udp.mute || writing);
            held.touch(place);
            return Ok(0);
        }
        Kind::Udp(_) => return fail(libc::ENOTCONN),
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

/// Called before a connection's last descriptor is closed, with `SO_LINGER`: sends FIN, and waits up to this time until
/// the peer has acknowledged everything.
pub(crate) fn linger(fd: c_int) {
    let since = Moment::now();
    let mut held = lock();
    let Ok((_, File { descriptors: 1, options, kind: Kind::Stream(stream), .. })) = held.of(fd)
    else {
        return;
    };
    let (Some(limit), Some(handle)) = (options.linger, stream.stream) else { return };
    let ends = !std::mem::replace(&mut stream.mute, true);
    let Ok(queue) = held.opened() else { return };
    if ends && queue.finish(handle).is_err() {
        return;
    }
    held.commit();
    while since.elapsed() < limit
        && held.opened().is_ok_and(|queue| queue.unacknowledged(handle).is_ok_and(|n| n > 0))
    {
        drop(held);
        std::thread::sleep(LOOK);
        held = lock();
        held.pump();
    }
}

impl State {
    /// A descriptor is the kernel's again; the socket that it led to is closed if it was the last.
    pub(crate) fn detach(&mut self, fd: c_int) {
        let Some(place) = numbers::file(fd) else { return };
        numbers::set(fd, None);
        self.leave_sets(fd, place);
        let Some(file) = self.files.get_mut(place) else { return };
        file.descriptors -= 1;
        if file.descriptors == 0 {
            self.close_file(place);
        }
    }

    /// Closes a socket that no descriptor leads to.
    pub(crate) fn close_file(&mut self, place: u32) {
        self.stop_listening(place);
        if self.part_with(place) {
            return;
        }
        let Some(file) = self.files.remove(place) else { return };
        let reset = file.options.reset_on_close;
        let Some(queue) = self.queue else { return };
        match file.kind {
            Kind::Udp(udp) => {
                if let Some(socket) = udp.socket {
                    self.forget(Handle::Udp(socket));
                    let closed = queue.close(socket);
                    closed.unwrap_or_else(|error| log::note(format_args!("close: {error}")));
                }
            }
            Kind::Stream(stream) => close_stream(self, queue, *stream, reset),
            Kind::Listening(_) => {}
        }
        self.commit();
    }

    /// Closes a listener on the queue, with the connections that were not accepted.
    pub(crate) fn stop_listening(&mut self, place: u32) {
        let Some(queue) = self.queue else { return };
        let Some(Kind::Listening(listening)) = self.files.get_mut(place).map(|f| &mut f.kind)
        else {
            return;
        };
        let listener = listening.listener.take();
        let pending = std::mem::take(&mut listening.pending);
        if let Some(listener) = listener {
            self.forget(Handle::Listener(listener));
            let _ = queue.close_listener(listener);
        }
        for place in pending {
            self.leave(place, false);
        }
        self.commit();
    }

    /// Lets a listener rest that this process does not use, but its children may: its connections wait for them.
    pub(crate) fn rest(&mut self, place: u32) {
        if crate::inside::is_chosen() || self.ensure(place).is_err() {
            return;
        }
        let Some(queue) = self.queue else { return };
        let Some(Kind::Listening(listening)) = self.files.get_mut(place).map(|f| &mut f.kind)
        else {
            return;
        };
        let (listener, pending) = (listening.listener, std::mem::take(&mut listening.pending));
        listening.rests = true;
        let rests = listener.map(|listener| queue.serve(listener, false));
        if let Some(Err(error)) = rests {
            log::note(format_args!(
                "connections of an unused listener do not go to others: {error}"
            ));
        }
        pending.into_iter().for_each(|place| self.leave(place, false));
        self.commit();
    }

    /// The program has accepted a connection.
    fn take_in(&mut self, place: u32) {
        let stream = self.files.get(place).and_then(File::on_queue);
        if let Some((stream, queue)) = stream.zip(self.queue) {
            self.insist("an accepted connection cannot be reported", || queue.accept(stream));
            self.commit_soon();
        }
    }

    /// Leaves a connection that may go to another process. Octets that were not read are kept until the stack has taken
    /// them.
    pub(crate) fn leave(&mut self, place: u32, seen: bool) {
        let stream = self.files.get(place).and_then(File::on_queue);
        let Some((stream, queue)) = stream.zip(self.queue) else {
            self.files.remove(place);
            return;
        };
        self.insist("a connection cannot be released", || match seen {
            true => queue.release_stream(stream),
            false => queue.decline(stream),
        });
        if let Some(file) = self.files.get_mut(place) {
            file.left = true;
        }
    }

    /// Leaves a connection to the other processes that hold it; false if there are none.
    fn part_with(&mut self, place: u32) -> bool {
        let Some(Kind::Stream(stream)) = self.files.get_mut(place).map(|file| &mut file.kind)
        else {
            return false;
        };
        let there = stream.stream.is_some() && stream.phase != Phase::Over;
        if let Some(away) = stream.away.take() {
            self.renounce(&away);
            self.files.remove(place);
            return true;
        }
        if !(stream.shared && there) {
            return false;
        }
        stream.settle_read();
        self.leave(place, true);
        self.commit();
        true
    }

    /// Does something that needs room in the ring; if there is none, waits until the stack has
    /// taken entries.
    fn insist(&mut self, what: &str, mut attempt: impl FnMut() -> Result<(), Error>) {
        for _ in 0..1000 {
            match attempt() {
                Err(Error::WouldBlock) => self.wait_for_stack(),
                _ => return,
            }
        }
        log::note(format_args!("{what}: the stack takes no entries"));
    }
}

/// Closes a stream; with unread octets the stack resets it, as Linux does.
fn close_stream(state: &mut State, queue: &'static AppQueue, stream: Stream, reset: bool) {
    let Some(handle) = stream.stream else { return };
    let abort = reset || stream.readable() > 0;
    drop(stream);
    state.forget(Handle::Stream(handle));
    state.insist("a connection cannot be closed", || match abort {
        true => queue.abort(handle),
        false => queue.close_stream(handle),
    });
}
