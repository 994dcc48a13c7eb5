//! The application's end of a channel.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::doorbell::Doorbell;
use crate::entry::{Entry, Kind, NO_FRAME, SocketId};
use crate::frames::{Frame, Frames};
use crate::info::{PackedInfo, PacketInfo};
use crate::layout::{ChannelError, Geometry, INFO_SIZE};
use crate::memory::SharedMemory;
use crate::ring::{Consumer, Producer};

/// One entry of the receive ring.
#[derive(Debug)]
pub struct Received {
    /// The socket it is for.
    pub socket: SocketId,
    /// Payload, or something that happened to the socket.
    pub kind: Kind,
    /// The payload's frame, for [`Kind::Data`], [`Kind::Stream`], [`Kind::Connected`] and
    /// [`Kind::Info`].
    pub frame: Option<Frame>,
    /// Where the payload starts in the frame; for [`Kind::Error`], the errno.
    pub offset: u16,
    /// The payload's length in this frame.
    pub len: u16,
    /// How many entries with more of the same datagram follow. Only the first has packet info.
    pub more: u8,
}

impl Received {
    /// The value of an entry that has no frame: `offset` and `len` as one number.
    pub fn value(&self) -> u32 {
        u32::from(self.offset) | u32::from(self.len) << 16
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
    /// Entries were published, and the stack's worker was not woken for them.
    unrung: bool,
    /// How many free frames are never lent: what is received and held does not take those that answers need.
    reserve: usize,
    /// By frame, the stream whose octets it holds while the stack has it, and how many; empty without
    /// streams.
    streams: Vec<(SocketId, u16)>,
    /// Streams whose frames have come back, one entry a frame, with the frame's octets.
    returned: VecDeque<(SocketId, u16)>,
    /// Last, so that its memory outlives the rings above, which point into it.
    frames: Frames,
}

/// How many entries ahead frames are prefetched: a line from another core takes longer than the
/// handling of one packet.
pub(crate) const AHEAD: u32 = 4;

impl AppEnd {
    /// Maps a channel that the stack made, and lends it half of the frames to receive into.
    ///
    /// # Errors
    /// See [`SharedMemory::map`].
    pub fn map(fd: OwnedFd) -> Result<AppEnd, ChannelError> {
        AppEnd::map_with(fd, None)
    }

    /// As [`map`](Self::map), with the memory that the frames are in, if it is not the channel's.
    ///
    /// # Errors
    /// See [`SharedMemory::map`].
    pub fn map_with(fd: OwnedFd, frames: Option<OwnedFd>) -> Result<AppEnd, ChannelError> {
        let memory = SharedMemory::map(fd, frames)?;
        let geometry = memory.geometry();
        let spare = memory.first_frames()?.into_iter().rev().collect();
        // SAFETY: `frames` keeps the memory in the same struct as everything that points into it.
        let parts = unsafe { memory.parts() };
        let mut end = AppEnd {
            fill: Producer::new(parts.fill),
            receive: Consumer::new(parts.receive),
            transmit: Producer::new(parts.transmit),
            completion: Consumer::new(parts.completion),
            own: parts.app,
            stack: parts.stack,
            spare,
            lent: 0,
            share: (geometry.frames / 2).min(geometry.ring_len),
            unrung: false,
            reserve: (geometry.frames / 8) as usize,
            streams: Vec::new(),
            returned: VecDeque::new(),
            frames: Frames::new(memory),
        };
        end.lend()?;
        end.fill.publish();
        Ok(end)
    }

    /// The sizes of rings and frames.
    pub fn geometry(&self) -> Geometry {
        self.frames.memory.geometry()
    }

