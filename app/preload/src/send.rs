//! Sending: octets are copied once, into the frames that the stack sends from, and handed over at once.

use std::net::SocketAddr;

use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, c_int, iovec};
use weever_app_sockets::{AppQueue, Error, SendOptions};

use crate::failure::{Answer, Failure, fail};
use crate::file::{Kind, Phase};
use crate::state::{Held, lock};
use crate::wait::{Direction, until};
use crate::{numbers, open};

/// Octets that a program sends.
pub(crate) struct Parts<'p>(&'p [iovec]);

impl<'p> Parts<'p> {
    /// # Safety
    /// Each part is readable memory of its length.
    pub(crate) unsafe fn new(parts: &'p [iovec]) -> Parts<'p> {
        Parts(parts)
    }

    fn len(&self) -> usize {
        self.0.iter().map(|part| part.iov_len).sum()
    }

    fn slices(&self) -> impl Iterator<Item = &'p [u8]> {
        let parts = self.0.iter().filter(|part| part.iov_len > 0);
        // SAFETY: the promise of `new`.
        parts.map(|part| unsafe {
            std::slice::from_raw_parts(part.iov_base.cast::<u8>().cast_const(), part.iov_len)
        })
    }
}

/// Sends; to `to` if it is there, which only a datagram heeds. Options come from control messages.
pub(crate) fn send(
    fd: c_int,
    parts: &Parts<'_>,
    flags: c_int,
    to: Option<SocketAddr>,
    options: Option<SendOptions>,
) -> Answer<usize> {
    if flags & libc::MSG_OOB != 0 {
        return fail(libc::EOPNOTSUPP);
    }
    if numbers::file(fd).is_none() {
        let to = to.ok_or(Failure::Kernel)?;
        if to.ip().is_loopback() {
            return Err(Failure::Kernel);
        }
        open::bind_to_send(&mut lock(), fd, to)?;
    }
    let mut done = 0;
    let attempt = |held: &mut Held, place: u32| {
        let sent = match held.files.get(place).map(|file| &file.kind) {
            Some(Kind::Stream(_)) => octets(held, place, parts, &mut done),
            Some(Kind::Udp(_)) => datagram(held, place, parts, to, options),
            _ => fail(libc::ENOTCONN),
        };
        held.commit_soon();
        sent
    };
    let sent = until(fd, flags & MSG_DONTWAIT != 0, Direction::Send, attempt);
    match sent {
        Err(Failure::Errno(libc::EPIPE)) if done == 0 => {
            if flags & MSG_NOSIGNAL == 0 {
                // SAFETY: it has no pointers. The program has its own ideas about this signal.
                unsafe { libc::raise(libc::SIGPIPE) };
            }
            sent
        }
        Err(Failure::Errno(_)) if done > 0 => Ok(done),
        sent => sent,
    }
}

/// Writes octets to a stream, behind those that are `done`; nothing while there is no room.
fn octets(
    held: &mut Held,
    place: u32,
    parts: &Parts<'_>,
    done: &mut usize,
) -> Answer<Option<usize>> {
    let queue = held.opened()?;
    let whole = parts.len();
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let Kind::Stream(stream) = &mut file.kind else { return fail(libc::ENOTCONN) };
    match stream.phase {
        Phase::Connecting => return Ok(None),
        _ if file.error != 0 && stream.received.is_empty() => {
            return fail(std::mem::take(&mut file.error));
        }
        Phase::Connected if !stream.mute => {}
        _ => return fail(libc::EPIPE),
    }
    let Some(handle) = stream.stream else { return fail(libc::EPIPE) };
    let mut skip = *done;
    for part in parts.slices() {
        if skip >= part.len() {
            skip -= part.len();
            continue;
        }
        let rest = &part[skip..];
        skip = 0;
        match queue.write(handle, rest) {
            Ok(count) => {
                *done += count;
                if count < rest.len() {
                    break;
                }
            }
            Err(Error::WouldBlock) => break,
            Err(error) => return Err(error.into()),
        }
    }
    stream.blocked = *done < whole;
    let enough = *done == whole || *done > 0 && file.nonblocking;
    Ok(enough.then_some(*done))
}

fn datagram(
    held: &mut Held,
    place: u32,
    parts: &Parts<'_>,
    to: Option<SocketAddr>,
    options: Option<SendOptions>,
) -> Answer<Option<usize>> {
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let Kind::Udp(udp) = &file.kind else { return Err(Failure::Kernel) };
    let own = SendOptions {
        hops: file.options.send_hops,
        traffic_class: file.options.send_class,
        ..SendOptions::default()
    };
    let peer = udp.peer;
    if file.error != 0 {
        return fail(std::mem::take(&mut file.error));
    }
    let kernel = file.kernel;
    match (to, peer) {
        (Some(to), _) if !held.reaches(to.ip()) && !to.ip().is_multicast() => {
            return if kernel { Err(Failure::Kernel) } else { fail(libc::ENETUNREACH) };
        }
        (None, None) => return fail(libc::EDESTADDRREQ),
        _ => {}
    }
    held.ensure(place)?;
    let queue = held.opened()?;
    let Some(Kind::Udp(udp)) = held.files.get_mut(place).map(|file| &mut file.kind) else {
        return Err(Failure::Kernel);
    };
    let Some(socket) = udp.socket else { return fail(libc::ENETDOWN) };
    let len = parts.len();
    let mut slices = parts.slices();
    let (first, second) = (slices.next().unwrap_or(&[]), slices.next());
    let mut joined = Vec::new();
    let payload = match second {
        None => first,
        Some(_) => {
            joined.reserve_exact(len);
            parts.slices().for_each(|part| joined.extend_from_slice(part));
            &joined
        }
    };
    let to = to.filter(|to| Some(*to) != peer);
    let sent = give(queue, socket, payload, to, options.unwrap_or(own));
    udp.blocked = matches!(sent, Err(Error::WouldBlock));
    match sent {
        Ok(()) => Ok(Some(len)),
        Err(Error::WouldBlock) => {
            // Frames come back without an event of the socket's: look again at the next wake-up.
            udp.blocked = false;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn give(
    queue: &AppQueue,
    socket: weever_app_sockets::UdpSocket,
    payload: &[u8],
    to: Option<SocketAddr>,
    options: SendOptions,
) -> Result<(), Error> {
    // Port 0: the connected socket's own peer.
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    queue.send_to(socket, payload, to.unwrap_or(nowhere), options)
}
