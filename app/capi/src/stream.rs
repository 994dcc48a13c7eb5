//! Connections of TCP.

use std::ffi::{c_int, c_long, c_void};

use weever_app_sockets::{Error, Event, Handle, TcpStream};

use crate::buffer::{Buf, Content};
use crate::queue::{Queue, queue_of};
use crate::values::{Dest, Failure, call};

/// `weever_stream`: a connection on one queue, until the program closes it.
pub struct Stream {
    pub(crate) queue: *mut Queue,
    pub(crate) handle: TcpStream,
    /// What reading returns once nothing is left to read: 0 after the peer's end, else an errno.
    pub(crate) ended: Option<c_int>,
    opaque: *mut c_void,
}

impl Stream {
    pub(crate) fn new(queue: *mut Queue, handle: TcpStream) -> Stream {
        Stream { queue, handle, ended: None, opaque: std::ptr::null_mut() }
    }

    /// Notes an end that the program is told of.
    pub(crate) fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Finished(_) => self.ended = self.ended.or(Some(0)),
            Event::StreamFailed(_, errno) => self.ended = Some((*errno).into()),
            Event::StreamClosed(_) => self.ended = self.ended.or(Some(libc::ECONNRESET)),
            _ => {}
        }
    }
}

/// # Safety
/// `stream` is one of this library's that was not closed, or NULL; nobody else uses it now.
unsafe fn stream_of<'a>(stream: *mut Stream) -> Result<&'a mut Stream, Failure> {
    // SAFETY: by the caller's word.
    unsafe { stream.as_mut() }.ok_or_else(|| Failure::null("stream"))
}

/// A stream and its queue.
///
/// # Safety
/// See [`stream_of`].
pub(crate) unsafe fn both<'a>(
    stream: *mut Stream,
) -> Result<(&'a mut Stream, &'a mut Queue), Failure> {
    // SAFETY: by the caller's word.
    let stream = unsafe { stream_of(stream) }?;
    // SAFETY: a queue is not destroyed while it has streams.
    let queue = unsafe { queue_of(stream.queue) }?;
    Ok((stream, queue))
}

/// Asks for a connection to the remote end of `ends`, from its local one. Does not block.
///
/// # Safety
/// See [`queue_of`]; `ends` points to a `weever_dest`, `stream` to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_connect(
    queue: *mut Queue,
    ends: *const Dest,
    stream: *mut *mut Stream,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        // SAFETY: by the caller's word.
        let ends = *unsafe { ends.as_ref() }.ok_or_else(|| Failure::null("ends"))?;
        if stream.is_null() {
            return Err(Failure::null("stream"));
        }
        let peerless = || Failure::new(libc::EDESTADDRREQ, "a peer has an address and a port");
        let remote = ends.remote.end()?.ok_or_else(peerless)?;
        let handle = there.inner.connect_tcp_from(ends.local.local_of(remote)?, remote)?;
        // SAFETY: by the caller's word.
        unsafe { stream.write(there.stream(queue, handle)) };
        Ok(0)
    })
}

/// Both ends of a stream. `ENOTCONN` while it is not connected.
///
/// # Safety
/// See [`stream_of`]; `ends` points to a `weever_dest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_ends(stream: *const Stream, ends: *mut Dest) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let (there, queue) = unsafe { both(stream.cast_mut()) }?;
        if ends.is_null() {
            return Err(Failure::null("ends"));
        }
        let (local, remote) =
            queue.inner.stream_ends(there.handle).map_err(|error| match error {
                Error::NoDestination => {
                    Failure::new(libc::ENOTCONN, "the stream is not connected yet")
                }
                other => other.into(),
            })?;
        // SAFETY: by the caller's word; written without a read of the old value.
        unsafe { ends.write(Dest { local: local.into(), remote: remote.into() }) };
        Ok(0)
    })
}

