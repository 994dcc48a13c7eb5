//! Listeners of TCP.

use std::ffi::c_int;

use weever_app_sockets::{Bind, Error, Event, Handle, Share, TcpListener};

use crate::queue::{Queue, queue_of};
use crate::stream::Stream;
use crate::values::{Dest, Endpoint, Failure, SPANNABLE, V6_ONLY, call};

/// `weever_listener`: one handle on one queue.
pub struct Listener {
    pub(crate) queue: *mut Queue,
    pub(crate) handle: TcpListener,
    bind: Bind,
    backlog: u32,
    is_spannable: bool,
}

/// # Safety
/// `listener` is one of this library's that was not closed, or NULL; nobody else uses it now.
pub(crate) unsafe fn listener_of<'a>(listener: *mut Listener) -> Result<&'a mut Listener, Failure> {
    // SAFETY: by the caller's word.
    unsafe { listener.as_mut() }.ok_or_else(|| Failure::null("listener"))
}

/// Opens a listener on a queue and writes its pointer.
///
/// # Safety
/// `queue` is one of this library's that was not destroyed; `out` points to a pointer.
unsafe fn open(
    queue: *mut Queue,
    bind: Bind,
    (backlog, is_spannable): (u32, bool),
    out: *mut *mut Listener,
) -> Result<c_int, Failure> {
    // SAFETY: by the caller's word.
    let there = unsafe { queue_of(queue) }?;
    if out.is_null() {
        return Err(Failure::null("listener"));
    }
    let handle = there.inner.listen(&bind, backlog)?;
    let made = Box::into_raw(Box::new(Listener { queue, handle, bind, backlog, is_spannable }));
    there.listeners.insert(handle, made);
    there.handles += 1;
    // SAFETY: by the caller's word.
    unsafe { out.write(made) };
    Ok(0)
}

/// Listens for TCP connections at a local end; up to `backlog` may wait. Blocks until the stack has answered.
///
/// # Safety
/// See [`queue_of`]; `local` points to a `weever_endpoint`, `listener` to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_listener_open(
    queue: *mut Queue,
    local: *const Endpoint,
    backlog: u32,
    options: u32,
    listener: *mut *mut Listener,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let local = *unsafe { local.as_ref() }.ok_or_else(|| Failure::null("local"))?;
        if options & !(SPANNABLE | V6_ONLY) != 0 {
            return Err(Failure::new(libc::EINVAL, format!("options {options:#x} are not known")));
        }
        let bind = Dest { local, remote: Endpoint::default() }.bind()?;
        let bind = if options & V6_ONLY != 0 { bind.v6_only() } else { bind };
        let is_spannable = options & SPANNABLE != 0;
        let bind = if is_spannable { bind.shared(Share::ByFlow) } else { bind };
        // SAFETY: as for this call.
        unsafe { open(queue, bind, (backlog, is_spannable), listener) }
    })
}

/// Has a new listener on another queue take turns with `original`.
///
/// # Safety
/// `original` is one of this library's that was not closed; see [`weever_listener_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_listener_span(
    original: *mut Listener,
    queue: *mut Queue,
    listener: *mut *mut Listener,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let original = unsafe { listener_of(original) }?;
        if !original.is_spannable {
            let text = "the listener was opened without WEEVER_SPANNABLE";
            return Err(Failure::new(libc::EOPNOTSUPP, text));
        }
        // SAFETY: a queue is not destroyed while it has listeners.
        let port =
            unsafe { queue_of(original.queue) }?.inner.listener_addr(original.handle)?.port();
        let bind = original.bind.clone().with_port(port);
        // SAFETY: as for this call.
        unsafe { open(queue, bind, (original.backlog, true), listener) }
    })
}

/// Takes up to `most` connections that wait: how many. What arrives for others meanwhile is kept for
/// them. Does not block.
///
/// # Safety
/// `listener` is one of this library's that was not closed; `streams` has room for `most` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_listener_accept(
    listener: *mut Listener,
    streams: *mut *mut Stream,
    most: c_int,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { listener_of(listener) }?;
        let most = usize::try_from(most).unwrap_or(0);
        if streams.is_null() || most == 0 {
            return Err(Failure::new(libc::EINVAL, "there is room for no stream"));
        }
        let (pointer, handle) = (there.queue, Handle::Listener(there.handle));
        // SAFETY: a queue is not destroyed while it has listeners.
        let queue = unsafe { queue_of(pointer) }?;
        let mut count = 0;
        while count < most {
            match queue.kept.take(handle, |_| true) {
                Some(Event::Accepted(_, stream)) => {
                    let made = queue.stream(pointer, stream);
                    // SAFETY: by the caller's word there is room for `most`.
                    unsafe { streams.add(count).write(made) };
                    count += 1;
                }
                Some(_) => {}
                None => match queue.lasting().next() {
                    Ok(Some(event)) => queue.kept.push(event),
                    Ok(None) => break,
                    // Those that were taken are the program's first.
                    Err(_) if count > 0 => break,
                    Err(error) => return Err(error.into()),
                },
            }
        }
        Ok(count as c_int)
    })
}

/// The listener's port.
///
/// # Safety
/// `listener` is one of this library's that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_listener_port(listener: *const Listener) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { listener_of(listener.cast_mut()) }?;
        // SAFETY: a queue is not destroyed while it has listeners.
        let queue = unsafe { queue_of(there.queue) }?;
        Ok(c_int::from(queue.inner.listener_addr(there.handle)?.port()))
    })
}

/// Stops listening; connections that the program was not given are reset.
///
/// # Safety
/// `listener` is one of this library's that was not closed; it is not used afterwards if it returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_listener_close(listener: *mut Listener) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { listener_of(listener) }?;
        // SAFETY: a queue is not destroyed while it has listeners.
        let queue = unsafe { queue_of(there.queue) }?;
        match queue.inner.close_listener(there.handle) {
            // It is closed with its stack, or could not be had on the next one.
            Ok(()) | Err(Error::Disconnected | Error::NoSocket) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(event) = queue.kept.take(Handle::Listener(there.handle), |_| true) {
            if let Event::Accepted(_, stream) = event {
                queue.kept.forget(Handle::Stream(stream));
                // A stream that has ended meanwhile needs no reset.
                let _ = queue.inner.abort(stream);
            }
        }
        queue.kept.forget(Handle::Listener(there.handle));
        queue.listeners.remove(&there.handle);
        queue.handles -= 1;
        // SAFETY: it came from `open`, and its queue has forgotten it.
        drop(unsafe { Box::from_raw(listener) });
        Ok(0)
    })
}
