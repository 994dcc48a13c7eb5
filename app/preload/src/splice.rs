//! `splice` between a pipe and one of weever's sockets, by copying: octets leave the one only when the other has them.
//!
//! To a connection they are read from the pipe into the frames that the stack sends from. From a socket they are looked at
//! first, and taken off it as far as the pipe has taken them.

use std::ffi::c_void;

use libc::{EAGAIN, MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, c_int, c_short, c_uint, iovec, ssize_t};

use crate::failure::{Answer, Failure, fail};
use crate::file::{Kind, Phase};
use crate::parts::{Parts, Places};
use crate::receive::receive;
use crate::send::send;
use crate::state::{Held, lock};
use crate::wait::{Direction, until};
use crate::{numbers, real};

/// Octets that are moved at once from a socket, or into a datagram.
const MOST: usize = 64 * 1024;
/// `SPLICE_F_NONBLOCK` (`linux/splice.h`).
const NONBLOCK: c_uint = 2;

/// `splice` with a socket of weever on at least one side.
pub(crate) fn splice(
    (from, has_from): (c_int, bool),
    (to, has_to): (c_int, bool),
    len: usize,
    flags: c_uint,
) -> Answer<ssize_t> {
    let into_socket = numbers::file(to).is_some();
    let pipe = if into_socket { from } else { to };
    if !is_pipe(pipe) {
        return fail(libc::EINVAL);
    }
    // Neither side has a position (splice(2)): one for a pipe is ESPIPE, one for a socket EINVAL.
    let (pipes, sockets) = if into_socket { (has_from, has_to) } else { (has_to, has_from) };
    if pipes || sockets {
        return fail(if pipes { libc::ESPIPE } else { libc::EINVAL });
    }
    if len == 0 {
        return Ok(0);
    }
    let wait = flags & NONBLOCK == 0;
    let moved = match (into_socket, is_datagram(if into_socket { to } else { from })) {
        (true, false) => to_stream(pipe, to, len, wait),
        (true, true) => to_datagram(pipe, to, len.min(MOST), wait),
        (false, _) => to_pipe(from, pipe, len.min(MOST), wait),
    };
    moved.map(|moved| moved as ssize_t)
}

fn is_pipe(fd: c_int) -> bool {
    // SAFETY: all zero is a valid `stat`, which is written.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut about) == 0 && about.st_mode & libc::S_IFMT == libc::S_IFIFO
    }
}

fn is_datagram(fd: c_int) -> bool {
    lock().of(fd).is_ok_and(|(_, file)| file.is_udp())
}

/// Octets from a pipe, without waiting; none at its end.
fn read(pipe: c_int, to: &mut [u8]) -> Answer<usize> {
    let part = iovec { iov_base: to.as_mut_ptr().cast::<c_void>(), iov_len: to.len() };
    // SAFETY: writable memory of that length.
    let got = unsafe { libc::preadv2(pipe, &part, 1, -1, libc::RWF_NOWAIT) };
    usize::try_from(got).or_else(|_| fail(real::errno()))
}

/// Octets into a pipe, as far as it has room.
fn write(pipe: c_int, from: &[u8]) -> Answer<usize> {
    let part = iovec { iov_base: from.as_ptr().cast_mut().cast::<c_void>(), iov_len: from.len() };
    // SAFETY: readable memory of that length.
    let put = unsafe { libc::pwritev2(pipe, &part, 1, -1, libc::RWF_NOWAIT) };
    usize::try_from(put).or_else(|_| fail(real::errno()))
}

/// Waits for a pipe, unless the call must not wait.
fn wait_for(pipe: c_int, events: c_short, wait: bool) -> Answer<()> {
    // SAFETY: it has no pointers.
    let flags = unsafe { libc::fcntl(pipe, libc::F_GETFL) };
    if !wait || flags & libc::O_NONBLOCK != 0 {
        return fail(EAGAIN);
    }
    let mut there = libc::pollfd { fd: pipe, events, revents: 0 };
    // SAFETY: one entry.
    match unsafe { real::poll(&mut there, 1, -1) } {
        -1 => fail(real::errno()),
        _ => Ok(()),
    }
}

