//! ICMPv6 (RFC 4443): echo and errors. Neighbour discovery ([`crate::ndp`]) and multicast listener
//! discovery ([`crate::mld`]) are messages of it with formats of their own.

use crate::Layer;
use crate::checksum::Pseudo;
use crate::icmp::{self, Version, View};
use crate::ipv6::next_header;

mod repr;
pub use crate::icmp::{HEADER_LEN, IcmpHeader as Icmpv6Header};
pub use repr::Icmpv6Repr;

/// ICMP for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V6;

impl Version for V6 {
    const LAYER: Layer = Layer::Icmpv6;
    const ECHO: (u8, u8) = (kind::ECHO_REQUEST, kind::ECHO_REPLY);
}

/// A message with at least a whole header.
pub type Icmpv6View<'a> = View<'a, V6>;

/// Message types.
pub mod kind {
    /// The packet cannot be delivered.
    pub const UNREACHABLE: u8 = 1;
    /// The packet is longer than the next link's MTU.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// The hop limit or the reassembly ran out.
    pub const TIME_EXCEEDED: u8 = 3;
    /// A header field is wrong.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Please answer.
    pub const ECHO_REQUEST: u8 = 128;
    /// The answer.
    pub const ECHO_REPLY: u8 = 129;
    /// Which groups are listened to? (RFC 3810)
    pub const MLD_QUERY: u8 = 130;
    /// A group is listened to (RFC 2710).
    pub const MLDV1_REPORT: u8 = 131;
    /// A group is left (RFC 2710).
    pub const MLDV1_DONE: u8 = 132;
    /// Please advertise, routers (RFC 4861).
    pub const ROUTER_SOLICIT: u8 = 133;
    /// A router advertises itself and its prefixes.
    pub const ROUTER_ADVERT: u8 = 134;
    /// Neighbour solicitation.
    pub const NEIGHBOUR_SOLICIT: u8 = 135;
    /// I have it.
    pub const NEIGHBOUR_ADVERT: u8 = 136;
    /// A better first hop.
    pub const REDIRECT: u8 = 137;
    /// Groups that are listened to (RFC 3810).
    pub const MLDV2_REPORT: u8 = 143;

    /// Whether a message of this type reports an error: RFC 4443 §2.1, "error messages have
    /// message types from 0 to 127".
    pub const fn is_error(kind: u8) -> bool {
        kind < 128
    }
}

/// Codes of [`kind::UNREACHABLE`] (RFC 4443 §3.1).
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Forbidden by an administrator.
    pub const PROHIBITED: u8 = 1;
    /// The source's scope does not reach the destination.
    pub const BEYOND_SCOPE: u8 = 2;
    /// The neighbour does not answer.
    pub const ADDRESS: u8 = 3;
    /// The port is closed.
    pub const PORT: u8 = 4;
}

/// Codes of [`kind::PARAMETER_PROBLEM`] (RFC 4443 §3.4, RFC 7112).
pub mod problem {
    /// A field has an impossible value.
    pub const HEADER_FIELD: u8 = 0;
    /// An unknown next header.
    pub const NEXT_HEADER: u8 = 1;
    /// An unknown option.
    pub const OPTION: u8 = 2;
    /// A first fragment without the whole chain of headers.
    pub const INCOMPLETE_CHAIN: u8 = 3;
}

/// Makes a request into its reply and repairs the checksum (RFC 1624). The addresses, whose sum
/// their exchange leaves alone, are in the IPv6 header, which is the caller's.
#[inline]
pub fn make_echo_reply(header: &mut [u8; HEADER_LEN]) {
    icmp::make_echo_reply::<V6>(header);
}

/// Whether the checksum of a message between these addresses (source, then destination) is right.
#[inline]
pub fn checksum_ok(message: &[u8], addresses: &[u8; 32]) -> bool {
    pseudo(message.len(), addresses).verifies(message)
}

/// Writes the checksum of a whole message between these addresses; nothing if it is shorter than a
/// header.
#[inline]
pub fn fill_checksum(message: &mut [u8], addresses: &[u8; 32]) {
    if message.len() >= HEADER_LEN {
        icmp::put_checksum(message, 0);
        icmp::put_checksum(message, pseudo(message.len(), addresses).checksum(message));
    }
}

fn pseudo(len: usize, addresses: &[u8; 32]) -> Pseudo {
    Pseudo::v6(addresses, next_header::ICMPV6, len as u32)
}

#[cfg(test)]
mod tests;
