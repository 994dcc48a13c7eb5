//! Frames in an application's hands, and the bytes in them.

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::info::{About, PackedInfo, PacketInfo};
use crate::layout::INFO_SIZE;
use crate::memory::SharedMemory;
use crate::sync::{AtomicU32, Ordering};

/// A frame that the application holds. Give it back by [`AppEnd::release`](crate::AppEnd::release), or send it: one that is
/// dropped is lost to the channel.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is dropped is lost to the channel"]
pub struct Frame {
    pub(crate) index: u32,
    /// The channel that it belongs to, so that it opens no bytes of another.
    pub(crate) channel: u32,
}

impl Frame {
    /// Its number in the channel.
    pub fn index(&self) -> u32 {
        self.index
    }
}

/// The bytes of a channel's frames, for values that hold frames beside the channel.
#[derive(Clone, Debug)]
pub struct Frames {
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) channel: u32,
}

impl Frames {
    /// Those of a channel that is new to this process.
    pub(crate) fn new(memory: Arc<SharedMemory>) -> Frames {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Frames { memory, channel: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// The descriptors of the channel's memory, and of the one that its frames are in if that is another.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.memory.fd()).chain(self.memory.frames_fd())
    }

    /// Whether its frames are those in which the stack receives and sends, so that no payload is copied.
    pub fn is_trusted(&self) -> bool {
        self.memory.frames_fd().is_some()
    }

    /// `len` bytes from `offset` on; nothing when they are not in the frame, or the frame is another
    /// channel's.
    #[inline]
    pub fn bytes<'f>(&'f self, frame: &'f Frame, offset: u16, len: u16) -> &'f [u8] {
        if frame.channel != self.channel {
            return &[];
        }
        // SAFETY: a `Frame` is the application's alone until it is released or submitted, which
        // takes it by value; the stack is trusted to leave it alone (module documentation). The
        // frame is borrowed for as long as the bytes are, and is this channel's by the check above.
        unsafe { self.memory.view(frame.index, offset, len.into()) }.unwrap_or(&[])
    }

    /// Where the payload begins in a frame that is to be filled.
    #[inline]
    pub fn room(&self) -> u16 {
        self.memory.room()
    }

    /// The space for a payload that begins at an offset, up to the frame's end; nothing in another channel's frame, or
    /// when it begins before the end of the packet info.
    #[inline]
    pub fn space<'f>(&'f self, frame: &'f mut Frame, offset: u16) -> &'f mut [u8] {
        if frame.channel != self.channel || offset < INFO_SIZE {
            return &mut [];
        }
        let len = (self.memory.geometry().frame_size as usize).saturating_sub(offset.into());
        // SAFETY: as in `bytes`; exclusive, since the frame is borrowed mutably.
        unsafe { self.memory.view_mut(frame.index, offset, len) }.unwrap_or(&mut [])
    }

    /// The packet info of the first frame of a datagram.
    #[inline]
    pub fn info(&self, frame: &Frame) -> PacketInfo {
        self.packed_info(frame).into()
    }

    /// The cause of an error, in the frame that came with it.
    pub fn cause(&self, frame: &Frame) -> Cause {
        let mut head = [0; About::HEAD];
        self.memory.read(frame.index, INFO_SIZE, &mut head);
        let (sender, len) = head.split_at(16);
        let len = u16::from_ne_bytes([len[0], len[1]]);
        // A length beyond the frame is no message.
        let message = self.bytes(frame, INFO_SIZE + About::HEAD as u16, len).into();
        let octets = *sender.first_chunk::<16>().unwrap_or(&[0; 16]);
        let sender = Ipv6Addr::from(octets).to_canonical();
        Cause { sender: (!sender.is_unspecified()).then_some(sender), message }
    }

    /// The same as it lies there.
    #[inline]
    pub fn packed_info(&self, frame: &Frame) -> PackedInfo {
        let mut bytes = [0; 56];
        self.memory.read(frame.index, 0, &mut bytes);
        PackedInfo::from_bytes(&bytes)
    }
}

/// Where an error about a datagram comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The sender of an ICMP message about it; `None` if this host has found it.
    pub sender: Option<IpAddr>,
    /// The message from its type on.
    pub message: Box<[u8]>,
}
