//! Buffers: a received datagram or octets of a stream, or a frame to write some into.

use std::ffi::{c_int, c_void};

use weever_app_sockets::{Error, RxBuf, StreamBuf, StreamTxBuf, TxBuf, UdpSocket};

use crate::queue::Queue;
use crate::values::Endpoint;
use crate::values::{Failure, call};

/// `weever_buf`: it borrows its queue for as long as C holds it, which the queue counts.
pub struct Buf {
    pub(crate) queue: *mut Queue,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    /// As it arrived.
    Received(RxBuf<'static>),
    /// With as many bytes in it.
    Written(TxBuf<'static>, usize),
    /// Octets of a stream, as they arrived.
    Octets(StreamBuf<'static>),
    /// Octets to send by a stream, as many of them.
    Segment(StreamTxBuf<'static>, usize),
    /// In transition, or spare.
    Nothing,
}

/// `weever_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    /// The sender.
    pub remote: Endpoint,
    /// Where it was sent to.
    pub local: Endpoint,
    /// Nanoseconds of the monotonic clock.
    pub timestamp: u64,
    /// The stack's number of the interface.
    pub interface: u32,
    /// Time to live.
    pub hops: u8,
    /// Type of service.
    pub traffic_class: u8,
    /// 1 if it came to a group.
    pub is_group: u8,
    /// 0.
    pub reserved: u8,
}

impl Buf {
    pub(crate) fn len(&self) -> usize {
        match &self.content {
            Content::Received(received) => received.len(),
            Content::Written(_, len) | Content::Segment(_, len) => *len,
            Content::Octets(octets) => octets.octets().len(),
            Content::Nothing => 0,
        }
    }

    /// Makes it a buffer for writing; received bytes stay at the start of its space.
    fn write(&mut self) -> Option<(&mut [u8], &mut usize)> {
        // What lies in several frames is not at one address.
        let is_whole =
            !matches!(&self.content, Content::Received(datagram) if datagram.payload().is_none());
        if is_whole {
            let len = self.len();
            self.content = match std::mem::replace(&mut self.content, Content::Nothing) {
                Content::Received(datagram) => Content::Written(datagram.into_answer(), len),
                Content::Octets(octets) => Content::Segment(octets.into_answer(), len),
                other => other,
            };
        }
        match &mut self.content {
            Content::Written(buffer, len) => Some((buffer.space(), len)),
            Content::Segment(buffer, len) => Some((buffer.space(), len)),
            _ => None,
        }
    }

    /// Sends it by a socket: to `remote`, else to the sender of the received datagram, else to the socket's peer.
    pub(crate) fn send(
        &mut self,
        socket: UdpSocket,
        remote: Option<std::net::SocketAddr>,
    ) -> Result<(), Error> {
        match std::mem::replace(&mut self.content, Content::Nothing) {
            Content::Received(received) if remote.is_none() && received.socket() == socket => {
                received.reply()
            }
            Content::Received(received) if received.payload().is_some() => {
                let len = received.len();
                send_written(received.into_answer(), len, socket, remote)
            }
            Content::Received(received) => Err(Error::TooLong {
                len: received.len(),
                most: received.pieces().next().map_or(0, <[u8]>::len),
            }),
            Content::Written(buffer, len) => send_written(buffer, len, socket, remote),
            Content::Octets(_) | Content::Segment(..) | Content::Nothing => Err(Error::NoSocket),
        }
    }
}

fn send_written(
    buffer: TxBuf<'static>,
    len: usize,
    socket: UdpSocket,
    remote: Option<std::net::SocketAddr>,
) -> Result<(), Error> {
    let buffer = buffer.by(socket);
    match remote {
        Some(remote) => buffer.to(remote, Default::default()).send(len),
        None => buffer.send(len),
    }
}

/// The payload's bytes, to read and to write; NULL when it lies in several frames.
///
/// # Safety
/// `buf` is one of this library's that was not given back, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_buf_data(buf: *mut Buf) -> *mut c_void {
    // SAFETY: by the caller's word.
    let Some(buf) = (unsafe { buf.as_mut() }) else { return std::ptr::null_mut() };
    if let Content::Octets(octets) = &buf.content {
        // Looking at octets does not let the peer send more of them.
        return octets.octets().as_ptr().cast_mut().cast();
    }
    let data = buf.write().map(|(space, _)| space.as_mut_ptr());
    data.map_or(std::ptr::null_mut(), <*mut u8>::cast)
}

/// The payload's length in bytes.
///
/// # Safety
/// As for [`weever_buf_data`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_buf_len(buf: *const Buf) -> usize {
    // SAFETY: by the caller's word.
    unsafe { buf.as_ref() }.map_or(0, Buf::len)
}

/// How many bytes can be written at [`weever_buf_data`].
///
/// # Safety
/// As for [`weever_buf_data`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_buf_capacity(buf: *mut Buf) -> usize {
    // SAFETY: by the caller's word.
    let buf = unsafe { buf.as_mut() };
    buf.and_then(Buf::write).map_or(0, |(space, _)| space.len())
}