/// Copies up to `len` octets that have arrived: how many, 0 once the peer has finished. Takes what else
/// has happened to this stream, but that it is writable; what arrives for others is kept for them.
///
/// # Safety
/// See [`stream_of`]; `to` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_read(
    stream: *mut Stream,
    to: *mut c_void,
    len: usize,
) -> c_long {
    call(|| {
        // SAFETY: by the caller's word.
        let (there, queue) = unsafe { both(stream) }?;
        if to.is_null() || len == 0 {
            return Err(Failure::new(libc::EINVAL, "there is room for no octet"));
        }
        let handle = Handle::Stream(there.handle);
        let concerns = |event: &Event<'_>| !matches!(event, Event::Writable(_));
        let mut done = 0;
        while done < len {
            match queue.kept.first(handle, concerns) {
                Some(Event::Octets(octets)) => {
                    let part = octets.octets();
                    let now = part.len().min(len - done);
                    // SAFETY: `done + now` is at most `len`, for which there is room by the caller's word.
                    let to = unsafe { to.cast::<u8>().add(done) };
                    // SAFETY: as above; the octets lie in a frame of ours.
                    unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), to, now) };
                    let all = now == part.len();
                    octets.advance(now);
                    done += now;
                    if all {
                        drop(queue.kept.take(handle, concerns));
                    }
                }
                Some(_) if done > 0 => break,
                Some(_) => queue.kept.take(handle, concerns).iter().for_each(|e| there.note(e)),
                None => match (queue.lasting().next()?, there.ended) {
                    (Some(event), _) => queue.kept.push(event),
                    (None, _) if done > 0 => break,
                    (None, Some(0)) => return Ok(0),
                    (None, Some(errno)) => {
                        return Err(Failure::new(errno, "the stream has failed"));
                    }
                    (None, None) => return Err(Error::WouldBlock.into()),
                },
            }
        }
        Ok(done as c_long)
    })
}

/// Copies octets into frames, as many as there is room for, and commits: how many.
///
/// # Safety
/// See [`stream_of`]; `from` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_write(
    stream: *mut Stream,
    from: *const c_void,
    len: usize,
) -> c_long {
    call(|| {
        // SAFETY: by the caller's word.
        let (there, queue) = unsafe { both(stream) }?;
        let bytes: &[u8] = match (from.is_null(), len) {
            (_, 0) => return Ok(0),
            (true, _) => return Err(Failure::null("from")),
            // SAFETY: by the caller's word.
            (false, _) => unsafe { std::slice::from_raw_parts(from.cast(), len) },
        };
        // This call finds out by itself.
        let writable = |event: &Event<'_>| matches!(event, Event::Writable(_));
        drop(queue.kept.take(Handle::Stream(there.handle), writable));
        let written = queue.inner.write(there.handle, bytes).map_err(|error| broken(there, error));
        queue.inner.commit()?;
        Ok(written? as c_long)
    })
}

/// A stream that is closed or finished cannot be written to.
pub(crate) fn broken(stream: &Stream, error: Error) -> Failure {
    match (error, stream.ended) {
        (Error::NoSocket, Some(errno @ 1..)) => Failure::new(errno, "the stream has failed"),
        (Error::NoSocket, _) => Failure::new(libc::EPIPE, "the stream is finished or closed"),
        (other, _) => other.into(),
    }
}

/// A buffer for octets of this stream. `EAGAIN` while there is no room: `WEEVER_EVENT_WRITABLE` follows.
///
/// # Safety
/// See [`stream_of`]; `buf` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_buffer_alloc(
    stream: *mut Stream,
    buf: *mut *mut Buf,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let (there, queue) = unsafe { both(stream) }?;
        if buf.is_null() {
            return Err(Failure::null("buf"));
        }
        let space = queue.lasting().alloc_octets(there.handle);
        let content = Content::Segment(space.map_err(|error| broken(there, error))?, 0);
        // SAFETY: by the caller's word.
        unsafe { buf.write(queue.buffer(there.queue, content)) };
        Ok(0)
    })
}

