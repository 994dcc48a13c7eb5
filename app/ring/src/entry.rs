//! The records of the rings: 16-byte entries.

/// The number of a socket on its application queue, given out by the stack.
pub type SocketId = u32;

/// Numbers from this one on are given out by workers, to the streams that they accept; those below,
/// by the control side to sockets, and by the application to streams that it connects.
pub const STREAMS: SocketId = 1 << 31;

/// The frame number of an entry that carries none.
pub const NO_FRAME: u32 = u32::MAX;

/// The meaning of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A datagram or segment of payload is in the frame.
    Data,
    /// The socket has an error: `offset` is the errno, `len` for `EMSGSIZE` the bytes of the longest
    /// IP packet that would have gone. With a frame, if there was one, whose packet info has both ends
    /// of the datagram that it is about. At its payload's place are the sender of the ICMP message that says so (16 bytes), the
    /// message's length (two), and the message.
    Error,
    /// The socket can send again after it had no room. Without a frame.
    Writable,
    /// From the stack: the socket is closed; nothing follows. To the stack: the application closes a
    /// stream; octets to send still go. Without a frame.
    Closed,
    /// From the stack: a stream is established. Its frame has both ends in the packet info, and in
    /// its payload, four bytes, the number of the listener that it came to or of the stream that
    /// was to be connected. To the stack: a stream is to be connected to the ends in the packet info,
    /// and has the number that the application chose, below [`STREAMS`].
    Connected,
    /// Octets of a stream, behind those of earlier entries. Without packet info. The frame of octets to
    /// send comes back when they were acknowledged.
    Stream,
    /// To the stack: the application has read octets of a stream, as many as
    /// [`Entry::value`]. Without a frame.
    Consumed,
    /// No more octets follow those of earlier entries, in either direction. Without a frame.
    Finished,
    /// To the stack: the stream is to be reset. Without a frame.
    Abort,
    /// To the stack: a setting of a stream or a listener, see
    /// [`StreamOption::to_word`](crate::StreamOption::to_word). Without a frame.
    Option,
    /// To the stack: how is a stream doing? Without a frame. From the stack: the answer, the bytes of
    /// Linux's `struct tcp_info` in a frame.
    Info,
    /// From the stack: a stream is at another worker, whose channel is the one of this place (`offset`);
    /// nothing of it follows here. To the stack, with [value](Entry::value) 0 in the channel before: nothing of
    /// the stream follows here; with 1 in the other one: all before was read. Without a frame.
    Moved,
    /// To the stack: the program has accepted a connection of a listener that
    /// [accepts each](crate::control::Request::Listen). Without a frame.
    Accepted,
    /// To the stack: the application releases a stream that another may have: one that it has not accepted, or that
    /// another process holds; with [value](Entry::value) 0 no program has seen it, and it is reset if no listener
    /// takes it. From the stack, as the answer or because another process has claimed it: the stream does not belong
    /// to this queue any more, and octets that were not consumed have been copied out of the frames. Without a frame.
    Released,
    /// From the stack: the peer of a stream has announced urgent data. Its last octet is, as a signed number, the
    /// [value](Entry::value)th of those that follow: 1 is the next one, and 0 the last of earlier entries. Urgent data of
    /// which was told before ends there no more. Without a frame.
    Urgent,
    /// A number that this version does not know; such entries are skipped and counted.
    Unknown(u8),
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Data => 1,
            Kind::Error => 2,
            Kind::Writable => 3,
            Kind::Closed => 4,
            Kind::Connected => 5,
            Kind::Stream => 6,
            Kind::Consumed => 7,
            Kind::Finished => 8,
            Kind::Abort => 9,
            Kind::Option => 10,
            Kind::Info => 11,
            Kind::Moved => 12,
            Kind::Accepted => 13,
            Kind::Released => 14,
            Kind::Urgent => 15,
            Kind::Unknown(number) => number,
        }
    }

    fn of(number: u8) -> Kind {
        match number {
            1 => Kind::Data,
            2 => Kind::Error,
            3 => Kind::Writable,
            4 => Kind::Closed,
            5 => Kind::Connected,
            6 => Kind::Stream,
            7 => Kind::Consumed,
            8 => Kind::Finished,
            9 => Kind::Abort,
            10 => Kind::Option,
            11 => Kind::Info,
            12 => Kind::Moved,
            13 => Kind::Accepted,
            14 => Kind::Released,
            15 => Kind::Urgent,
            other => Kind::Unknown(other),
        }
    }
}

/// One entry of a ring: two 64-bit words in shared memory, always copied out as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The frame, or [`NO_FRAME`].
    pub frame: u32,
    /// The socket it concerns. Unused in the fill and completion rings.
    pub socket: SocketId,
    /// Where the payload starts in the frame, in bytes.
    pub offset: u16,
    /// The payload's length in bytes.
    pub len: u16,
    /// The meaning of the entry.
    pub kind: Kind,
    /// How many more frames of the same datagram follow in the next entries.
    pub more: u8,
}

impl Entry {
    /// An entry that only names a frame, for the fill and completion rings.
    pub(crate) fn frame(frame: u32) -> Entry {
        Entry { frame, socket: 0, offset: 0, len: 0, kind: Kind::Data, more: 0 }
    }

    /// An entry without a frame: something that concerns a socket, with a value of 32 bits.
    pub(crate) fn of_socket(kind: Kind, socket: SocketId, value: u32) -> Entry {
        let (offset, len) = (value as u16, (value >> 16) as u16);
        Entry { frame: NO_FRAME, socket, offset, len, kind, more: 0 }
    }

    /// The value of an entry that has no frame: `offset` and `len` as one number.
    pub fn value(&self) -> u32 {
        u32::from(self.offset) | u32::from(self.len) << 16
    }

    pub(crate) fn to_words(self) -> [u64; 2] {
        let first = u64::from(self.frame) | u64::from(self.socket) << 32;
        let second = u64::from(self.offset)
            | u64::from(self.len) << 16
            | u64::from(self.kind.number()) << 32
            | u64::from(self.more) << 40;
        [first, second]
    }

    pub(crate) fn from_words([first, second]: [u64; 2]) -> Entry {
        Entry {
            frame: first as u32,
            socket: (first >> 32) as u32,
            offset: second as u16,
            len: (second >> 16) as u16,
            kind: Kind::of((second >> 32) as u8),
            more: (second >> 40) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_survive_the_ring(
            frame: u32, socket: u32, offset: u16, len: u16, kind: u8, more: u8,
        ) {
            let entry = Entry { frame, socket, offset, len, kind: Kind::of(kind), more };
            prop_assert_eq!(Entry::from_words(entry.to_words()), entry);
        }
    }
}
