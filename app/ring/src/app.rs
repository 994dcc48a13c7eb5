//! The application's end of a channel.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::doorbell::Doorbell;
use crate::entry::{Entry, Kind, NO_FRAME, PacketInfo, SocketId};
use crate::layout::{ChannelError, Geometry, INFO_SIZE};
use crate::memory::SharedMemory;
use crate::ring::{Consumer, Producer};

/// A frame that the application holds. Give it back by [`AppEnd::release`], or send it: one that is
/// dropped is lost to the channel.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is dropped is lost to the channel"]
pub struct Frame(u32);

impl Frame {
    /// Its number in the channel.
    pub fn index(&self) -> u32 {
        self.0
    }
}

/// One entry of the receive ring.
#[derive(Debug)]
pub struct Received {
    /// The socket it is for.
    pub socket: SocketId,
    /// Payload, or something that happened to the socket.
    pub kind: Kind,
    /// The payload's frame, for [`Kind::Data`].
    pub frame: Option<Frame>,
    /// Where the payload starts in the frame; for [`Kind::Error`], the errno.
    pub offset: u16,
    /// The payload's length in this frame.
    pub len: u16,
    /// How many entries with more of the same datagram follow. Only the first has packet info.
    pub more: u8,
}

/// A received payload that can be read without its channel at hand.
#[derive(Debug)]
pub struct Payload {
    frame: Frame,
    offset: u16,
    len: u16,
    memory: Arc<SharedMemory>,
}

impl Payload {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as in `AppEnd::payload`: the frame is this value's alone.
        unsafe { self.memory.view(self.frame.0, self.offset, self.len.into()) }.unwrap_or(&[])
    }

    /// The frame, to be released or sent, and where in it the payload is: offset and length.
    pub fn into_frame(self) -> (Frame, u16, u16) {
        (self.frame, self.offset, self.len)
    }
}

/// Why a frame could not be submitted. It comes back with the error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The transmit ring is full: commit, and wait until the stack has taken something.
    #[error("the transmit ring is full; commit and wait until the stack has taken something")]
    Full(Frame),
    /// The payload does not lie in the frame behind its packet info.
    #[error("a payload of {len} bytes at {offset} is not inside the frame's payload")]
    Range {
        /// The frame.
        frame: Frame,
        /// The offset asked for.
        offset: u16,
        /// The length asked for.
        len: u16,
    },
    /// The channel is broken.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

/// The application's end. One thread at a time uses it.
///
/// Receiving: [`receive`](Self::receive) until it has nothing more, [`payload`](Self::payload) and
/// [`info`](Self::info) of each, [`release`](Self::release). Sending: [`alloc`](Self::alloc),
/// [`payload_mut`](Self::payload_mut), [`submit`](Self::submit). [`commit`](Self::commit) makes
/// submitted and released frames visible to the stack. Nothing here blocks or makes a system call.
pub struct AppEnd {
    fill: Producer<'static>,
    receive: Consumer<'static>,
    transmit: Producer<'static>,
    completion: Consumer<'static>,
    own: Doorbell<'static>,
    stack: Doorbell<'static>,
    /// Free frames that are not lent.
    spare: Vec<u32>,
    /// Frames lent to the stack and not come back.
    lent: u32,
    /// How many frames to lend.
    share: u32,
    /// Last, so that it outlives the rings above, which point into it.
    memory: Arc<SharedMemory>,
}

impl AppEnd {
    /// Maps a channel that the stack made, and lends it half of the frames to receive into.
    ///
    /// # Errors
    /// See [`SharedMemory::map`].
    pub fn map(fd: OwnedFd) -> Result<AppEnd, ChannelError> {
        let memory = Arc::new(SharedMemory::map(fd)?);
        let geometry = memory.geometry();
        // SAFETY: `memory` is a field of the same struct as everything that points into it.
        let parts = unsafe { memory.parts() };
        let mut end = AppEnd {
            fill: Producer::new(parts.fill),
            receive: Consumer::new(parts.receive),
            transmit: Producer::new(parts.transmit),
            completion: Consumer::new(parts.completion),
            own: parts.app,
            stack: parts.stack,
            spare: (0..geometry.frames).rev().collect(),
            lent: 0,
            share: (geometry.frames / 2).min(geometry.ring_len),
            memory,
        };
        end.lend()?;
        end.fill.publish();
        Ok(end)
    }

    /// The sizes of rings and frames.
    pub fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn lend(&mut self) -> Result<(), ChannelError> {
        while self.lent < self.share {
            let Some(&frame) = self.spare.last() else { break };
            if !self.fill.push(Entry::frame(frame))? {
                break;
            }
            self.spare.pop();
            self.lent += 1;
        }
        Ok(())
    }

