//! `bind` and `listen`: the kernel's socket takes the port, and weever's is opened beside it.

use std::mem::size_of;
use std::net::SocketAddr;

use libc::{c_int, socklen_t};

use crate::behind::{fits, is_v6_only, kernel_name, kind_of};
use crate::failure::{Answer, Failure, fail};
use crate::file::{File, Kind, Listening, Udp};
use crate::open::{file, is_selected};
use crate::state::State;
use crate::{address, log, numbers, real};

/// Binds the kernel's socket, to an address of weever's as well.
///
/// # Safety
/// As `bind` of the C library.
pub(crate) unsafe fn reserve_port(
    state: &mut State,
    fd: c_int,
    to: SocketAddr,
    raw: (*const libc::sockaddr, socklen_t),
) -> Answer<()> {
    // SAFETY: the caller's promise.
    if unsafe { real::bind(fd, raw.0, raw.1) } == 0 {
        return Ok(());
    }
    let errno = real::errno();
    if errno != libc::EADDRNOTAVAIL || !state.is_own(to.ip()) {
        return fail(errno);
    }
    free_bind(fd);
    // SAFETY: the caller's promise.
    if unsafe { real::bind(fd, raw.0, raw.1) } == 0 { Ok(()) } else { fail(real::errno()) }
}

/// Lets the kernel's socket have an address that is not the kernel's.
fn free_bind(fd: c_int) {
    let on: c_int = 1;
    let (value, len) = ((&raw const on).cast(), size_of::<c_int>() as socklen_t);
    // SAFETY: an integer to read. A kernel that refuses says so at `bind`.
    unsafe {
        real::setsockopt(fd, libc::IPPROTO_IP, libc::IP_FREEBIND, value, len);
        real::setsockopt(fd, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, value, len);
    }
}

/// `bind`.
///
/// # Safety
/// As `bind` of the C library.
pub(crate) unsafe fn bind(
    state: &mut State,
    fd: c_int,
    raw: (*const libc::sockaddr, socklen_t),
) -> Answer<c_int> {
    // SAFETY: the caller's promise.
    let to = unsafe { address::read(raw.0, raw.1) }.ok_or(Failure::Kernel)?;
    if numbers::file(fd).is_some() {
        return fail(libc::EINVAL);
    }
    let kind = kind_of(fd).ok_or(Failure::Kernel)?;
    if to.ip().is_loopback() || !is_selected(kind.stream, &[to.port()]) {
        return Err(Failure::Kernel);
    }
    if !state.can_wait(to.ip()) {
        state.need_queue()?;
    }
    // A datagram socket gets packets from then on; a connection's socket does not answer before it listens.
    if !kind.stream {
        state.keep_silent(fd, to.ip());
    }
    // SAFETY: the caller's promise.
    unsafe { reserve_port(state, fd, to, raw) }?;
    // A listener is opened by `listen`, a connection by `connect`: the kernel's socket keeps the address.
    if !kind.stream {
        bind_udp(state, fd, kind.family)?;
    }
    Ok(0)
}

/// Opens the UDP socket of a descriptor whose kernel's socket is bound.
fn bind_udp(state: &mut State, fd: c_int, family: c_int) -> Answer<u32> {
    let local = kernel_name(fd).ok_or(Failure::Kernel)?;
    if !local.ip().is_unspecified() && !state.is_own(local.ip()) && !local.ip().is_multicast() {
        return Ok(0);
    }
    let kernel = state.kernel_serves(local);
    let file = File { local, kernel, ..file(family, Kind::Udp(Udp::default())) };
    let place = state.attach(fd, file)?;
    match state.ensure_unless_waiting(place) {
        Ok(()) => Ok(place),
        Err(why) => {
            log::note(format_args!("{local} by UDP is the kernel's alone: {why:?}"));
            state.detach(fd);
            Err(why)
        }
    }
}

/// A UDP socket that is about to send, without having been bound: to this address.
pub(crate) fn bind_to_send(state: &mut State, fd: c_int, to: SocketAddr) -> Answer<u32> {
    let kind = kind_of(fd).filter(|kind| !kind.stream).ok_or(Failure::Kernel)?;
    let local = kernel_name(fd).ok_or(Failure::Kernel)?;
    if local.ip().is_loopback()
        || !is_selected(false, &[to.port(), local.port()])
        || to.port() == 0
        || !fits(kind.family, is_v6_only(fd, kind.family), to)
        || !state.reaches(to.ip())
    {
        return Err(Failure::Kernel);
    }
    if local.port() == 0 {
        let any = address::unspecified(kind.family);
        let (bytes, len) = address::encoded(any, kind.family);
        // SAFETY: an address of that length.
        if unsafe { real::bind(fd, bytes.as_ptr().cast(), len as socklen_t) } != 0 {
            return Err(Failure::Kernel);
        }
    }
    bind_udp(state, fd, kind.family)?;
    numbers::file(fd).ok_or(Failure::Kernel)
}

/// `listen`.
pub(crate) fn listen(state: &mut State, fd: c_int, backlog: c_int) -> Answer<c_int> {
    if let Some(place) = numbers::file(fd) {
        match state.files.get(place).map(|file| &file.kind) {
            Some(Kind::Listening(_)) => {}
            Some(Kind::Udp(_)) => return fail(libc::EOPNOTSUPP),
            _ => return fail(libc::EINVAL),
        }
        // SAFETY: it has no pointers.
        let done = unsafe { real::listen(fd, backlog) };
        if let Some(Kind::Listening(listening)) = state.files.get_mut(place).map(|f| &mut f.kind) {
            listening.backlog = backlog.max(0) as u32;
        }
        return if done == 0 { Ok(0) } else { fail(real::errno()) };
    }
    let kind = kind_of(fd).filter(|kind| kind.stream).ok_or(Failure::Kernel)?;
    let before = kernel_name(fd).ok_or(Failure::Kernel)?;
    if before.ip().is_loopback() || !is_selected(true, &[before.port()]) {
        return Err(Failure::Kernel);
    }
    if !state.can_wait(before.ip()) {
        state.need_queue()?;
    }
    state.keep_silent(fd, before.ip());
    // SAFETY: it has no pointers.
    let kernel_listens = || match unsafe { real::listen(fd, backlog) } {
        0 => Ok(0),
        _ => fail(real::errno()),
    };
    // Of an address that stack and kernel share, the kernel is to accept no connection from outside.
    let kernel_is_last = before.port() != 0;
    if !kernel_is_last {
        kernel_listens()?;
    }
    let local = kernel_name(fd).ok_or(Failure::Kernel)?;
    if !local.ip().is_unspecified() && !state.is_own(local.ip()) {
        return kernel_listens();
    }
    let kernel = state.kernel_serves(local);
    let listening = Listening { backlog: backlog.max(0) as u32, ..Listening::default() };
    let file = File { local, kernel, ..file(kind.family, Kind::Listening(listening)) };
    let place = state.attach(fd, file)?;
    if let Err(why) = state.ensure_unless_waiting(place) {
        log::note(format_args!("{local} by TCP is the kernel's alone: {why:?}"));
        state.detach(fd);
        return Err(why);
    }
    if kernel_is_last {
        kernel_listens().inspect_err(|_| state.detach(fd))?;
    }
    Ok(0)
}
