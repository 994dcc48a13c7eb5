//! Receiving: data is copied once, from the frame in which the stack has put it.

use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, c_int, msghdr};
use weever_app_sockets::{Info, RxBuf};

use crate::address;
use crate::backlog::Waiting;
use crate::control;
use crate::errors;
use crate::failure::{Answer, Failure, fail};
use crate::file::{File, Kind, Phase, Stream, Udp};
use crate::parts::Places;
use crate::real;
use crate::state::{Held, State};
use crate::urgent::{self, Stretch};
use crate::wait::{Direction, until_signal};

/// A received message: octets, and the control messages of `recvmsg`.
pub(crate) struct Got {
    pub(crate) octets: usize,
    /// The sender's address is at the program's place for it, and the flags.
    pub(crate) flags: c_int,
}

/// Receives into `places`; the sender and control messages go to `message`, if there is one.
///
/// # Safety
/// The pointers in `message` are as `recvmsg` wants them.
pub(crate) unsafe fn receive(
    fd: c_int,
    places: &Places<'_>,
    flags: c_int,
    mut message: Option<&mut msghdr>,
) -> Answer<Got> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        // SAFETY: the caller's promise.
        return unsafe { errors::receive(fd, places, message) };
    }
    // Octets that are discarded (`MSG_TRUNC`, tcp(7)) need no buffer.
    if flags & (MSG_TRUNC | libc::MSG_OOB) == 0 && places.is_nowhere() {
        return fail(libc::EFAULT);
    }
    let mut done = 0;
    let got = loop {
        let attempt = |held: &mut Held, place: u32| {
            if let Some(Kind::Udp(_)) = held.files.get(place).map(|file| &file.kind) {
                // SAFETY: the caller's promise.
                return unsafe { datagram(held, place, fd, (places, flags), &mut message) };
            }
            if flags & libc::MSG_OOB != 0 {
                return urgent::receive(held, place, places, flags);
            }
            stream(held, place, (places, flags), &mut done)
        };
        let got = until_signal(fd, flags & MSG_DONTWAIT != 0, Direction::Receive, attempt);
        if done > 0 || !matches!(got, Err(Failure::Errno(libc::ERESTART))) {
            break got;
        }
    };
    match got {
        // Octets read before the wait ended are not lost.
        Err(Failure::Errno(_)) if done > 0 => Ok(Got { octets: done, flags: 0 }),
        got => got,
    }
}

