//! Settings of listeners and streams, and how a stream is doing.

use std::ffi::{c_int, c_long, c_void};
use std::time::{Duration, Instant};

use weever_app_sockets::{Event, StreamOption};

use crate::listener::{Listener, listener_of};
use crate::queue::queue_of;
use crate::stream::{Stream, both, broken};
use crate::values::{Failure, call};

/// How long the stack has to say how a stream is doing, and how long is slept in between.
const PATIENCE: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(10);

fn option(number: u32, value: u32) -> Result<StreamOption, Failure> {
    let text = || format!("option {number} is not known, or cannot be {value}");
    StreamOption::numbered(number, value).ok_or_else(|| Failure::new(libc::EINVAL, text()))
}

/// Sets an option: `WEEVER_STREAM_…`. `EINVAL`: there is none of this number, or it cannot have this value.
///
/// # Safety
/// `stream` is one of this library's that was not closed; nobody else uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_set(stream: *mut Stream, number: u32, value: u32) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let (there, queue) = unsafe { both(stream) }?;
        let option = option(number, value)?;
        queue.inner.set_option(there.handle, option).map_err(|error| broken(there, error))?;
        Ok(0)
    })
}

/// Sets an option that streams of a listener begin with from now on.
///
/// # Safety
/// `listener` is one of this library's that was not closed; nobody else uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_listener_set(
    listener: *mut Listener,
    number: u32,
    value: u32,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { listener_of(listener) }?;
        // SAFETY: a queue is not destroyed while it has listeners.
        let queue = unsafe { queue_of(there.queue) }?;
        queue.inner.set_listener_option(there.handle, option(number, value)?)?;
        queue.inner.commit()?;
        Ok(0)
    })
}

/// Copies up to `len` bytes of Linux's `struct tcp_info` of a stream: how many. What comes meanwhile is kept.
/// Blocks until the stack has answered; `ETIMEDOUT` after a second.
///
/// # Safety
/// `stream` is one of this library's that was not closed; nobody else uses it now. `to` has room for `len`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_stream_info(
    stream: *mut Stream,
    to: *mut c_void,
    len: usize,
) -> c_long {
    call(|| {
        // SAFETY: by the caller's word.
        let (there, queue) = unsafe { both(stream) }?;
        if to.is_null() {
            return Err(Failure::null("to"));
        }
        queue.inner.request_info(there.handle).map_err(|error| broken(there, error))?;
        let until = Instant::now() + PATIENCE;
        loop {
            queue.inner.commit()?;
            while let Some(event) = queue.lasting().next()? {
                match event {
                    Event::Info(of, info) if of == there.handle => {
                        let bytes = &info.as_bytes()[..len.min(info.as_bytes().len())];
                        // SAFETY: there is room for them, by the caller's word.
                        unsafe {
                            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len());
                        };
                        return Ok(bytes.len() as c_long);
                    }
                    other => queue.kept.push(other),
                }
            }
            if Instant::now() > until {
                return Err(Failure::new(libc::ETIMEDOUT, "the stack does not answer"));
            }
            queue.inner.wait(Some(NAP))?;
        }
    })
}
