//! Sending: octets are copied once, into the frames that the stack sends from, and handed over at once.

use std::net::SocketAddr;

use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, c_int};
use weever_app_sockets::{AppQueue, Error, StreamOption, TcpStream};

use crate::behind::option;
use crate::control::Sending;
use crate::datagram::datagram;
use crate::failure::{Answer, Failure, fail};
use crate::file::{File, Kind, Phase};
use crate::numbers;
use crate::parts::Parts;
use crate::state::{Held, State, lock};
use crate::wait::{Direction, until_signal};

/// Sends; to `to` if it is there, which only a datagram heeds. `sending` comes from control messages.
pub(crate) fn send(
    fd: c_int,
    parts: &Parts<'_>,
    flags: c_int,
    to: Option<SocketAddr>,
    sending: Option<Sending>,
) -> Answer<usize> {
    if numbers::file(fd).is_none() {
        let to = to.ok_or(Failure::Kernel)?;
        if flags & libc::MSG_OOB != 0 {
            // The kernel refuses it for datagrams, and for a connection that is not there yet.
            return Err(Failure::Kernel);
        }
        if flags & libc::MSG_FASTOPEN != 0 && crate::connect::connect_fast(fd, to)? {
            return send(fd, parts, flags & !libc::MSG_FASTOPEN, None, sending);
        }
        if to.ip().is_loopback() {
            return Err(Failure::Kernel);
        }
        crate::bind::bind_to_send(&mut lock(), fd, to)?;
    }
    if parts.is_nowhere() {
        return fail(libc::EFAULT);
    }
    let mut done = 0;
    let sent = loop {
        let attempt = |held: &mut Held, place: u32| {
            held.hear_before_sending(place);
            let sent = match held.files.get(place).map(|file| &file.kind) {
                Some(Kind::Stream(_)) => octets(held, (fd, place), parts, flags, &mut done),
                Some(Kind::Udp(_)) if flags & libc::MSG_OOB != 0 => fail(libc::EOPNOTSUPP),
                Some(Kind::Udp(_)) => {
                    datagram(held, place, (parts, flags), (to, sending), &mut done)
                }
                // Linux returns the same for a listener.
                _ => fail(libc::EPIPE),
            };
            held.commit_soon();
            sent
        };
        let sent = until_signal(fd, flags & MSG_DONTWAIT != 0, Direction::Send, attempt);
        if done > 0 || !matches!(sent, Err(Failure::Errno(libc::ERESTART))) {
            break sent;
        }
    };
    told(fd, sent, done, flags)
}

impl State {
    /// A program that only sends hears of its peer by its sends: takes what has arrived for a connection, and errors for a
    /// datagram socket that is told of them.
    fn hear_before_sending(&mut self, place: u32) {
        match self.files.get(place) {
            Some(File { kind: Kind::Stream(_), .. }) => {
                self.take_arrived();
            }
            Some(File { kind: Kind::Udp(udp), options, .. })
                if udp.peer.is_some() || options.receive_errors =>
            {
                self.hear_errors();
            }
            _ => {}
        }
    }
}

/// The result of a call that has sent so many octets of a stream. If the peer is gone, a signal (`SIGPIPE`) is
/// raised, too.
fn told(fd: c_int, sent: Answer<usize>, done: usize, flags: c_int) -> Answer<usize> {
    match sent {
        Err(Failure::Errno(libc::EPIPE)) if done == 0 => {
            let is_stream = !lock().of(fd).is_ok_and(|(_, file)| file.is_udp());
            if is_stream && flags & MSG_NOSIGNAL == 0 {
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
    (fd, place): (c_int, u32),
    parts: &Parts<'_>,
    flags: c_int,
    done: &mut usize,
) -> Answer<Option<usize>> {
    let queue = held.opened()?;
    let whole = parts.len();
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let Kind::Stream(stream) = &mut file.kind else { return fail(libc::ENOTCONN) };
    match stream.phase {
        Phase::Connecting if !stream.fast => return Ok(None),
        _ if file.error != 0 && stream.received.is_empty() => {
            return fail(std::mem::take(&mut file.error));
        }
        Phase::Connecting | Phase::Connected if !stream.mute => {}
        _ => return fail(libc::EPIPE),
    }
    let Some(handle) = stream.stream else { return fail(libc::EPIPE) };
    let (more, urgent) = (flags & libc::MSG_MORE != 0, flags & libc::MSG_OOB != 0);
    // The segment of an urgent octet is to point to it, so it waits until that is marked.
    if (more || urgent) && !stream.more {
        stream.more = queue.set_option(handle, StreamOption::Cork(true)).is_ok();
    }
    write(queue, handle, parts, done)?;
    stream.blocked = *done < whole;
    if urgent && whole > 0 && !stream.blocked {
        match queue.set_option(handle, StreamOption::Urgent) {
            Err(Error::WouldBlock) => return Ok(None),
            marked => marked?,
        }
    }
    if stream.more && !more && !stream.blocked {
        let corked = option::<c_int>(fd, libc::IPPROTO_TCP, libc::TCP_CORK) == Some(1);
        // With a full ring the next write tries again.
        stream.more = !corked && queue.set_option(handle, StreamOption::Cork(false)).is_err();
    }
    let enough = *done == whole || *done > 0 && file.nonblocking;
    Ok(enough.then_some(*done))
}

/// Copies octets into the stream's frames, behind those that are `done`, as far as there is room.
fn write(queue: &AppQueue, handle: TcpStream, parts: &Parts<'_>, done: &mut usize) -> Answer<()> {
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
    Ok(())
}