/// Takes octets of a stream, as many as the call wants.
fn stream(
    held: &mut Held,
    place: u32,
    (places, flags): (&Places<'_>, c_int),
    done: &mut usize,
) -> Answer<Option<Got>> {
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let Kind::Stream(stream) = &mut file.kind else { return fail(libc::ENOTCONN) };
    let whole = flags & MSG_WAITALL != 0 && flags & MSG_PEEK == 0;
    let least = file.options.low_water.clamp(1, places.len().max(1));
    let in_line = file.options.urgent_in_line;
    let at_mark = octets(stream, &mut file.error, places, (flags, in_line), done)?;
    let ended = stream.finished || stream.deaf || stream.phase == Phase::Over;
    // A call without room waits for octets as well.
    let full = *done == places.len() && (*done > 0 || !stream.received.is_empty());
    if !(full || ended || at_mark || *done >= least && !whole) {
        return Ok(None);
    }
    if stream.shared {
        stream.settle_read();
    }
    let (shared, all) = (stream.shared, stream.received.is_empty());
    if shared {
        held.commit_read();
    } else {
        held.note_read(*done, all);
    }
    Ok(Some(Got { octets: *done, flags: 0 }))
}

/// Copies octets of a stream, behind those that are `done`; whether the call is to end at the mark of urgent data.
fn octets(
    stream: &mut Stream,
    error: &mut c_int,
    places: &Places<'_>,
    (flags, in_line): (c_int, bool),
    done: &mut usize,
) -> Answer<bool> {
    if stream.phase == Phase::Connecting {
        return Ok(false);
    }
    if flags & MSG_PEEK != 0 {
        // It begins anew after it has waited for more.
        *done = 0;
    }
    let stretch = stream.stretch(in_line, *done, places.len() - *done);
    if stretch.skips && flags & MSG_PEEK == 0 {
        stream.advance(1);
    }
    if stream.received.is_empty() && *done == 0 && *error != 0 {
        return fail(std::mem::take(error));
    }
    if flags & MSG_PEEK != 0 {
        *done = peek(stream, places, flags, &stretch);
        return Ok(stretch.ends);
    }
    let mut left = stretch.most;
    while left > 0
        && let Some(first) = stream.received.front()
    {
        let rest = &first.octets()[stream.offset..];
        let part = &rest[..rest.len().min(left)];
        // MSG_TRUNC on a stream discards (tcp(7)).
        if flags & MSG_TRUNC == 0 {
            places.fill(*done, part);
        }
        let copied = part.len();
        (*done, left) = (*done + copied, left - copied);
        stream.advance(copied);
    }
    Ok(stretch.ends)
}

/// Copies octets that stay; how many.
fn peek(stream: &Stream, places: &Places<'_>, flags: c_int, stretch: &Stretch) -> usize {
    let mut skip = stream.offset + usize::from(stretch.skips);
    let mut done = 0;
    for there in &stream.received {
        let octets = there.octets();
        let rest = &octets[skip.min(octets.len())..];
        skip -= octets.len() - rest.len();
        let part = &rest[..rest.len().min(stretch.most - done)];
        if flags & MSG_TRUNC == 0 {
            places.fill(done, part);
        }
        done += part.len();
    }
    done
}

/// Takes a datagram off the ring, or one that waits in the socket or in the kernel's beside it.
///
/// # Safety
/// As [`receive`].
#[inline]
unsafe fn datagram(
    held: &mut Held,
    place: u32,
    fd: c_int,
    (places, flags): (&Places<'_>, c_int),
    message: &mut Option<&mut msghdr>,
) -> Answer<Option<Got>> {
    held.hear_errors();
    let peeks = flags & MSG_PEEK != 0;
    let mut taken = if peeks { None } else { held.take_datagram(place, false) };
    if taken.is_none() {
        // SAFETY: the caller's promise.
        let got = unsafe { waiting(held, place, fd, (places, flags), message) }?;
        if got.is_some() || peeks {
            return Ok(got);
        }
        taken = held.take_datagram(place, true);
    }
    // SAFETY: the caller's promise.
    Ok(taken.map(|datagram| unsafe { tell(held, place, datagram, (places, flags), message) }))
}

/// Takes a datagram that waits.
///
/// # Safety
/// As [`receive`].
#[inline(never)]
unsafe fn waiting(
    held: &mut Held,
    place: u32,
    fd: c_int,
    (places, flags): (&Places<'_>, c_int),
    message: &mut Option<&mut msghdr>,
) -> Answer<Option<Got>> {
    let Some(Kind::Udp(udp)) = held.files.get(place).map(|file| &file.kind) else {
        return Err(Failure::Kernel);
    };
    let is_open = udp.socket.is_some();
    // Datagrams from before a fork are in a shared file: reading them needs no queue.
    if udp.received.has_undelivered() {
        // SAFETY: the caller's promise.
        let got = unsafe { from_socket(held, place, fd, (places, flags), message) }?;
        if got.is_some() {
            return Ok(got);
        }
    }
    if !is_open {
        held.use_or_wait(place)?;
    }
    // SAFETY: the caller's promise.
    unsafe { from_socket(held, place, fd, (places, flags), message) }
}

/// Takes a datagram that waits in the socket, or in the kernel's beside it.
///
/// # Safety
/// As [`receive`].
unsafe fn from_socket(
    state: &mut State,
    place: u32,
    fd: c_int,
    (places, flags): (&Places<'_>, c_int),
    message: &mut Option<&mut msghdr>,
) -> Answer<Option<Got>> {
    let Some(file) = state.files.get_mut(place) else { return Err(Failure::Kernel) };
    if file.error != 0 {
        return fail(std::mem::take(&mut file.error));
    }
    let Kind::Udp(Udp { received, deaf, .. }) = &mut file.kind else {
        return Err(Failure::Kernel);
    };
    let peeks = flags & MSG_PEEK != 0;
    let first = if peeks { received.first() } else { received.first_to_read() };
    let Some(first) = first else {
        // One that does not wait finds nothing, as on Linux.
        if *deaf && !file.nonblocking && flags & MSG_DONTWAIT == 0 {
            return Ok(Some(Got { octets: 0, flags: 0 }));
        }
        let also = file.kernel;
        // SAFETY: the caller's promise.
        return if also { unsafe { kernels(fd, places, flags, message) } } else { Ok(None) };
    };
    // Without a place for their length, they come one by one.
    let has_place = message.as_deref().is_some_and(|message| message.msg_controllen > 0);
    let several = file.options.receive_segments && has_place && !peeks;
    let len = first.len();
    // Taken apart only for a call that tells it.
    let info = message.is_some().then(|| first.info());
    let (mut whole, mut got, mut count) = (len, 0, 0);
    match first {
        Waiting::Undelivered(datagram) => got = places.fill(0, &datagram.octets),
        Waiting::Received(_) if several => {
            (whole, count) = (0, received.together(places.len()));
            for datagram in received.received().take(count) {
                whole += datagram.len();
                got = copy(datagram, places, got);
            }
        }
        Waiting::Received(datagram) => (got, count) = (copy(datagram, places, 0), 1),
    }
    let segment = (count > 1).then_some(len as c_int);
    let cut = if got < whole { MSG_TRUNC } else { 0 };
    let mut told = cut;
    if !peeks && count > 0 {
        received.pop(count);
        state.note_datagrams(count);
    }
    if let Some((message, info)) = message.as_deref_mut().zip(info) {
        // SAFETY: the caller's promise.
        told |= unsafe { describe(state, place, (&info, segment), message) };
    }
    let octets = if flags & MSG_TRUNC != 0 { whole } else { got };
    Ok(Some(Got { octets, flags: told }))
}

/// Tells a datagram that was taken off the ring for this call.
///
/// # Safety
/// As [`receive`].
#[inline]
unsafe fn tell(
    state: &mut State,
    place: u32,
    datagram: RxBuf<'_>,
    (places, flags): (&Places<'_>, c_int),
    message: &mut Option<&mut msghdr>,
) -> Got {
    let (whole, got) = (datagram.len(), copy(&datagram, places, 0));
    let mut told = if got < whole { MSG_TRUNC } else { 0 };
    if let Some(message) = message.as_deref_mut() {
        // SAFETY: the caller's promise.
        told |= unsafe { describe(state, place, (&datagram.info(), None), message) };
    }
    drop(datagram);
    state.note_datagrams(1);
    let octets = if flags & MSG_TRUNC != 0 { whole } else { got };
    Got { octets, flags: told }
}

/// Copies a datagram behind `skip` octets; how many there are then.
#[inline]
fn copy(datagram: &RxBuf<'_>, places: &Places<'_>, skip: usize) -> usize {
    if let Some(payload) = datagram.payload() {
        return skip + places.fill(skip, payload);
    }
    datagram.pieces().fold(skip, |done, piece| done + places.fill(done, piece))
}

/// Writes a datagram's sender and control messages, of several datagrams the length of each; returns flags.
///
/// # Safety
/// As [`receive`].
unsafe fn describe(
    state: &mut State,
    place: u32,
    (info, segment): (&Info, Option<c_int>),
    message: &mut msghdr,
) -> c_int {
    let wants_index = state.files.get(place).is_some_and(|file| file.options.packet_info);
    let index = match wants_index {
        true => state.way(info.remote().ip()).ok().and_then(|way| way.interface).unwrap_or(0),
        false => 0,
    };
    let Some(file) = state.files.get(place) else { return 0 };
    let File { family, options, .. } = file;
    // SAFETY: the caller's promise.
    unsafe {
        let name = message.msg_name.cast();
        address::write(info.remote(), *family, name, &raw mut message.msg_namelen);
        control::write(message, *family, options, (info, segment), index)
    }
}

/// Receives from the kernel's socket, without waiting.
///
/// # Safety
/// As [`receive`].
unsafe fn kernels(
    fd: c_int,
    places: &Places<'_>,
    flags: c_int,
    message: &mut Option<&mut msghdr>,
) -> Answer<Option<Got>> {
    // SAFETY: all zero is a valid message header.
    let mut plain: msghdr = unsafe { std::mem::zeroed() };
    let has_message = message.is_some();
    let header = message.as_deref_mut().unwrap_or(&mut plain);
    if !has_message {
        header.msg_iov = places.list().as_ptr().cast_mut();
        header.msg_iovlen = places.list().len() as _;
    }
    // SAFETY: the caller's promise; the kernel does not write to the parts' list.
    let got = unsafe { real::recvmsg(fd, header, flags | MSG_DONTWAIT) };
    match got {
        got if got >= 0 => Ok(Some(Got { octets: got as usize, flags: header.msg_flags })),
        _ if real::errno() == libc::EAGAIN => Ok(None),
        _ => fail(real::errno()),
    }
}