    fn lend(&mut self) -> Result<(), ChannelError> {
        while self.lent < self.share && self.spare.len() > self.reserve {
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
        self.received(entry).map(Some)
    }

    /// The next payload for a socket without a connection; nothing if something else comes before it, which
    /// [`receive`](Self::receive) tells.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    #[inline]
    pub fn receive_for(&mut self, socket: SocketId) -> Result<Option<Received>, ChannelError> {
        match self.receive.pop()? {
            Some(entry) if entry.socket == socket && entry.kind == Kind::Data => {
                self.received(entry).map(Some)
            }
            Some(_) => {
                self.receive.unpop();
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Checks an entry that was taken.
    #[inline]
    fn received(&mut self, entry: Entry) -> Result<Received, ChannelError> {
        if let Some(frame) = self.receive.frame_ahead(AHEAD) {
            self.frames.memory.prefetch(frame, false);
        }
        let has_payload =
            matches!(entry.kind, Kind::Data | Kind::Stream | Kind::Connected | Kind::Info);
        let frame = match entry.kind {
            _ if has_payload && entry.frame >= self.frames.memory.numbers() => {
                return Err(ChannelError::Corrupt("frame number"));
            }
            _ if has_payload && !self.frames.memory.is_payload(entry.offset, entry.len) => {
                return Err(ChannelError::Corrupt("payload range"));
            }
            _ if has_payload => {
                self.lent = self.lent.saturating_sub(1);
                Some(self.frame(entry.frame))
            }
            _ if entry.frame == NO_FRAME => None,
            Kind::Error if entry.frame < self.frames.memory.numbers() => {
                self.lent = self.lent.saturating_sub(1);
                Some(self.frame(entry.frame))
            }
            _ => return Err(ChannelError::Corrupt("event")),
        };
        let Entry { socket, kind, offset, len, more, .. } = entry;
        Ok(Received { socket, kind, frame, offset, len, more })
    }

    /// Whether there is something to receive.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    #[inline]
    pub fn has_received(&mut self) -> Result<bool, ChannelError> {
        Ok(self.receive.available()? > 0)
    }

    /// Whether there is more to receive of what was there when [`receive`](Self::receive) last had nothing. Does not look at
    /// the stack's index.
    #[inline]
    pub fn knows_of_more(&self) -> bool {
        let (next, produced) = self.receive.place();
        next != produced
    }

    /// Whether an error is among what is to be received.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    #[inline]
    pub fn holds_error(&mut self) -> Result<bool, ChannelError> {
        self.receive.search(|entry| entry.kind == Kind::Error)
    }

    /// The bytes of this channel's frames.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    fn frame(&self, index: u32) -> Frame {
        Frame { index, channel: self.frames.channel }
    }

    /// The payload of a received entry; empty for one without a frame.
    #[inline]
    pub fn payload<'f>(&'f self, received: &'f Received) -> &'f [u8] {
        let Some(frame) = &received.frame else { return &[] };
        self.frames.bytes(frame, received.offset, received.len)
    }

    /// The packet info of the first entry of a datagram.
    #[inline]
    pub fn info(&self, frame: &Frame) -> PacketInfo {
        self.frames.info(frame)
    }

    /// A free frame to send from, or nothing while all are in use: commit, and wait.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    pub fn alloc(&mut self) -> Result<Option<Frame>, ChannelError> {
        if self.spare.is_empty() {
            self.reap()?;
        }
        Ok(self.spare.pop().map(|index| self.frame(index)))
    }

    /// Takes back the frames that the stack has sent; [`alloc`](Self::alloc) does so when it has none left.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    #[inline]
    pub fn reap(&mut self) -> Result<(), ChannelError> {
        if self.completion.available()? > 0 { self.take_back() } else { Ok(()) }
    }

    fn take_back(&mut self) -> Result<(), ChannelError> {
        while let Some(entry) = self.completion.pop()? {
            if entry.frame >= self.frames.memory.numbers() {
                return Err(ChannelError::Corrupt("frame number"));
            }
            self.spare.push(entry.frame);
            if let Some(there @ (1.., _)) = self.streams.get_mut(entry.frame as usize) {
                self.returned.push_back(std::mem::take(there));
            }
        }
        self.completion.release();
        Ok(())
    }

    /// The space for a payload in a frame that the application holds.
    #[inline]
    pub fn payload_mut<'f>(&'f mut self, frame: &'f mut Frame) -> &'f mut [u8] {
        self.frames.space(frame, self.frames.room())
    }

    /// The longest payload that a frame has [room](Frames::room) for, in bytes.
    #[inline]
    pub fn payload_size(&self) -> u16 {
        self.geometry().frame_size as u16 - self.frames.room()
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
        info: impl Into<PackedInfo>,
        (offset, len, more): (u16, u16, u8),
    ) -> Result<(), SubmitError> {
        if frame.channel != self.frames.channel || !self.frames.memory.is_payload(offset, len) {
            return Err(SubmitError::Range { frame, offset, len });
        }
        if self.transmit.room(1)? == 0 {
            return Err(SubmitError::Full(frame));
        }
        self.frames.memory.write(frame.index, 0, &info.into().to_bytes());
        let entry = Entry { frame: frame.index, socket, offset, len, kind: Kind::Data, more };
        self.transmit.push(entry)?;
        Ok(())
    }

    /// Hands octets of a stream to the stack, `len` from `offset` of the frame on, which comes back
    /// when they were acknowledged: see [`next_returned`](Self::next_returned). The stack sees them
    /// after [`commit`](Self::commit).
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_stream(
        &mut self,
        frame: Frame,
        stream: SocketId,
        (offset, len): (u16, u16),
    ) -> Result<(), SubmitError> {
        if frame.channel != self.frames.channel || !self.frames.memory.is_payload(offset, len) {
            return Err(SubmitError::Range { frame, offset, len });
        }
        if self.transmit.room(1)? == 0 {
            return Err(SubmitError::Full(frame));
        }
        if self.streams.is_empty() {
            self.streams = vec![(0, 0); self.frames.memory.numbers() as usize];
        }
        self.streams[frame.index as usize] = (stream, len);
        let kind = Kind::Stream;
        self.transmit.push(Entry {
            frame: frame.index,
            socket: stream,
            offset,
            len,
            kind,
            more: 0,
        })?;
        Ok(())
    }

    /// Asks the stack to connect a stream to the ends in `info`, by a number of the application's
    /// choice below [`STREAMS`](crate::STREAMS).
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_connect(
        &mut self,
        frame: Frame,
        stream: SocketId,
        info: &PacketInfo,
    ) -> Result<(), SubmitError> {
        if frame.channel != self.frames.channel {
            return Err(SubmitError::Range { frame, offset: 0, len: 0 });
        }
        if self.transmit.room(1)? == 0 {
            return Err(SubmitError::Full(frame));
        }
        self.frames.memory.write(frame.index, 0, &PackedInfo::from(info).to_bytes());
        let (offset, kind) = (INFO_SIZE, Kind::Connected);
        let entry = Entry { frame: frame.index, socket: stream, offset, len: 0, kind, more: 0 };
        self.transmit.push(entry)?;
        Ok(())
    }

    /// Tells the stack something of a stream that needs no frame; false when the ring is full.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: the channel is of no more use.
    pub fn request(
        &mut self,
        kind: Kind,
        stream: SocketId,
        value: u32,
    ) -> Result<bool, ChannelError> {
        self.transmit.push(Entry::of_socket(kind, stream, value))
    }

    /// A stream of which one frame has come back, since its octets were acknowledged or the stream is
    /// over, and how many octets it had: as often as it had frames.
    pub fn next_returned(&mut self) -> Option<(SocketId, u16)> {
        self.returned.pop_front()
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
        debug_assert_eq!(frame.channel, self.frames.channel, "a frame of another channel");
        if frame.channel == self.frames.channel {
            self.spare.push(frame.index);
        }
    }

    /// Whether frames of streams have come back that [`next_returned`](Self::next_returned) has not told yet.
    pub fn has_returned(&self) -> bool {
        !self.returned.is_empty()
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
        let starved = self.lent == 0;
        self.lend()?;
        let lent = self.fill.publish();
        let published = self.transmit.publish() | std::mem::take(&mut self.unrung);
        // A stack without a frame waits for one with connections and octets of streams.
        Ok((published || lent && starved) && self.stack.take())
    }

    /// Makes submitted frames and requests visible to the stack, whose worker may sleep until the next
    /// [`commit`](Self::commit): for what nobody waits for.
    #[inline]
    pub fn publish(&mut self) {
        self.unrung |= self.transmit.publish();
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

    #[cfg(test)]
    pub(crate) fn memory_of_tests(&self) -> &std::sync::Arc<SharedMemory> {
        &self.frames.memory
    }

    /// Frames that are free on this side, and frames lent to the stack. For checks.
    pub fn held(&self) -> (usize, usize) {
        (self.spare.len(), self.lent as usize)
    }
}
