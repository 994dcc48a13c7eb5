//! Entries of the transmit ring are taken and checked, and their frames go back to the application.

use std::sync::{Arc, Weak};

use super::{Holder, Part, StackEnd};
use crate::app::AHEAD;
use crate::entry::{Entry, Kind, NO_FRAME, SocketId};
use crate::info::PackedInfo;
use crate::layout::ChannelError;
use crate::memory::SharedMemory;

/// A checked entry of the transmit ring. A datagram's payload is copied by
/// [`StackEnd::copy_payload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// [`Kind::Data`], or a request that concerns a stream.
    pub kind: Kind,
    /// The socket that sends. Whether it is the application's is for the caller to check.
    pub socket: SocketId,
    /// Addresses and options, copied out. Whether they are allowed is for the caller to check.
    pub info: PackedInfo,
    /// The payload's length in bytes, all frames together. For a request without a frame, its
    /// [value](Entry::value).
    pub len: usize,
}

/// A frame with octets of a stream, which the stack holds until they are acknowledged. Give it back
/// by [`StackEnd::give_back`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is dropped is lost to the application"]
pub struct SentFrame {
    frame: u32,
    offset: u16,
    len: u16,
}

impl SentFrame {
    /// How many octets it has.
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The octets of sent frames, which stay readable when the channel itself is closed.
#[derive(Clone, Debug)]
pub struct SentFrames(Arc<SharedMemory>);

/// Tells whether this process still maps a channel's memory; does not keep it mapped.
#[derive(Clone, Debug)]
pub struct MemoryUse(Weak<SharedMemory>);

impl MemoryUse {
    /// Whether the channel is open, or sent frames of it may still be read.
    pub fn is_mapped(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl SentFrames {
    /// Copies octets of a frame, from the `skip`th on, to `out`, and returns how many.
    #[inline]
    pub fn read(&self, sent: &SentFrame, skip: usize, out: &mut [u8]) -> usize {
        let len = sent.len().saturating_sub(skip).min(out.len());
        // Below the frame's length, which fits.
        let from = sent.offset.saturating_add(skip as u16);
        if self.0.read(sent.frame, from, &mut out[..len]) { len } else { 0 }
    }
}

impl StackEnd {
    /// Whether [`next_transmit`](Self::next_transmit) has something to do. Costs less than to ask that.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn has_transmit(&mut self) -> Result<bool, ChannelError> {
        Ok(!self.owed.is_empty() || self.transmit.available()? > 0)
    }

    /// The next datagram to send or request of a stream, if there is one and its completion has room.
    /// Entries that break the rules are skipped and counted. Follow it by
    /// [`complete`](Self::complete), or octets of a stream by [`keep`](Self::keep).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn next_transmit(&mut self) -> Result<Option<Transmit>, ChannelError> {
        debug_assert!(self.parts.is_empty(), "complete the datagram before the next");
        if !self.owed.is_empty() {
            self.pay()?;
        }
        // Bounded: a hostile application that goes on writing does not keep the worker here.
        for _ in 0..self.geometry().ring_len {
            let Some(first) = self.transmit.pop()? else { return Ok(None) };
            if let Some(frame) = self.transmit.frame_ahead(AHEAD) {
                self.memory.prefetch(frame, false);
            }
            let frames = u32::from(first.more) + 1;
            if frames > self.geometry().ring_len {
                // Its end is further away than the ring is long: no end will come.
                self.misuse.bad_range += 1;
                continue;
            }
            if self.completion.room(frames)? < frames {
                self.transmit.unpop();
                return Ok(None);
            }
            if let Some(transmit) = self.gather(first)? {
                return Ok(Some(transmit));
            }
            self.complete()?;
        }
        Ok(None)
    }

    /// Takes the frames of one datagram; nothing when one of its entries breaks the rules.
    #[inline]
    fn gather(&mut self, first: Entry) -> Result<Option<Transmit>, ChannelError> {
        let mut valid = self.take_part(first);
        let mut len = usize::from(first.len);
        let mut previous = first;
        while previous.more > 0 {
            let Some(entry) = self.transmit.pop()? else {
                // A chain is published as a whole.
                self.misuse.bad_range += 1;
                return Ok(None);
            };
            let alike = entry.socket == first.socket && entry.kind == first.kind;
            if !alike || entry.more != previous.more - 1 {
                self.misuse.bad_range += 1;
                valid = false;
            }
            valid &= self.take_part(entry);
            len += usize::from(entry.len);
            // A chain that contradicts itself ends where its first entry said, at the latest.
            previous = Entry { more: previous.more - 1, ..entry };
        }
        if !valid {
            return Ok(None);
        }
        let (kind, socket) = (first.kind, first.socket);
        if first.frame == NO_FRAME || kind == Kind::Stream {
            let len = if kind == Kind::Stream { len } else { first.value() as usize };
            return Ok(Some(Transmit { kind, socket, info: PackedInfo::default(), len }));
        }
        let mut info = [0; 56];
        self.memory.read(first.frame, 0, &mut info);
        Ok(Some(Transmit { kind, socket, info: PackedInfo::from_bytes(&info), len }))
    }

