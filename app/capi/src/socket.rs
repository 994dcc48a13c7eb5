//! Sockets.

use std::ffi::{c_int, c_long, c_void};

use weever_app_sockets::{Bind, Error, Event, Handle, SendOptions, Share, UdpSocket};

use crate::buffer::{Buf, copy};
use crate::queue::{Queue, queue_of};
use crate::values::{Dest, Endpoint, Failure, SPANNABLE, V6_ONLY, call};

/// `weever_socket`: one handle on one queue.
pub struct Socket {
    queue: *mut Queue,
    bound: Option<Bound>,
    opaque: *mut c_void,
}

#[derive(Clone)]
struct Bound {
    handle: UdpSocket,
    bind: Bind,
    is_spannable: bool,
}

/// # Safety
/// `socket` is one of this library's that was not closed, or NULL; nobody else uses it now.
pub(crate) unsafe fn socket_of<'a>(socket: *mut Socket) -> Result<&'a mut Socket, Failure> {
    // SAFETY: by the caller's word.
    unsafe { socket.as_mut() }.ok_or_else(|| Failure::null("socket"))
}

impl Socket {
    fn bound(&self) -> Result<Bound, Failure> {
        self.bound
            .clone()
            .ok_or_else(|| Failure::new(libc::EDESTADDRREQ, "the socket is not bound"))
    }

    /// The socket's queue, and its handle on the queue.
    pub(crate) fn place(&self) -> Result<(*mut Queue, UdpSocket), Failure> {
        Ok((self.queue, self.bound()?.handle))
    }

    fn open(&mut self, this: *mut Socket, bind: Bind, is_spannable: bool) -> Result<(), Failure> {
        if self.bound.is_some() {
            return Err(Failure::new(libc::EINVAL, "the socket is bound already"));
        }
        // SAFETY: a queue is not destroyed while it has sockets.
        let queue = unsafe { queue_of(self.queue) }?;
        let bind = if is_spannable { bind.shared(Share::ByFlow) } else { bind };
        let handle = queue.inner.open(&bind)?;
        queue.sockets.insert(handle, this);
        self.bound = Some(Bound { handle, bind, is_spannable });
        Ok(())
    }
}

/// A socket on a queue, to be bound, connected or spanned.
///
/// # Safety
/// `queue` is one of this library's that was not destroyed, or NULL; `socket` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_create(
    queue: *mut Queue,
    socket: *mut *mut Socket,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        if socket.is_null() {
            return Err(Failure::null("socket"));
        }
        there.handles += 1;
        let made = Socket { queue, bound: None, opaque: std::ptr::null_mut() };
        // SAFETY: by the caller's word.
        unsafe { socket.write(Box::into_raw(Box::new(made))) };
        Ok(0)
    })
}

/// Binds a socket: what arrives after it returns is the socket's.
///
/// # Safety
/// See [`socket_of`]; `dest` points to a `weever_dest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_bind(socket: *mut Socket, dest: *const Dest) -> c_int {
    // SAFETY: as for this call.
    unsafe { weever_socket_bind_with(socket, dest, 0) }
}

/// As [`weever_socket_bind`], with options.
///
/// # Safety
/// See [`weever_socket_bind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_bind_with(
    socket: *mut Socket,
    dest: *const Dest,
    options: u32,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { socket_of(socket) }?;
        // SAFETY: by the caller's word.
        let dest = unsafe { dest.as_ref() }.ok_or_else(|| Failure::null("dest"))?;
        if options & !(SPANNABLE | V6_ONLY) != 0 {
            return Err(Failure::new(libc::EINVAL, format!("options {options:#x} are not known")));
        }
        let bind = dest.bind()?;
        let bind = if options & V6_ONLY != 0 { bind.v6_only() } else { bind };
        there.open(socket, bind, options & SPANNABLE != 0)?;
        Ok(0)
    })
}

