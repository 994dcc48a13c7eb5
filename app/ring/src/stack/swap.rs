//! Frames of the stack's own memory pass as they are: for each that the application gets or sends, the two sides swap
//! one for another.

use std::os::fd::BorrowedFd;

use super::{Delivery, Holder, Part, StackEnd};
use crate::elsewhere::FrameMemory;
use crate::entry::{Entry, Kind, SocketId};
use crate::info::PackedInfo;
use crate::layout::{ChannelError, Geometry, HEADERS, INFO_SIZE};
use crate::memory::SharedMemory;

impl StackEnd {
    /// Makes a channel whose frames are in a memory of the stack's. The application has those with the numbers `first`
    /// at first, and as many from then on, whatever `geometry` says of their number.
    ///
    /// # Errors
    /// See [`SharedMemory::create`]; [`ChannelError::NotAChannel`] when it is no memory for such frames.
    pub fn create_over(
        geometry: Geometry,
        memory: FrameMemory,
        first: &[u32],
    ) -> Result<StackEnd, ChannelError> {
        let memory = SharedMemory::create_over(geometry, memory, first)?;
        let mut holders = vec![Holder::Stack; memory.numbers() as usize];
        for number in first {
            let holder = holders.get_mut(*number as usize);
            *holder.ok_or(ChannelError::NotAChannel("it has no such frame"))? = Holder::Application;
        }
        Ok(StackEnd::over(memory, holders))
    }

    /// The memory that the frames are in, to send to the application, if it is not the channel's.
    pub fn frames_fd(&self) -> Option<BorrowedFd<'_>> {
        self.memory.frames_fd()
    }

    /// Takes an empty frame of the application's, for one with a datagram that it gets by [`swap`](Self::swap) now.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn take_empty(&mut self) -> Result<Result<u32, Delivery>, ChannelError> {
        if self.receive.room(1)? == 0 {
            return Ok(Err(Delivery::RingFull));
        }
        self.has_free(1)?;
        Ok(self.free.pop().ok_or(Delivery::NoFrame))
    }

    /// Gives the application a frame in which a datagram lies, for the one that was [taken](Self::take_empty). Its first
    /// [`INFO_SIZE`] bytes are overwritten; the payload lies behind them.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn swap(
        &mut self,
        socket: SocketId,
        info: impl Into<PackedInfo>,
        (frame, offset, len): (u32, u16, u16),
    ) -> Result<(), ChannelError> {
        debug_assert!(self.memory.is_payload(offset, len));
        self.memory.write(frame, 0, &info.into().to_bytes());
        self.holders[frame as usize] = Holder::Application;
        let pushed =
            self.receive.push(Entry { frame, socket, offset, len, kind: Kind::Data, more: 0 })?;
        debug_assert!(pushed, "room was looked for before");
        Ok(())
    }

    /// The frame of the datagram that [`next_transmit`](Self::next_transmit) returned last, with the payload's offset and
    /// length, if it can be sent as it is: it is the only one, and has room for headers in front of the payload.
    #[inline]
    pub fn in_place(&self) -> Option<(u32, u16, u16)> {
        match self.parts[..] {
            [Part { frame, offset, len }] if offset >= INFO_SIZE + HEADERS => {
                Some((frame, offset, len))
            }
            _ => None,
        }
    }

    /// Keeps the only frame of the datagram that [`next_transmit`](Self::next_transmit) returned last, and gives the
    /// application another, which it sees after [`publish`](Self::publish).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn complete_with(&mut self, other: u32) -> Result<(), ChannelError> {
        let Some(Part { frame, .. }) = self.parts.pop() else { return Ok(()) };
        debug_assert!(self.parts.is_empty(), "only datagrams of one frame are swapped");
        self.holders[frame as usize] = Holder::Stack;
        // What was delivered in it can not be read back from it any more.
        self.loans[frame as usize] = self.loans[frame as usize].wrapping_add(1);
        self.holders[other as usize] = Holder::Application;
        let pushed = self.completion.push(Entry::frame(other))?;
        debug_assert!(pushed, "room was looked for before");
        Ok(())
    }
}