/// Says how many bytes were written. `EMSGSIZE`: more than fit.
///
/// # Safety
/// As for [`weever_buf_data`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_buf_set_len(buf: *mut Buf, len: usize) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let buf = unsafe { buf.as_mut() }.ok_or_else(|| Failure::null("buf"))?;
        let (space, written) = buf.write().ok_or_else(|| {
            Failure::new(libc::EMSGSIZE, "a datagram in several frames cannot be written over")
        })?;
        let most = space.len();
        if len > most {
            return Err(Error::TooLong { len, most }.into());
        }
        *written = len;
        Ok(0)
    })
}

/// Copies up to `len` bytes of the payload, from all frames that it lies in. Returns how many.
///
/// # Safety
/// As for [`weever_buf_data`]; `to` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_buf_copy(buf: *const Buf, to: *mut c_void, len: usize) -> usize {
    // SAFETY: by the caller's word.
    let Some(buf) = (unsafe { buf.as_ref() }) else { return 0 };
    if to.is_null() {
        return 0;
    }
    match &buf.content {
        // SAFETY: by the caller's word; it is memory of C's, so no reference of ours is to it.
        Content::Received(received) => unsafe { copy(received.pieces(), to.cast(), len) },
        // SAFETY: as above.
        Content::Octets(octets) => unsafe { copy([octets.octets()], to.cast(), len) },
        _ => 0,
    }
}

/// # Safety
/// `to` has room for `len` bytes.
pub(crate) unsafe fn copy<'b>(
    pieces: impl IntoIterator<Item = &'b [u8]>,
    to: *mut u8,
    len: usize,
) -> usize {
    let mut done = 0;
    for piece in pieces {
        let now = piece.len().min(len - done);
        // SAFETY: `done + now` is at most `len`, and the piece lies in frames of ours.
        unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), to.add(done), now) };
        done += now;
    }
    done
}

/// Addresses and options of a received datagram. `EINVAL`: it is none, or was written into.
///
/// # Safety
/// As for [`weever_buf_data`]; `info` points to a `weever_info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_buf_info(buf: *const Buf, info: *mut Info) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let buf = unsafe { buf.as_ref() }.ok_or_else(|| Failure::null("buf"))?;
        let Content::Received(received) = &buf.content else {
            return Err(Failure::new(libc::EINVAL, "the buffer is none as it was received"));
        };
        if info.is_null() {
            return Err(Failure::null("info"));
        }
        let known = received.info();
        let known = Info {
            remote: known.remote().into(),
            local: known.local().into(),
            timestamp: known.timestamp(),
            interface: known.interface(),
            hops: known.hops(),
            traffic_class: known.traffic_class(),
            is_group: known.is_group().into(),
            reserved: 0,
        };
        // SAFETY: by the caller's word; written without a read of the old value.
        unsafe { info.write(known) };
        Ok(0)
    })
}