/// Binds a socket to an ephemeral port and to one peer, to which it sends and from which it receives.
///
/// # Safety
/// See [`socket_of`]; `remote` points to a `weever_endpoint`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_connect(
    socket: *mut Socket,
    remote: *const Endpoint,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { socket_of(socket) }?;
        // SAFETY: by the caller's word.
        let remote = *unsafe { remote.as_ref() }.ok_or_else(|| Failure::null("remote"))?;
        if remote.end()?.is_none() {
            return Err(Failure::new(libc::EDESTADDRREQ, "a peer has an address and a port"));
        }
        let local = Endpoint { family: remote.family, ..Endpoint::default() };
        there.open(socket, Dest { local, remote }.bind()?, false)?;
        Ok(0)
    })
}

/// Spans a socket over another queue, by a socket there that is not bound yet.
///
/// # Safety
/// See [`socket_of`] for both sockets, which are on queues of this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_span(
    original: *mut Socket,
    queue: *mut Queue,
    socket: *mut Socket,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let Bound { bind, is_spannable, handle } = unsafe { socket_of(original) }?.bound()?;
        if !is_spannable {
            let text = "the socket was bound without WEEVER_SPANNABLE";
            return Err(Failure::new(libc::EOPNOTSUPP, text));
        }
        // SAFETY: a queue is not destroyed while it has sockets.
        let port = unsafe { queue_of((*original).queue) }?.inner.local_port(handle)?;
        // SAFETY: by the caller's word.
        let there = unsafe { socket_of(socket) }?;
        if there.queue != queue {
            return Err(Failure::new(libc::EINVAL, "the socket is on another queue"));
        }
        there.open(socket, bind.with_port(port), true)?;
        Ok(0)
    })
}

/// Closes one handle; others of the same spanned socket stay open.
///
/// # Safety
/// See [`socket_of`]; the pointer is not used afterwards if it returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_close(socket: *mut Socket) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { socket_of(socket) }?;
        // SAFETY: a queue is not destroyed while it has sockets.
        let queue = unsafe { queue_of(there.queue) }?;
        if let Some(Bound { handle, .. }) = there.bound.clone() {
            match queue.inner.close(handle) {
                // It is closed with its stack, or could not be had on the next one.
                Ok(()) | Err(Error::Disconnected | Error::NoSocket) => {}
                Err(error) => return Err(error.into()),
            }
            queue.sockets.remove(&handle);
            queue.kept.forget(Handle::Udp(handle));
        }
        queue.handles -= 1;
        // SAFETY: it came from `weever_socket_create`, and its queue has forgotten it.
        drop(unsafe { Box::from_raw(socket) });
        Ok(0)
    })
}

/// Sends a buffer, which is the stack's then, by a socket: to the remote end of `dest`; with NULL back to
/// the sender of a received buffer, else to the socket's peer. On a failure the buffer is given back,
/// too.
///
/// # Safety
/// See [`socket_of`]; `buf` is one of the same queue and not used afterwards; `dest` is NULL or points to
/// a `weever_dest`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_send(
    socket: *mut Socket,
    buf: *mut Buf,
    dest: *const Dest,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { socket_of(socket) }?;
        // SAFETY: a queue is not destroyed while it has sockets.
        let queue = unsafe { queue_of(there.queue) }?;
        // SAFETY: by the caller's word.
        let content = unsafe { buf.as_mut() }.ok_or_else(|| Failure::null("buf"))?;
        if content.queue != there.queue {
            return Err(Failure::new(libc::EINVAL, "the buffer is another queue's"));
        }
        // SAFETY: by the caller's word.
        let remote = unsafe { dest.as_ref() }.map(|dest| dest.remote.end()).transpose();
        let sent = match (remote, there.bound()) {
            (Ok(remote), Ok(bound)) => {
                content.send(bound.handle, remote.flatten()).map_err(Failure::from)
            }
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
        };
        // SAFETY: it is this queue's, and by the caller's word not used afterwards.
        unsafe { queue.take_back(buf) };
        sent.map(|()| 0)
    })
}

