//! A datagram is sent: put together, if it came in parts, or cut into several, as the program has asked.

use std::borrow::Cow;
use std::net::SocketAddr;

use libc::{MSG_MORE, c_int};
use weever_app_sockets::Error;

use crate::behind::fits;
use crate::control::Sending;
use crate::failure::{Answer, Failure, fail};
use crate::file::{File, Kind, Udp};
use crate::parts::Parts;
use crate::state::Held;

/// The longest payload of a call (`UDP_MAX_SIZE` of Linux, without the header).
const LONGEST: usize = 65_507;

/// Sends behind the `done` octets of the payload that were sent already; nothing while there is no room.
pub(crate) fn datagram(
    held: &mut Held,
    place: u32,
    (parts, flags): (&Parts<'_>, c_int),
    (to, sending): (Option<SocketAddr>, Option<Sending>),
    done: &mut usize,
) -> Answer<Option<usize>> {
    let (to, peer) = destination(held, place, to)?;
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let sending = sending.unwrap_or_else(|| Sending::of(&file.options));
    let Kind::Udp(udp) = &mut file.kind else { return Err(Failure::Kernel) };
    let len = parts.len();
    if flags & MSG_MORE != 0 {
        begin(udp, parts, to)?;
        return Ok(Some(len));
    }
    let begun = udp.begun.take();
    held.ensure(place)?;
    let queue = held.opened()?;
    let Some(Kind::Udp(udp)) = held.files.get_mut(place).map(|file| &mut file.kind) else {
        return Err(Failure::Kernel);
    };
    let Some(socket) = udp.socket else { return fail(libc::ENETDOWN) };
    let to = begun.as_ref().map_or(to, |(_, first)| *first);
    let payload = joined(begun.as_ref().map_or(&[][..], |(octets, _)| octets), parts);
    if payload.len() > LONGEST {
        return fail(libc::EMSGSIZE);
    }
    // Port 0: the connected socket's own peer.
    if let Some(worker) = to.or(peer).and_then(|to| udp.received.home(to)) {
        queue.send_by(socket, worker)?;
    }
    let to = to.filter(|to| Some(*to) != peer);
    let to = to.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
    loop {
        let rest = &payload[*done..];
        let size = if sending.segment == 0 { rest.len() } else { usize::from(sending.segment) };
        let piece = &rest[..size.min(rest.len())];
        match queue.send_to(socket, piece, to, sending.options) {
            Ok(()) => *done += piece.len(),
            Err(Error::WouldBlock) => {
                // Frames come back without an event of the socket's: look again at the next wake-up.
                udp.blocked = false;
                udp.begun = begun;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        if *done == payload.len() {
            return Ok(Some(len));
        }
    }
}

/// Where a datagram goes, and the peer of a connected socket.
fn destination(
    held: &mut Held,
    place: u32,
    to: Option<SocketAddr>,
) -> Answer<(Option<SocketAddr>, Option<SocketAddr>)> {
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let Kind::Udp(Udp { peer, begun, .. }) = &file.kind else { return Err(Failure::Kernel) };
    let (peer, has_begun) = (*peer, begun.is_some());
    if file.error != 0 {
        return fail(std::mem::take(&mut file.error));
    }
    if matches!(&file.kind, Kind::Udp(udp) if udp.mute) {
        return fail(libc::EPIPE);
    }
    let File { kernel, family, v6_only, .. } = *file;
    match (to, peer) {
        // The kernel's own call returns the error.
        (Some(to), _) if to.port() == 0 || !fits(family, v6_only, to) => Err(Failure::Kernel),
        (Some(to), _) if !held.reaches(to.ip()) && !to.ip().is_multicast() => {
            if kernel {
                Err(Failure::Kernel)
            } else {
                fail(libc::ENETUNREACH)
            }
        }
        (None, None) if !has_begun => fail(libc::EDESTADDRREQ),
        _ => Ok((to, peer)),
    }
}

/// Keeps the beginning of a datagram, or more of it: its first part says where it goes.
fn begin(udp: &mut Udp, parts: &Parts<'_>, to: Option<SocketAddr>) -> Answer<()> {
    let (octets, _) = udp.begun.get_or_insert_with(|| (Vec::new(), to));
    if octets.len() + parts.len() > LONGEST {
        return fail(libc::EMSGSIZE);
    }
    parts.slices().for_each(|part| octets.extend_from_slice(part));
    Ok(())
}

/// The octets of a datagram in one piece, which most are.
fn joined<'p>(begun: &[u8], parts: &Parts<'p>) -> Cow<'p, [u8]> {
    let mut slices = parts.slices();
    let (first, second) = (slices.next().unwrap_or(&[]), slices.next());
    if begun.is_empty() && second.is_none() {
        return Cow::Borrowed(first);
    }
    let mut all = Vec::with_capacity(begun.len() + parts.len());
    all.extend_from_slice(begun);
    parts.slices().for_each(|part| all.extend_from_slice(part));
    Cow::Owned(all)
}
