//! ICMP for IPv4 (RFC 792): echo, unreachable, time exceeded, parameter problem.

use crate::bytes::{be16, first, header, put};
use crate::checksum;
use crate::{Layer, WireError};

mod repr;
pub use repr::IcmpRepr;

/// Bytes before a message's data: type, code, checksum and four bytes that depend on the type.
pub const HEADER_LEN: usize = 8;

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: usize = 2;
const IDENT: usize = 4;
const SEQ: usize = 6;
const POINTER: usize = 4;
const MTU: usize = 6;

/// Message types.
pub mod kind {
    /// Answer to an echo.
    pub const ECHO_REPLY: u8 = 0;
    /// The datagram cannot be delivered.
    pub const UNREACHABLE: u8 = 3;
    /// Quench (RFC 6633: deprecated; still an error message).
    pub const SOURCE_QUENCH: u8 = 4;
    /// A better first hop.
    pub const REDIRECT: u8 = 5;
    /// Please answer.
    pub const ECHO_REQUEST: u8 = 8;
    /// The time to live or the reassembly ran out.
    pub const TIME_EXCEEDED: u8 = 11;
    /// A header field is wrong.
    pub const PARAMETER_PROBLEM: u8 = 12;

    /// Whether a message of this type reports an error (RFC 1122 §3.2.2). A type that nobody
    /// knows counts as one, so that we never answer it with an error of our own.
    pub const fn is_error(kind: u8) -> bool {
        !matches!(kind, ECHO_REPLY | ECHO_REQUEST | 9 | 10 | 13..=18 | 42 | 43)
    }
}

/// Codes of [`kind::UNREACHABLE`] (RFC 792, RFC 1122 §3.2.2.1).
pub mod unreachable {
    /// No route to the network.
    pub const NET: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The transport protocol is not there.
    pub const PROTOCOL: u8 = 2;
    /// Nobody listens on the port.
    pub const PORT: u8 = 3;
    /// Too long for the next link and not to be fragmented.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Source route failed.
    pub const SOURCE_ROUTE: u8 = 5;
    /// Forbidden by an administrator (RFC 1812 §5.2.7.1).
    pub const PROHIBITED: u8 = 13;
}

header! {
    /// The first eight bytes of a message; no value in them has been checked.
    IcmpHeader, HEADER_LEN
}

impl IcmpHeader<'_> {
    /// Type, see [`kind`].
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

    /// Where the wrong field is, of a parameter problem.
    #[inline]
    pub fn pointer(self) -> u8 {
        self.0[POINTER]
    }

    /// MTU of the next hop, of "fragmentation needed" (RFC 1191 §4).
    #[inline]
    pub fn mtu(self) -> u16 {
        be16(self.0, MTU)
    }
}

/// Makes a request into its reply and repairs the checksum (RFC 1624): RFC 792, "To form an echo
/// reply message, the source and destination addresses are simply reversed, the type code changed
/// to 0, and the checksum recomputed."
///
/// The addresses are in the IPv4 header: [`crate::ipv4::swap_addresses`].
#[inline]
pub fn make_echo_reply(header: &mut [u8; HEADER_LEN]) {
    let old = be16(header, TYPE);
    let new = u16::from(header[CODE]);
    let check = checksum::update16(be16(header, CHECKSUM), old, new);
    header[TYPE] = kind::ECHO_REPLY;
    put(header, CHECKSUM, check.to_be_bytes());
}

/// A message with at least a whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpView<'a> {
    header: IcmpHeader<'a>,
    message: &'a [u8],
}

impl<'a> IcmpView<'a> {
    /// Checks the length of the message, which is the whole payload of its datagram.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    #[inline]
    pub fn new(message: &'a [u8]) -> Result<Self, WireError> {
        Ok(Self { header: IcmpHeader(first(message, Layer::Icmpv4)?), message })
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

    /// What follows the header: an echo's data, or the datagram that an error quotes.
    #[inline]
    pub fn data(self) -> &'a [u8] {
        &self.message[HEADER_LEN..]
    }

    /// Whether the checksum over the whole message is right.
    #[inline]
    pub fn checksum_ok(self) -> bool {
        checksum::is_valid(checksum::sum(self.message))
    }
}

#[cfg(test)]
mod tests;
