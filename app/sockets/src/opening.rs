//! A queue and its channels are asked for, and the requests for sockets that wait for their answers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use weever_app_ring::control::{Request, Response};
use weever_app_ring::{AppEnd, Frames, Geometry, SocketId, VERSION};

use crate::backend::{Backend, QueueConfig};
use crate::error::{Error, accepted};
use crate::table::{Bind, UdpSocket};

/// Requests that may be on their way at once: few enough for the socket's buffers on both sides, so
/// that neither waits for the other.
pub(crate) const UNDER_WAY: usize = 64;

/// A socket that is being opened: names a request of [`crate::AppQueue::begin_open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opening(pub(crate) u64);

/// Opened, or refused.
pub(crate) type Opened = (Opening, Result<UdpSocket, Error>);

/// Requests whose answers have not been taken.
#[derive(Default)]
pub(crate) struct Openings {
    pub(crate) next: u64,
    /// Not answered yet, in the order of the requests.
    pub(crate) under_way: VecDeque<(Opening, Bind)>,
    /// Answered, but not taken.
    pub(crate) done: VecDeque<Opened>,
}

/// One worker's channel. The end is borrowed for a moment at a time, never while the caller's code
/// runs.
pub(crate) struct Channel {
    pub(crate) end: RefCell<AppEnd>,
    /// The bytes of its frames, for the buffers.
    pub(crate) frames: Frames,
    /// Wakes the worker.
    wake: OwnedFd,
}

impl Channel {
    fn map(memory: OwnedFd, wake: OwnedFd, frames: Option<OwnedFd>) -> Result<Channel, Error> {
        let end = AppEnd::map_with(memory, frames)?;
        let frames = end.frames().clone();
        Ok(Channel { end: RefCell::new(end), frames, wake })
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        let frames = self.frames.descriptors().map(|fd| fd.as_raw_fd());
        std::iter::once(self.wake.as_raw_fd()).chain(frames)
    }

    pub(crate) fn commit(&self) -> Result<(), Error> {
        if self.end.borrow_mut().commit()? {
            // The only way to fail is a full counter: then it is readable already.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        Ok(())
    }
}

/// A queue as the stack has given it.
pub(crate) struct OpenedQueue {
    /// Its number and key.
    pub(crate) name: (u32, u64),
    pub(crate) wake: OwnedFd,
    pub(crate) channels: Vec<Channel>,
    /// Ports are taken before connections begin at them.
    pub(crate) shares_ports: bool,
}

/// Asks for a queue, and maps its channels.
pub(crate) fn open_queue(
    backend: &mut dyn Backend,
    config: &QueueConfig,
) -> Result<OpenedQueue, Error> {
    let Geometry { ring_len, frames, frame_size } = config.geometry;
    let (version, name, slot) = (VERSION, config.name.clone(), config.slot);
    backend.send(&Request::OpenQueue { version, name, ring_len, frames, frame_size, slot })?;
    let missing = || Error::Protocol("a descriptor is missing".into());
    let (answer, descriptors) = backend.receive(true)?.ok_or_else(missing)?;
    let Response::Queue { queue, channels, key, shares_ports, trusted } = accepted(answer)? else {
        return Err(Error::Protocol("no queue in the answer".into()));
    };
    if descriptors.len() != 1 + 2 * channels as usize + trusted.len() || channels == 0 {
        let got = descriptors.len();
        return Err(Error::Protocol(format!("{got} descriptors for {channels} channels")));
    }
    let high = |fd: OwnedFd| config.with_high_number(&fd).unwrap_or(fd);
    let mut descriptors = descriptors.into_iter().map(high);
    let mut next = || descriptors.next().ok_or_else(missing);
    let wake = next()?;
    let mut opened = Vec::new();
    for channel in 0..channels {
        let (memory, wake) = (next()?, next()?);
        let frames = if trusted.contains(&channel) { Some(next()?) } else { None };
        opened.push(Channel::map(memory, wake, frames)?);
    }
    Ok(OpenedQueue { name: (queue, key), wake, channels: opened, shares_ports })
}

/// The number and the port of an opened socket.
pub(crate) fn socket_of(answer: Response) -> Result<(SocketId, u16), Error> {
    match accepted(answer)? {
        Response::Socket { socket, local_port } => Ok((socket, local_port)),
        other => Err(Error::Protocol(format!("{other:?}"))),
    }
}