    /// The next thing that happened, in order of arrival.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<Received>, ChannelError> {
        let Some(entry) = self.receive.pop()? else {
            self.receive.release();
            return Ok(None);
        };
        let frame = match entry.kind {
            Kind::Data if entry.frame >= self.geometry().frames => {
                return Err(ChannelError::Corrupt("frame number"));
            }
            Kind::Data if !self.memory.is_payload(entry.offset, entry.len) => {
                return Err(ChannelError::Corrupt("payload range"));
            }
            Kind::Data => {
                self.lent = self.lent.saturating_sub(1);
                Some(Frame(entry.frame))
            }
            _ if entry.frame != NO_FRAME => return Err(ChannelError::Corrupt("event")),
            _ => None,
        };
        let Entry { socket, kind, offset, len, more, .. } = entry;
        Ok(Some(Received { socket, kind, frame, offset, len, more }))
    }

    /// The payload of a received entry; empty for one without a frame.
    #[inline]
    pub fn payload(&self, received: &Received) -> &[u8] {
        let Some(frame) = &received.frame else { return &[] };
        // SAFETY: a `Frame` is the application's alone until it is released or submitted, which
        // takes it by value; the stack is trusted to leave it alone (module documentation).
        unsafe { self.memory.view(frame.0, received.offset, received.len.into()) }.unwrap_or(&[])
    }

    /// The payload as a value of its own; `None` for an entry without a frame.
    pub fn into_payload(&self, received: Received) -> Option<Payload> {
        let Received { frame, offset, len, .. } = received;
        Some(Payload { frame: frame?, offset, len, memory: Arc::clone(&self.memory) })
    }

    /// The packet info of the first entry of a datagram.
    #[inline]
    pub fn info(&self, frame: &Frame) -> PacketInfo {
        let mut bytes = [0; 56];
        self.memory.read(frame.0, 0, &mut bytes);
        PacketInfo::from_bytes(&bytes)
    }

    /// A free frame to send from, or nothing while all are in use: commit, and wait.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    pub fn alloc(&mut self) -> Result<Option<Frame>, ChannelError> {
        if self.spare.is_empty() {
            self.reap()?;
        }
        Ok(self.spare.pop().map(Frame))
    }

    /// Takes back the frames that the stack has sent.
    fn reap(&mut self) -> Result<(), ChannelError> {
        while let Some(entry) = self.completion.pop()? {
            if entry.frame >= self.geometry().frames {
                return Err(ChannelError::Corrupt("frame number"));
            }
            self.spare.push(entry.frame);
        }
        self.completion.release();
        Ok(())
    }

    /// The space for a payload in a frame that the application holds.
    #[inline]
    pub fn payload_mut(&mut self, frame: &mut Frame) -> &mut [u8] {
        let len = self.geometry().payload_size().into();
        // SAFETY: as in `payload`; exclusive, since the frame is borrowed mutably.
        let space = unsafe { self.memory.view_mut(frame.0, INFO_SIZE, len) };
        space.expect("a frame's number was checked when it was received or reaped")
    }

    /// Hands a frame to the stack to send `len` bytes from `offset` on. The stack sees it after
    /// [`commit`](Self::commit). With `more` above 0, that many frames with more of the same
    /// datagram must be submitted before the commit, counting down; look at
    /// [`transmit_room`](Self::transmit_room) first.
    ///
    /// # Errors
    /// The frame comes back with [`SubmitError::Full`] and [`SubmitError::Range`].
    #[inline]
    pub fn submit(
        &mut self,
        frame: Frame,
        socket: SocketId,
        info: &PacketInfo,
        (offset, len, more): (u16, u16, u8),
    ) -> Result<(), SubmitError> {
        if !self.memory.is_payload(offset, len) {
            return Err(SubmitError::Range { frame, offset, len });
        }
        if self.transmit.room(1)? == 0 {
            return Err(SubmitError::Full(frame));
        }
        self.memory.write(frame.0, 0, &info.to_bytes());
        let entry = Entry { frame: frame.0, socket, offset, len, kind: Kind::Data, more };
        self.transmit.push(entry)?;
        Ok(())
    }

    /// How many frames can be submitted now, at least when fewer than `wanted`.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    pub fn transmit_room(&mut self, wanted: u32) -> Result<u32, ChannelError> {
        self.transmit.room(wanted)
    }

    /// Gives a frame back that was received or allocated.
    #[inline]
    pub fn release(&mut self, frame: Frame) {
        self.spare.push(frame.0);
    }

    /// Makes submitted frames visible to the stack, lends it free frames, and says whether its
    /// worker has to be woken.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    #[inline]
    #[must_use = "a worker that sleeps has to be woken"]
    pub fn commit(&mut self) -> Result<bool, ChannelError> {
        self.receive.release();
        if self.completion.look()? > 0 {
            self.reap()?;
        }
        self.lend()?;
        self.fill.publish();
        Ok(self.transmit.publish() && self.stack.take())
    }

    /// Announces that the application is about to sleep; false, and nothing announced, when there
    /// is something to receive already, or frames have come back that were sent. After waking:
    /// [`disarm`](Self::disarm).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    pub fn arm(&mut self) -> Result<bool, ChannelError> {
        self.own.arm();
        let returned = self.completion.look()? > 0;
        if returned {
            self.reap()?;
        }
        if returned || self.receive.look()? > 0 {
            self.own.disarm();
            return Ok(false);
        }
        Ok(true)
    }

    /// The application is awake again.
    pub fn disarm(&mut self) {
        self.own.disarm();
    }

    /// Frames that are free on this side, and frames lent to the stack. For checks.
    pub fn held(&self) -> (usize, usize) {
        (self.spare.len(), self.lent as usize)
    }
}
