//! Queues.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use weever_app_sockets as sockets;
use weever_app_sockets::{
    AppQueue, Error, Handle, Look, QueueConfig, TcpListener, TcpStream, UdpSocket,
};

use crate::buffer::{Buf, Content};
use crate::kept::Kept;
use crate::listener::Listener;
use crate::socket::Socket;
use crate::stack::{Share, open};
use crate::stream::Stream;
use crate::values::{Failure, call};

/// Looks in a row that found nothing, after which the stack is asked whether it is still there.
const CHECK_EVERY: u32 = 1 << 12;

/// `weever_aq`: the queue is boxed apart, so that buffers can point to it.
pub struct Queue {
    pub(crate) inner: Box<AppQueue>,
    /// Behind the queue, which is closed first.
    _share: Option<Share>,
    pub(crate) sockets: HashMap<UdpSocket, *mut Socket>,
    pub(crate) listeners: HashMap<TcpListener, *mut Listener>,
    pub(crate) streams: HashMap<TcpStream, *mut Stream>,
    /// Of all kinds, sockets bound or not.
    pub(crate) handles: usize,
    /// What a copying call has found for other sockets.
    pub(crate) kept: Kept,
    /// Buffers in C's hands.
    buffers: usize,
    /// Buffers that came back: kept as the boxes that they are, so that none is allocated for a packet.
    #[allow(clippy::vec_box, reason = "C holds pointers to these very boxes in turn")]
    spare: Vec<Box<Buf>>,
    empty_looks: u32,
}

/// `weever_event`.
#[repr(C)]
pub struct Event {
    kind: u32,
    error: i32,
    socket: *mut Socket,
    buf: *mut Buf,
    listener: *mut Listener,
    stream: *mut Stream,
}

impl Event {
    fn of(kind: u32) -> Event {
        let null = std::ptr::null_mut();
        Event {
            kind,
            error: 0,
            socket: null,
            buf: null.cast(),
            listener: null.cast(),
            stream: null.cast(),
        }
    }
}

/// `weever_state`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    sockets: u32,
    listeners: u32,
    streams: u32,
    workers: u32,
    frames: u32,
    frames_free: u32,
    frames_lent: u32,
    buffers: u32,
    zero_copy: u32,
}

const NOTHING: c_int = 0;
const EVENT: c_int = 1;
const WORKED: c_int = 2;
const ABORT: c_int = 3;

const PACKET: u32 = 1;
const ERROR: u32 = 2;
const CLOSED: u32 = 3;
const ACCEPTED: u32 = 4;
const CONNECTED: u32 = 5;
const OCTETS: u32 = 6;
const WRITABLE: u32 = 7;
const FINISHED: u32 = 8;
const URGENT: u32 = 9;

