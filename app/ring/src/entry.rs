//! The records of the rings: 16-byte entries, and the packet info in front of a payload.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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
    /// of the datagram that it is about.
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

/// Bits of [`PacketInfo::flags`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFlags(pub u8);

impl PacketFlags {
    /// Received: the datagram came to a group or a broadcast address.
    pub const GROUP: PacketFlags = PacketFlags(1);
    /// Received: the datagram was longer than the space for it and was cut.
    pub const TRUNCATED: PacketFlags = PacketFlags(2);
    /// To send: a datagram to a group or to everybody does not come back to this host's members.
    pub const NO_LOOP: PacketFlags = PacketFlags(4);
    /// To send: `hops` is set. Otherwise the socket's default applies.
    pub const HOPS: PacketFlags = PacketFlags(8);
    /// To send: `traffic_class` is set. Otherwise the socket's default applies.
    pub const TRAFFIC_CLASS: PacketFlags = PacketFlags(16);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: PacketFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub fn with(self, other: PacketFlags) -> PacketFlags {
        PacketFlags(self.0 | other.0)
    }
}

/// Whether a datagram may be cut up on its way, in the manner of Linux's `IP_MTU_DISCOVER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// The stack cuts up datagrams longer than the path's MTU; routers must not (`WANT`).
    #[default]
    Want,
    /// Anybody may cut it up (`DONT`).
    Allow,
    /// Nobody may; a datagram longer than the path's MTU is refused with `EMSGSIZE` (`DO`).
    Never,
    /// Nobody may; the path's MTU is ignored, only the link's counts (`PROBE`).
    Probe,
}

impl Fragment {
    fn of(number: u8) -> Fragment {
        match number {
            1 => Fragment::Allow,
            2 => Fragment::Never,
            3 => Fragment::Probe,
            _ => Fragment::Want,
        }
    }
}

/// Addresses and options of a datagram, in the frame's first [`INFO_SIZE`](crate::INFO_SIZE) bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// The other host. Unspecified in a datagram to send: the socket's connected peer.
    pub remote: SocketAddr,
    /// Our address. Unspecified in a datagram to send: the socket's, or the route's choice.
    pub local: SocketAddr,
    /// The interface, by the stack's numbering from 1 on; 0 in a datagram to send: the route's choice.
    pub interface: u32,
    /// Time to live, or hop limit.
    pub hops: u8,
    /// Type of service, or traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// See [`PacketFlags`].
    pub flags: PacketFlags,
    /// To send: whether it may be cut up.
    pub fragment: Fragment,
    /// IPv6's flow label, 20 bits.
    pub flow_label: u32,
    /// When it was received, in nanoseconds of the monotonic clock; 0: unknown.
    pub timestamp: u64,
}

impl Default for PacketInfo {
    fn default() -> PacketInfo {
        let nowhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        PacketInfo {
            remote: nowhere,
            local: nowhere,
            interface: 0,
            hops: 0,
            traffic_class: 0,
            flags: PacketFlags::default(),
            fragment: Fragment::default(),
            flow_label: 0,
            timestamp: 0,
        }
    }
}

impl PacketInfo {
    /// The bytes as they lie in a frame, native byte order: both sides are on one machine.
    /// IPv4 addresses are stored as IPv4-mapped IPv6 addresses. Word by word: byte by byte it costs five
    /// times as many instructions, twice for each datagram.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; 56] {
        let ([first, second], [third, fourth]) = (words(self.remote.ip()), words(self.local.ip()));
        let ports = u64::from(self.remote.port()) | u64::from(self.local.port()) << 16;
        let options = u64::from(self.hops)
            | u64::from(self.traffic_class) << 8
            | u64::from(self.flags.0) << 16
            | u64::from(self.fragment as u8) << 24;
        let words = [
            first,
            second,
            third,
            fourth,
            ports | u64::from(self.interface) << 32,
            options | u64::from(self.flow_label) << 32,
            self.timestamp,
        ];
        let mut out = [0; 56];
        for (out, word) in out.chunks_exact_mut(8).zip(words) {
            out.copy_from_slice(&word.to_ne_bytes());
        }
        out
    }

    /// The inverse of [`to_bytes`](Self::to_bytes); any bytes are a valid packet info.
    #[inline]
    pub(crate) fn from_bytes(bytes: &[u8; 56]) -> PacketInfo {
        let word = |at: usize| -> u64 {
            u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"))
        };
        let (ports, options) = (word(4), word(5));
        PacketInfo {
            remote: SocketAddr::new(address([word(0), word(1)]), ports as u16),
            local: SocketAddr::new(address([word(2), word(3)]), (ports >> 16) as u16),
            interface: (ports >> 32) as u32,
            hops: options as u8,
            traffic_class: (options >> 8) as u8,
            flags: PacketFlags((options >> 16) as u8),
            fragment: Fragment::of((options >> 24) as u8),
            flow_label: (options >> 32) as u32 & 0xf_ffff,
            timestamp: word(6),
        }
    }
}

/// The first word of addresses is zero in IPv4-mapped ones (RFC 4291 §2.5.5.2), and so is half of the second,
/// up to these bits, which are in network order in memory.
const MAPPED: u64 = 0xffff << 32;

/// An address as two words in network order.
#[inline]
fn words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(v4) => [0, (MAPPED | u64::from(v4.to_bits())).to_be()],
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            [((bits >> 64) as u64).to_be(), (bits as u64).to_be()]
        }
    }
}

/// The inverse of [`words`].
#[inline]
fn address([first, second]: [u64; 2]) -> IpAddr {
    let second = u64::from_be(second);
    if first == 0 && second >> 32 == MAPPED >> 32 {
        return Ipv4Addr::from_bits(second as u32).into();
    }
    Ipv6Addr::from_bits(u128::from(u64::from_be(first)) << 64 | u128::from(second)).into()
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

        #[test]
        fn any_bytes_are_a_packet_info_that_is_stable(bytes in proptest::array::uniform32(any::<u8>())) {
            let mut whole = [0; 56];
            whole[..32].copy_from_slice(&bytes);
            whole[32..].copy_from_slice(&bytes[..24]);
            let info = PacketInfo::from_bytes(&whole);
            prop_assert_eq!(PacketInfo::from_bytes(&info.to_bytes()), info);
        }
    }
}
