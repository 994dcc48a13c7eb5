//! Datagrams, octets of streams and events go to the application, in frames that it has lent.

use std::collections::VecDeque;

use super::{Holder, StackEnd};
use crate::app::AHEAD;
use crate::entry::{Entry, Kind, NO_FRAME, SocketId};
use crate::info::{About, PackedInfo, PacketInfo};
use crate::layout::{ChannelError, INFO_SIZE};

/// How many entries of the fill ring are taken at once: more than are delivered between two looks at it, so that the
/// frames which the application has not touched for long end up below the others.
const REFILL: usize = 256;

/// The outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the ring; the application sees it after [`StackEnd::publish`].
    Delivered,
    /// The application has lent no frame. Drop it and count it against the socket.
    NoFrame,
    /// The receive ring is full. Drop it and count it against the socket.
    RingFull,
}

/// A frame with octets that were delivered, for [`StackEnd::read_back`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    frame: u32,
    loan: u32,
    /// How many octets of it were not consumed.
    pub left: u16,
    len: u16,
}

impl StackEnd {
    /// Copies a datagram to the application, over as many frames as it needs, or not at all.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn deliver(
        &mut self,
        socket: SocketId,
        info: impl Into<PackedInfo>,
        payload: &[u8],
    ) -> Result<Delivery, ChannelError> {
        let size = usize::from(self.geometry().payload_size());
        let frames = payload.len().div_ceil(size).max(1);
        if frames > usize::from(u8::MAX) + 1 {
            return Ok(Delivery::NoFrame);
        }
        if self.receive.room(frames as u32)? < frames as u32 {
            return Ok(Delivery::RingFull);
        }
        if !self.has_free(frames)? {
            return Ok(Delivery::NoFrame);
        }
        if let Some(place) = self.free.len().checked_sub(frames + AHEAD as usize) {
            self.memory.prefetch(self.free[place], true);
        }
        let info = info.into().to_bytes();
        for i in 0..frames {
            let part = &payload[i * size..payload.len().min((i + 1) * size)];
            let Some(frame) = self.free.pop() else { return Ok(Delivery::NoFrame) };
            if i == 0 {
                self.memory.write(frame, 0, &info);
            }
            self.memory.write(frame, INFO_SIZE, part);
            self.holders[frame as usize] = Holder::Application;
            let (len, more) = (part.len() as u16, (frames - 1 - i) as u8);
            let entry = Entry { frame, socket, offset: INFO_SIZE, len, kind: Kind::Data, more };
            self.receive.push(entry)?;
        }
        Ok(Delivery::Delivered)
    }

    /// Tells the application of something that concerns a socket and has no payload: an error with
    /// its errno as `value` and for `EMSGSIZE` the MTU as `len`. `about`, the datagram that it is about and the
    /// message that says so, goes along if the application has lent a frame.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn notify(
        &mut self,
        socket: SocketId,
        kind: Kind,
        (value, len): (u16, u16),
        about: Option<About<'_>>,
    ) -> Result<Delivery, ChannelError> {
        if self.receive.room(1)? < 1 {
            return Ok(Delivery::RingFull);
        }
        if about.is_some() {
            self.has_free(1)?;
        }
        let with_frame = about.and_then(|about| Some((about, self.free.pop()?)));
        let room = self.geometry().payload_size().into();
        let frame = with_frame.map_or(NO_FRAME, |(about, frame)| {
            let (head, len) = about.head(room);
            self.memory.write(frame, 0, &about.info.to_bytes());
            self.memory.write(frame, INFO_SIZE, &head);
            self.memory.write(frame, INFO_SIZE + About::HEAD as u16, &about.message[..len]);
            self.holders[frame as usize] = Holder::Application;
            frame
        });
        let entry = Entry { frame, socket, offset: value, len, kind, more: 0 };
        Ok(if self.receive.push(entry)? { Delivery::Delivered } else { Delivery::RingFull })
    }

    /// Copies octets of a stream to the application, and returns how many there were frames and
    /// entries for. The frames are noted in `filled`.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn deliver_stream(
        &mut self,
        stream: SocketId,
        octets: &[u8],
        filled: &mut VecDeque<Filled>,
    ) -> Result<usize, ChannelError> {
        let mut done = 0;
        for part in octets.chunks(usize::from(self.geometry().payload_size())) {
            let Some(frame) = self.frame_to_fill()? else { break };
            self.memory.write(frame, INFO_SIZE, part);
            let len = part.len() as u16;
            let (offset, kind) = (INFO_SIZE, Kind::Stream);
            self.receive.push(Entry { frame, socket: stream, offset, len, kind, more: 0 })?;
            filled.push_back(Filled { frame, loan: self.loans[frame as usize], left: len, len });
            done += part.len();
        }
        Ok(done)
    }

    /// Appends the octets of a delivered frame that were not consumed to `out`; none when the application has given
    /// the frame back, thus has read them.
    pub fn read_back(&self, filled: &Filled, out: &mut VecDeque<u8>) {
        let Filled { frame, loan, left, len } = *filled;
        if self.loans.get(frame as usize) != Some(&loan) {
            return;
        }
        let mut octets = vec![0; left.into()];
        // The range is within the frame: the stack has written it.
        if self.memory.read(frame, INFO_SIZE + (len - left), &mut octets) {
            out.extend(octets);
        }
    }

    /// Tells the application of an established stream: both ends, and the number of the listener
    /// that it came to, or of the stream that was to be connected. False while there is no room.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn connected(
        &mut self,
        stream: SocketId,
        asked_as: SocketId,
        ends: &PacketInfo,
    ) -> Result<bool, ChannelError> {
        let Some(frame) = self.frame_to_fill()? else { return Ok(false) };
        self.memory.write(frame, 0, &PackedInfo::from(ends).to_bytes());
        self.memory.write(frame, INFO_SIZE, &asked_as.to_ne_bytes());
        let (offset, len, kind) = (INFO_SIZE, 4, Kind::Connected);
        self.receive.push(Entry { frame, socket: stream, offset, len, kind, more: 0 })
    }

    /// Answers how a stream is doing, with as many bytes of `struct tcp_info` as a frame has room for.
    /// False while there is no frame or entry for it.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn inform(&mut self, stream: SocketId, info: &[u8]) -> Result<bool, ChannelError> {
        let Some(frame) = self.frame_to_fill()? else { return Ok(false) };
        let len = info.len().min(self.geometry().payload_size().into());
        self.memory.write(frame, INFO_SIZE, &info[..len]);
        let (offset, len, kind) = (INFO_SIZE, len as u16, Kind::Info);
        self.receive.push(Entry { frame, socket: stream, offset, len, kind, more: 0 })
    }

    /// A lent frame, with room in the receive ring for its entry. It is the application's again.
    fn frame_to_fill(&mut self) -> Result<Option<u32>, ChannelError> {
        if self.receive.room(1)? == 0 {
            return Ok(None);
        }
        self.has_free(1)?;
        let frame = self.free.pop();
        if let Some(frame) = frame {
            self.holders[frame as usize] = Holder::Application;
        }
        Ok(frame)
    }

    /// Whether an event with a frame has room now. A broken channel has: it refuses by itself.
    pub fn has_room(&mut self) -> bool {
        let room = self.receive.room(1).unwrap_or(1) > 0;
        room && (!self.free.is_empty() || self.fill.look().unwrap_or(1) > 0)
    }

    /// Whether the application has lent so many frames that are empty. It looks into the fill ring once between two calls of
    /// [`publish`](Self::publish), and when there are fewer.
    #[inline]
    pub(super) fn has_free(&mut self, frames: usize) -> Result<bool, ChannelError> {
        if !self.refilled || self.free.len() < frames {
            self.refill()?;
        }
        Ok(self.free.len() >= frames)
    }

    /// Takes lent frames from the fill ring.
    fn refill(&mut self) -> Result<(), ChannelError> {
        for _ in 0..REFILL {
            let Some(entry) = self.fill.pop()? else { break };
            if self.take_from_application(entry.frame, Holder::Stack) {
                self.loans[entry.frame as usize] = self.loans[entry.frame as usize].wrapping_add(1);
                self.free.push(entry.frame);
            }
        }
        self.fill.release();
        self.refilled = true;
        Ok(())
    }
}