impl Queue {
    /// The queue for as long as C may hold what borrows it.
    pub(crate) fn lasting(&self) -> &'static AppQueue {
        let inner: *const AppQueue = &*self.inner;
        // SAFETY: the box is freed or changed by `weever_aq_destroy` and `weever_aq_reconnect` alone,
        // which refuse while a buffer or an event that borrows it is left.
        unsafe { &*inner }
    }

    pub(crate) fn buffer(&mut self, queue: *mut Queue, content: Content) -> *mut Buf {
        self.buffers += 1;
        let buf = match self.spare.pop() {
            Some(mut spare) => {
                *spare = Buf { queue, content };
                spare
            }
            None => Box::new(Buf { queue, content }),
        };
        Box::into_raw(buf)
    }

    /// Takes a buffer back from C.
    ///
    /// # Safety
    /// `buf` came from [`buffer`](Self::buffer) of this queue, and is not used afterwards.
    pub(crate) unsafe fn take_back(&mut self, buf: *mut Buf) {
        // SAFETY: by the caller's word.
        let mut buf = unsafe { Box::from_raw(buf) };
        buf.content = Content::Nothing;
        self.buffers -= 1;
        self.spare.push(buf);
    }

    /// A handle for a stream of this queue.
    pub(crate) fn stream(&mut self, queue: *mut Queue, handle: TcpStream) -> *mut Stream {
        let made = Box::into_raw(Box::new(Stream::new(queue, handle)));
        self.streams.insert(handle, made);
        self.handles += 1;
        made
    }

    fn look(&mut self) -> Result<Look<'static>, Error> {
        if let Some(event) = self.kept.pop() {
            return Ok(Look::Event(event));
        }
        let look = self.lasting().look()?;
        self.empty_looks = if matches!(look, Look::Nothing) { self.empty_looks + 1 } else { 0 };
        if self.empty_looks >= CHECK_EVERY {
            self.empty_looks = 0;
            self.inner.check()?;
        }
        Ok(look)
    }

    /// The event for C; nothing for a socket, listener or stream whose handle is closed.
    fn event(&mut self, queue: *mut Queue, event: sockets::Event<'static>) -> Option<Event> {
        match event.socket() {
            Handle::Udp(handle) => self.socket_event(queue, handle, event),
            Handle::Listener(handle) => {
                let sockets::Event::Accepted(_, stream) = event else { return None };
                let listener = *self.listeners.get(&handle)?;
                let stream = self.stream(queue, stream);
                Some(Event { listener, stream, ..Event::of(ACCEPTED) })
            }
            Handle::Stream(handle) => self.stream_event(queue, handle, event),
            _ => None,
        }
    }

    fn socket_event(
        &mut self,
        queue: *mut Queue,
        handle: UdpSocket,
        event: sockets::Event<'static>,
    ) -> Option<Event> {
        let socket = *self.sockets.get(&handle)?;
        Some(match event {
            sockets::Event::Datagram(datagram) => {
                let buf = self.buffer(queue, Content::Received(datagram));
                Event { socket, buf, ..Event::of(PACKET) }
            }
            sockets::Event::Error(_, errno, _) => {
                Event { socket, error: i32::from(errno), ..Event::of(ERROR) }
            }
            _ => Event { socket, ..Event::of(CLOSED) },
        })
    }

    fn stream_event(
        &mut self,
        queue: *mut Queue,
        handle: TcpStream,
        event: sockets::Event<'static>,
    ) -> Option<Event> {
        let stream = *self.streams.get(&handle)?;
        // SAFETY: a handle in the map is one that C has not closed, and C is in a call of its queue.
        unsafe { &mut *stream }.note(&event);
        Some(match event {
            sockets::Event::Octets(octets) => {
                let buf = self.buffer(queue, Content::Octets(octets));
                Event { stream, buf, ..Event::of(OCTETS) }
            }
            sockets::Event::StreamFailed(_, errno) => {
                Event { stream, error: i32::from(errno), ..Event::of(ERROR) }
            }
            sockets::Event::Connected(_) => Event { stream, ..Event::of(CONNECTED) },
            sockets::Event::Writable(_) => Event { stream, ..Event::of(WRITABLE) },
            sockets::Event::Urgent(_, ahead) => Event { stream, error: ahead, ..Event::of(URGENT) },
            sockets::Event::Finished(_) => Event { stream, ..Event::of(FINISHED) },
            _ => Event { stream, ..Event::of(CLOSED) },
        })
    }
}

/// # Safety
/// `queue` is one of this library's that was not destroyed, or NULL; nobody else uses it now.
pub(crate) unsafe fn queue_of<'a>(queue: *mut Queue) -> Result<&'a mut Queue, Failure> {
    // SAFETY: by the caller's word.
    unsafe { queue.as_mut() }.ok_or_else(|| Failure::null("queue"))
}

/// # Safety
/// `text` is NULL or a string that ends with a zero.
unsafe fn text_of(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the caller's word.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Connects to the stack that `stack` names, a path or `library:` and settings (NULL: `WEEVER_APPS`, or the usual
/// path), and opens a queue
/// in the slot `slot` (NULL: none). Blocks until the stack has answered.
///
/// # Safety
/// The strings end with a zero, or are NULL; `queue` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_create(
    stack: *const c_char,
    slot: *const c_char,
    queue: *mut *mut Queue,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let (path, slot) = unsafe { (text_of(stack), text_of(slot)) };
        let out = (!queue.is_null()).then_some(queue).ok_or_else(|| Failure::null("queue"))?;
        let mut config = QueueConfig::default();
        if let Some(path) = path {
            config.path = path.into();
        }
        if let Some(slot) = slot {
            (config.name, config.slot) = (slot, true);
        }
        let (inner, share) = open(&config)?;
        let made = Queue {
            inner: Box::new(inner),
            _share: share,
            sockets: HashMap::new(),
            listeners: HashMap::new(),
            streams: HashMap::new(),
            handles: 0,
            kept: Kept::default(),
            buffers: 0,
            spare: Vec::new(),
            empty_looks: 0,
        };
        // SAFETY: by the caller's word.
        unsafe { out.write(Box::into_raw(Box::new(made))) };
        Ok(0)
    })
}

/// Closes a queue. `EBUSY` while a socket, listener or stream on it is not closed, or a buffer of it is
/// not given back.
///
/// # Safety
/// As for every call: see [`queue_of`]. The pointer is not used afterwards if it returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_destroy(queue: *mut Queue) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        if there.handles > 0 || there.buffers > 0 {
            let (handles, buffers) = (there.handles, there.buffers);
            let text = format!("{handles} sockets and {buffers} buffers of the queue are left");
            return Err(Failure::new(libc::EBUSY, text));
        }
        there.kept.clear();
        // SAFETY: it came from `weever_aq_create`, and nothing that borrows it is left.
        drop(unsafe { Box::from_raw(queue) });
        Ok(0)
    })
}