/// The socket's port.
///
/// # Safety
/// See [`socket_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_local_port(socket: *const Socket) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { socket_of(socket.cast_mut()) }?;
        // SAFETY: a queue is not destroyed while it has sockets.
        let queue = unsafe { queue_of(there.queue) }?;
        Ok(c_int::from(queue.inner.local_port(there.bound()?.handle)?))
    })
}

/// Copies the next datagram of this socket: its length, which may be more than `len`. What arrives for
/// other sockets meanwhile is kept for them. `EAGAIN` when there is none. Does not block.
///
/// # Safety
/// See [`socket_of`]; `to` has room for `len` bytes; `remote` is NULL or points to a `weever_endpoint`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_read(
    socket: *mut Socket,
    to: *mut c_void,
    len: usize,
    remote: *mut Endpoint,
) -> c_long {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { socket_of(socket) }?;
        let Bound { handle, .. } = there.bound()?;
        // SAFETY: a queue is not destroyed while it has sockets.
        let queue = unsafe { queue_of(there.queue) }?;
        let handle = Handle::Udp(handle);
        let event = match queue.kept.take(handle, |_| true) {
            Some(event) => event,
            None => loop {
                match queue.lasting().next()? {
                    Some(event) if event.socket() == handle => break event,
                    Some(other) => queue.kept.push(other),
                    None => return Err(Error::WouldBlock.into()),
                }
            },
        };
        let datagram = match event {
            Event::Datagram(datagram) => datagram,
            Event::Error(_, errno, _) => {
                return Err(Failure::new(errno.into(), "an error came to the socket"));
            }
            _ => return Err(Error::Disconnected.into()),
        };
        if !to.is_null() {
            // SAFETY: by the caller's word.
            unsafe { copy(datagram.pieces(), to.cast(), len) };
        }
        // SAFETY: by the caller's word.
        if let Some(remote) = unsafe { remote.as_mut() } {
            *remote = datagram.remote().into();
        }
        Ok(datagram.len() as c_long)
    })
}

/// Sends a copy of `len` bytes to `remote` (NULL: the socket's peer), and commits. Returns `len`.
///
/// # Safety
/// See [`socket_of`]; `from` points to `len` bytes; `remote` is NULL or points to a `weever_endpoint`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_write(
    socket: *mut Socket,
    from: *const c_void,
    len: usize,
    remote: *const Endpoint,
) -> c_long {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { socket_of(socket) }?;
        let Bound { handle, .. } = there.bound()?;
        // SAFETY: a queue is not destroyed while it has sockets.
        let queue = unsafe { queue_of(there.queue) }?;
        let bytes: &[u8] = match (from.is_null(), len) {
            (_, 0) => &[],
            (true, _) => return Err(Failure::null("from")),
            // SAFETY: by the caller's word.
            (false, _) => unsafe { std::slice::from_raw_parts(from.cast(), len) },
        };
        // SAFETY: by the caller's word.
        match unsafe { remote.as_ref() } {
            Some(remote) => {
                let remote = remote.end()?.ok_or(Error::NoDestination)?;
                queue.inner.send_to(handle, bytes, remote, SendOptions::default())?;
            }
            None => queue.inner.send(handle, bytes)?,
        }
        queue.inner.commit()?;
        Ok(len as c_long)
    })
}

/// The pointer that was set, or NULL.
///
/// # Safety
/// See [`socket_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_opaque_get(socket: *const Socket) -> *mut c_void {
    // SAFETY: by the caller's word.
    unsafe { socket.as_ref() }.map_or(std::ptr::null_mut(), |socket| socket.opaque)
}

/// Keeps a pointer of the program's with the socket.
///
/// # Safety
/// See [`socket_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_opaque_set(socket: *mut Socket, opaque: *mut c_void) {
    // SAFETY: by the caller's word.
    if let Some(socket) = unsafe { socket.as_mut() } {
        socket.opaque = opaque;
    }
}