    #[inline]
    fn take_part(&mut self, entry: Entry) -> bool {
        match entry.kind {
            Kind::Data => {}
            // A request is one entry.
            _ if entry.more > 0 => {
                self.misuse.bad_range += 1;
                return false;
            }
            Kind::Stream | Kind::Connected => {}
            Kind::Consumed
            | Kind::Finished
            | Kind::Abort
            | Kind::Option
            | Kind::Info
            | Kind::Moved
            | Kind::Accepted
            | Kind::Released
            | Kind::Closed
                if entry.frame == NO_FRAME =>
            {
                return true;
            }
            _ => {
                self.misuse.bad_kind += 1;
                return false;
            }
        }
        if !self.take_from_application(entry.frame, Holder::Transmit) {
            return false;
        }
        self.parts.push(Part { frame: entry.frame, offset: entry.offset, len: entry.len });
        if !self.memory.is_payload(entry.offset, entry.len) {
            self.misuse.bad_range += 1;
            return false;
        }
        true
    }

    /// Copies the payload of the datagram that [`next_transmit`](Self::next_transmit) returned
    /// last to the front of `out` and returns its length; bytes that do not fit are left out.
    #[inline]
    pub fn copy_payload(&self, out: &mut [u8]) -> usize {
        let mut done = 0;
        for part in &self.parts {
            let len = usize::from(part.len).min(out.len() - done);
            if !self.memory.read(part.frame, part.offset, &mut out[done..done + len]) {
                break;
            }
            done += len;
        }
        done
    }

    /// Keeps the frame of the octets that [`next_transmit`](Self::next_transmit) returned last, until
    /// they are acknowledged. Nothing when it was something else.
    pub fn keep(&mut self) -> Option<SentFrame> {
        let Part { frame, offset, len } = self.parts.pop()?;
        debug_assert!(self.parts.is_empty(), "octets of a stream come in one frame");
        Some(SentFrame { frame, offset, len })
    }

    /// The octets of kept frames.
    pub fn sent_frames(&self) -> SentFrames {
        SentFrames(Arc::clone(&self.memory))
    }

    /// Tells whether the channel's memory is still mapped here when the channel itself is closed.
    pub fn memory_use(&self) -> MemoryUse {
        MemoryUse(Arc::downgrade(&self.memory))
    }

    /// The place behind the last entry that the application has published: see [`has_taken`](Self::has_taken).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn published(&mut self) -> Result<u32, ChannelError> {
        self.transmit.look()?;
        Ok(self.transmit.place().1)
    }

    /// Whether all entries before a place were taken.
    pub fn has_taken(&self, place: u32) -> bool {
        place.wrapping_sub(self.transmit.place().0) as i32 <= 0
    }

    /// Gives a kept frame back to the application, which sees it after [`publish`](Self::publish).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    pub fn give_back(&mut self, sent: SentFrame) -> Result<(), ChannelError> {
        self.owed.push(sent.frame);
        self.pay()
    }

    /// Gives back frames as far as the completion ring has room.
    fn pay(&mut self) -> Result<(), ChannelError> {
        while let Some(&frame) = self.owed.last() {
            if !self.completion.push(Entry::frame(frame))? {
                break;
            }
            self.holders[frame as usize] = Holder::Application;
            self.owed.pop();
        }
        Ok(())
    }

    /// Gives the frames of the datagram that [`next_transmit`](Self::next_transmit) returned last
    /// back to the application, which sees them after [`publish`](Self::publish).
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`]: close the channel.
    #[inline]
    pub fn complete(&mut self) -> Result<(), ChannelError> {
        while let Some(part) = self.parts.pop() {
            self.holders[part.frame as usize] = Holder::Application;
            let pushed = self.completion.push(Entry::frame(part.frame))?;
            debug_assert!(pushed, "room was looked for before");
        }
        Ok(())
    }
}