/// One look, in bounded time: `WEEVER_POLL_…`, or a negative errno.
///
/// # Safety
/// See [`queue_of`]; `event` points to a `weever_event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_poll(queue: *mut Queue, event: *mut Event) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        if event.is_null() {
            return Err(Failure::null("event"));
        }
        match there.look() {
            Ok(Look::Event(found)) => match there.event(queue, found) {
                Some(found) => {
                    // SAFETY: by the caller's word; written without a read of the old value.
                    unsafe { event.write(found) };
                    Ok(EVENT)
                }
                None => Ok(WORKED),
            },
            Ok(Look::Worked) => Ok(WORKED),
            Ok(Look::Nothing) => Ok(NOTHING),
            Err(Error::Disconnected) => Ok(ABORT),
            Err(error) => Err(error.into()),
        }
    })
}

/// Hands everything sent to the stack.
///
/// # Safety
/// See [`queue_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_commit(queue: *mut Queue) -> c_int {
    // SAFETY: by the caller's word.
    call(|| Ok(unsafe { queue_of(queue) }?.inner.commit().map(|()| 0)?))
}

/// Commits, then sleeps until there is something to receive: 1, or 0 after the timeout; a negative
/// timeout waits as long as it takes.
///
/// # Safety
/// See [`queue_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_wait(queue: *mut Queue, timeout_ms: c_int) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let timeout = if there.kept.is_empty() { timeout } else { Some(Duration::ZERO) };
        let something = there.inner.wait(timeout)? || !there.kept.is_empty();
        Ok(c_int::from(something))
    })
}

/// The descriptor that becomes readable when something comes, after `weever_aq_arm`.
///
/// # Safety
/// See [`queue_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_fd(queue: *mut Queue) -> c_int {
    // SAFETY: by the caller's word.
    call(|| Ok(unsafe { queue_of(queue) }?.inner.as_fd().as_raw_fd()))
}

/// Has the descriptor become readable when something comes: 1; 0 when there is something already.
///
/// # Safety
/// See [`queue_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_arm(queue: *mut Queue) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        Ok(c_int::from(there.kept.is_empty() && there.inner.arm()?))
    })
}

/// Makes the descriptor unreadable again.
///
/// # Safety
/// See [`queue_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_acknowledge(queue: *mut Queue) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        unsafe { queue_of(queue) }?.inner.acknowledge();
        Ok(0)
    })
}

/// Opens queue and sockets anew on the stack that serves there now: how many sockets could not be had
/// again. `EBUSY` while a buffer is not given back.
///
/// # Safety
/// See [`queue_of`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_reconnect(queue: *mut Queue) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        if there.buffers > 0 {
            let text = format!("{} buffers of the queue are left", there.buffers);
            return Err(Failure::new(libc::EBUSY, text));
        }
        there.kept.clear();
        let lost = there.inner.reconnect()?;
        Ok(lost.len() as c_int)
    })
}

/// Copies the queue's state at this moment.
///
/// # Safety
/// See [`queue_of`]; `state` points to a `weever_state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_state(queue: *mut Queue, state: *mut State) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        if state.is_null() {
            return Err(Failure::null("state"));
        }
        let (free, lent) = there.inner.frames();
        let channels = there.inner.channels() as u32;
        let now = State {
            sockets: there.inner.sockets() as u32,
            listeners: there.listeners.len() as u32,
            streams: there.streams.len() as u32,
            workers: channels,
            frames: there.inner.frame_count(),
            frames_free: free as u32,
            frames_lent: lent as u32,
            buffers: there.buffers as u32,
            zero_copy: there.inner.is_zero_copy().into(),
        };
        // SAFETY: by the caller's word; written without a read of the old value.
        unsafe { state.write(now) };
        Ok(0)
    })
}

/// A buffer to send. `EAGAIN` while none is free.
///
/// # Safety
/// See [`queue_of`]; `buf` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_buffer_alloc(queue: *mut Queue, buf: *mut *mut Buf) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        if buf.is_null() {
            return Err(Failure::null("buf"));
        }
        let frame = there.lasting().alloc_unbound()?;
        // SAFETY: by the caller's word.
        unsafe { buf.write(there.buffer(queue, Content::Written(frame, 0))) };
        Ok(0)
    })
}

/// Gives a buffer back.
///
/// # Safety
/// See [`queue_of`]; `buf` is one of this queue, or NULL, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_buffer_free(queue: *mut Queue, buf: *mut Buf) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { queue_of(queue) }?;
        // SAFETY: by the caller's word.
        let Some(mine) = (unsafe { buf.as_ref() }).map(|buf| buf.queue == queue) else {
            return Ok(0);
        };
        if !mine {
            return Err(Failure::new(libc::EINVAL, "the buffer is another queue's"));
        }
        // SAFETY: it is this queue's, and by the caller's word not used afterwards.
        unsafe { there.take_back(buf) };
        Ok(0)
    })
}
