//! The common parts of both versions of ICMP ([`crate::icmpv4`], [`crate::icmpv6`]): the header,
//! messages as a whole, and echo.

use core::marker::PhantomData;

use crate::bytes::{be16, be32, first, header, put};
use crate::{Layer, WireError, checksum};

/// Bytes before a message's data: type, code, checksum and four bytes that depend on the type.
pub const HEADER_LEN: usize = 8;

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: usize = 2;
const IDENT: usize = 4;
const SEQ: usize = 6;
/// The four bytes that depend on the type, and their halves.
pub(crate) const VALUE: usize = 4;
pub(crate) const MTU: usize = 6;

header! {
    /// The first eight bytes of a message of either version; no value in them has been checked.
    IcmpHeader, HEADER_LEN
}

impl IcmpHeader<'_> {
    /// Type.
    #[inline]
    pub fn kind(self) -> u8 {
        self.0[TYPE]
    }

    /// Code.
    #[inline]
    pub fn code(self) -> u8 {
        self.0[CODE]
    }

    /// Checksum field.
    #[inline]
    pub fn checksum(self) -> u16 {
        be16(self.0, CHECKSUM)
    }

    /// Identifier of an echo.
    #[inline]
    pub fn ident(self) -> u16 {
        be16(self.0, IDENT)
    }

    /// Sequence number of an echo.
    #[inline]
    pub fn seq(self) -> u16 {
        be16(self.0, SEQ)
    }

    /// ICMPv4: where the wrong field is, of a parameter problem.
    #[inline]
    pub fn pointer(self) -> u8 {
        self.0[VALUE]
    }

    /// ICMPv4: MTU of the next hop, of "fragmentation needed" (RFC 1191 §4).
    #[inline]
    pub fn mtu(self) -> u16 {
        be16(self.0, MTU)
    }

    /// ICMPv6: MTU of the next hop, of "packet too big"; where the wrong field is, of a parameter
    /// problem.
    #[inline]
    pub fn value(self) -> u32 {
        be32(self.0, VALUE)
    }
}

/// A version of the protocol.
pub trait Version: Copy {
    /// Its name, for errors.
    const LAYER: Layer;
    /// The types of an echo, and of its answer.
    const ECHO: (u8, u8);
}

/// A message with at least a whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a, V> {
    header: IcmpHeader<'a>,
    message: &'a [u8],
    version: PhantomData<V>,
}

impl<'a, V: Version> View<'a, V> {
    /// Checks the length of the message, which is the whole payload of its packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    #[inline]
    pub fn new(message: &'a [u8]) -> Result<Self, WireError> {
        let header = IcmpHeader(first(message, V::LAYER)?);
        Ok(Self { header, message, version: PhantomData })
    }

    /// The header.
    #[inline]
    pub fn header(self) -> IcmpHeader<'a> {
        self.header
    }

    /// Header and data.
    #[inline]
    pub fn message(self) -> &'a [u8] {
        self.message
    }

    /// The bytes behind the header: an echo's data, or the packet that an error quotes.
    #[inline]
    pub fn data(self) -> &'a [u8] {
        &self.message[HEADER_LEN..]
    }
}

/// Makes an echo into its answer and repairs the checksum (RFC 1624). The addresses, whose sum the
/// exchange leaves alone, are in the IP header.
#[inline]
pub(crate) fn make_echo_reply<V: Version>(header: &mut [u8; HEADER_LEN]) {
    let old = be16(header, TYPE);
    let (_, reply) = V::ECHO;
    let new = u16::from(reply) << 8 | u16::from(header[CODE]);
    let check = checksum::update16(be16(header, CHECKSUM), old, new);
    header[TYPE] = reply;
    put(header, CHECKSUM, check.to_be_bytes());
}

/// The front of `buf` with `data` behind the room for a header, whose checksum is zero when
/// `header` has written it.
pub(crate) fn lay_out<'b, V: Version>(
    buf: &'b mut [u8],
    data: &[u8],
    header: impl FnOnce(&mut [u8; HEADER_LEN]),
) -> Result<&'b mut [u8], WireError> {
    let (need, have) = (HEADER_LEN + data.len(), buf.len());
    let no_room = WireError::NoRoom { layer: V::LAYER, need, have };
    let message = buf.get_mut(..need).ok_or(no_room)?;
    if let Some((place, rest)) = message.split_first_chunk_mut() {
        header(place);
        rest.copy_from_slice(data);
    }
    Ok(message)
}

/// Writes the checksum of a whole message of at least a header.
pub(crate) fn put_checksum(message: &mut [u8], check: u16) {
    message[CHECKSUM..CHECKSUM + 2].copy_from_slice(&check.to_be_bytes());
}

/// A header of this type, all the rest of which is zero.
pub(crate) fn blank(kind: u8, code: u8) -> [u8; HEADER_LEN] {
    [kind, code, 0, 0, 0, 0, 0, 0]
}

/// Writes the fields that tell echoes apart.
pub(crate) fn put_echo(header: &mut [u8; HEADER_LEN], ident: u16, seq: u16) {
    put(header, IDENT, ident.to_be_bytes());
    put(header, SEQ, seq.to_be_bytes());
}

/// Why a type or a code cannot be a value: it is of another kind of message.
pub(crate) fn unexpected<V: Version>(header: IcmpHeader<'_>) -> WireError {
    let is_echo = header.kind() == V::ECHO.0 || header.kind() == V::ECHO.1;
    let (field, value) = if is_echo { ("code", header.code()) } else { ("type", header.kind()) };
    WireError::BadField { layer: V::LAYER, field, value: value.into() }
}
