//! ICMP for IPv4 (RFC 792): echo, unreachable, time exceeded, parameter problem.

use crate::icmp::{self, Version, View};
use crate::{Layer, checksum};

mod repr;
pub use crate::icmp::{HEADER_LEN, IcmpHeader};
pub use repr::IcmpRepr;

/// ICMP for IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V4;

impl Version for V4 {
    const LAYER: Layer = Layer::Icmpv4;
    const ECHO: (u8, u8) = (kind::ECHO_REQUEST, kind::ECHO_REPLY);
}

/// A message with at least a whole header.
pub type IcmpView<'a> = View<'a, V4>;

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

    /// Whether a message of this type reports an error (RFC 1122 §3.2.2). An unknown type counts as
    /// one, so that we never answer it with an error of our own.
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
    /// The port is closed.
    pub const PORT: u8 = 3;
    /// Too long for the next link and not to be fragmented.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Source route failed.
    pub const SOURCE_ROUTE: u8 = 5;
    /// Forbidden by an administrator (RFC 1812 §5.2.7.1).
    pub const PROHIBITED: u8 = 13;
}

/// Makes a request into its reply and repairs the checksum (RFC 1624): RFC 792, "To form an echo
/// reply message, the source and destination addresses are simply reversed, the type code changed
/// to 0, and the checksum recomputed."
///
/// The addresses are in the IPv4 header, which is the caller's.
#[inline]
pub fn make_echo_reply(header: &mut [u8; HEADER_LEN]) {
    icmp::make_echo_reply::<V4>(header);
}

impl IcmpView<'_> {
    /// Whether the checksum over the whole message is right.
    #[inline]
    pub fn checksum_ok(self) -> bool {
        checksum::is_valid(checksum::sum(self.message()))
    }
}

#[cfg(test)]
mod tests;