/// Sends the octets in a buffer, which is the stack's then: one that was allocated for this stream, or one
/// with octets received by it. `EAGAIN` and `EINVAL`: the buffer stays the program's.
///
/// # Safety
/// See [`stream_of`]; `buf` is one of this library's, and is used afterwards in these two cases only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_send(stream: *mut Stream, buf: *mut Buf) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let (there, queue) = unsafe { both(stream) }?;
        // SAFETY: by the caller's word.
        let content = &mut unsafe { buf.as_mut() }.ok_or_else(|| Failure::null("buf"))?.content;
        let (space, len) = match std::mem::replace(content, Content::Nothing) {
            Content::Octets(octets) if octets.stream() == there.handle => {
                let len = octets.octets().len();
                (octets.into_answer(), len)
            }
            Content::Segment(space, len) if space.stream() == there.handle => (space, len),
            other => {
                *content = other;
                return Err(Failure::new(libc::EINVAL, "the buffer is not one of this stream's"));
            }
        };
        let failure = match space.send(len) {
            Ok(()) => None,
            Err((space, Error::WouldBlock)) => {
                *content = Content::Segment(space, len);
                return Err(Error::WouldBlock.into());
            }
            Err((_, error)) => Some(broken(there, error)),
        };
        // SAFETY: it is this queue's, as its stream is, and by the caller's word not used afterwards.
        unsafe { queue.take_back(buf) };
        failure.map_or(Ok(0), Err)
    })
}

/// Sends no more than was written. `EAGAIN`: commit, and call it again.
///
/// # Safety
/// See [`stream_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_finish(stream: *mut Stream) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let (there, queue) = unsafe { both(stream) }?;
        queue.inner.finish(there.handle).map_err(|error| broken(there, error))?;
        Ok(0)
    })
}

/// Closes a stream: octets written before still go. `EAGAIN`: commit, and call it again.
///
/// # Safety
/// See [`stream_of`]; the pointer is not used afterwards if it returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_close(stream: *mut Stream) -> c_int {
    // SAFETY: as for this call.
    call(|| unsafe { end(stream, |queue, handle| queue.inner.close_stream(handle)) })
}

/// Resets a stream: octets that have not been sent are lost. `EAGAIN`: commit, and call it again.
///
/// # Safety
/// As for [`weever_stream_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_abort(stream: *mut Stream) -> c_int {
    // SAFETY: as for this call.
    call(|| unsafe { end(stream, |queue, handle| queue.inner.abort(handle)) })
}

/// Ends a handle.
///
/// # Safety
/// As for [`weever_stream_close`].
unsafe fn end(
    stream: *mut Stream,
    how: impl FnOnce(&Queue, TcpStream) -> Result<(), Error>,
) -> Result<c_int, Failure> {
    // SAFETY: by the caller's word.
    let (there, queue) = unsafe { both(stream) }?;
    match how(queue, there.handle) {
        // It is over already.
        Ok(()) | Err(Error::NoSocket) => {}
        Err(error) => return Err(error.into()),
    }
    queue.streams.remove(&there.handle);
    queue.kept.forget(Handle::Stream(there.handle));
    queue.handles -= 1;
    // SAFETY: it came from `Queue::stream`, and its queue has forgotten it.
    drop(unsafe { Box::from_raw(stream) });
    Ok(0)
}

/// The pointer that was set, or NULL.
///
/// # Safety
/// See [`stream_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_opaque_get(stream: *const Stream) -> *mut c_void {
    // SAFETY: by the caller's word.
    unsafe { stream.as_ref() }.map_or(std::ptr::null_mut(), |stream| stream.opaque)
}

/// Keeps a pointer of the program's with the stream.
///
/// # Safety
/// See [`stream_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_opaque_set(stream: *mut Stream, opaque: *mut c_void) {
    // SAFETY: by the caller's word.
    if let Some(stream) = unsafe { stream.as_mut() } {
        stream.opaque = opaque;
    }
}