/// From a pipe to a connection.
fn to_stream(pipe: c_int, to: c_int, len: usize, wait: bool) -> Answer<usize> {
    loop {
        let mut moved = 0;
        let mut empty = false;
        let attempt = |held: &mut Held, place: u32| {
            let done = fill(held, place, pipe, len, &mut moved);
            held.commit_soon();
            match done {
                Err(Failure::Errno(EAGAIN)) => {
                    empty = true;
                    Ok(Some(()))
                }
                Ok(true) => Ok(Some(())),
                Ok(false) if moved > 0 => Ok(Some(())),
                Ok(false) => Ok(None),
                Err(_) if moved > 0 => Ok(Some(())),
                Err(why) => Err(why),
            }
        };
        until(to, !wait, Direction::Send, attempt)?;
        if moved > 0 || !empty {
            return Ok(moved);
        }
        wait_for(pipe, libc::POLLIN, wait)?;
    }
}

/// Fills a connection's frames from a pipe; false when it has no room, true when all is done, or the pipe has ended.
fn fill(held: &mut Held, place: u32, pipe: c_int, len: usize, moved: &mut usize) -> Answer<bool> {
    let queue = held.opened()?;
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let Kind::Stream(stream) = &mut file.kind else { return fail(libc::EPIPE) };
    let handle = match (stream.phase, stream.stream) {
        (Phase::Connecting, _) => return Ok(false),
        _ if file.error != 0 => return fail(std::mem::take(&mut file.error)),
        (Phase::Connected, Some(handle)) if !stream.mute => handle,
        _ => return fail(libc::EPIPE),
    };
    while *moved < len {
        let mut frame = match queue.alloc_octets(handle) {
            Ok(frame) => frame,
            Err(weever_app_sockets::Error::WouldBlock) => {
                stream.blocked = true;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        let space = frame.space();
        let room = space.len().min(len - *moved);
        let got = read(pipe, &mut space[..room])?;
        if got == 0 {
            return Ok(true);
        }
        frame.send(got).map_err(|(_, error)| error)?;
        *moved += got;
    }
    Ok(true)
}

/// From a pipe into one datagram.
fn to_datagram(pipe: c_int, to: c_int, len: usize, wait: bool) -> Answer<usize> {
    let mut octets = vec![0; len];
    let got = loop {
        match read(pipe, &mut octets) {
            Err(Failure::Errno(EAGAIN)) => wait_for(pipe, libc::POLLIN, wait)?,
            got => break got?,
        }
    };
    let part = iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: got };
    // SAFETY: memory of that length.
    let parts = unsafe { Parts::new(std::slice::from_ref(&part)) };
    if got == 0 { Ok(0) } else { send(to, &parts, 0, None, None) }
}

/// From a socket to a pipe.
fn to_pipe(from: c_int, pipe: c_int, len: usize, wait: bool) -> Answer<usize> {
    let mut octets = vec![0u8; len];
    let waits = if wait { 0 } else { MSG_DONTWAIT };
    let seen = take(from, &mut octets, MSG_PEEK | waits)?;
    if seen == 0 {
        return Ok(0);
    }
    let put = loop {
        match write(pipe, &octets[..seen]) {
            Err(Failure::Errno(EAGAIN)) => wait_for(pipe, libc::POLLOUT, wait)?,
            put => break put?,
        }
    };
    // A stream gives up what the pipe has, a datagram socket the datagram.
    take(from, &mut octets[..put], MSG_TRUNC | MSG_DONTWAIT)?;
    Ok(put)
}

fn take(from: c_int, octets: &mut [u8], flags: c_int) -> Answer<usize> {
    let part = iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
    // SAFETY: writable memory of that length, and no message.
    unsafe {
        let places = Places::new(std::slice::from_ref(&part));
        receive(from, &places, flags, None).map(|got| got.octets.min(octets.len()))
    }
}
