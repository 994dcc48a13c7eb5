//! ICMPv6 (RFC 4443): echo and errors. Neighbour discovery ([`crate::ndp`]) and multicast listener
//! discovery ([`crate::mld`]) are messages of it with formats of their own.

pub use crate::icmp::{HEADER_LEN, IcmpHeader as Icmpv6Header};

use crate::bytes::put;
use crate::checksum::Pseudo;
use crate::icmp::{self, VALUE, Version, View, blank, lay_out, put_echo, unexpected};
use crate::ipv6::next_header;
use crate::{Layer, WireError};

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

/// A message and its data. An error's `quote` is as much of the packet that caused it as there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are named and documented in RFC 4443")]
pub enum Icmpv6Repr<'a> {
    /// Please answer with the same data.
    EchoRequest { ident: u16, seq: u16, data: &'a [u8] },
    /// The answer.
    EchoReply { ident: u16, seq: u16, data: &'a [u8] },
    /// Not delivered.
    Unreachable { code: u8, quote: &'a [u8] },
    /// Longer than a link on the way carries.
    PacketTooBig { mtu: u32, quote: &'a [u8] },
    /// Expired in transit (code 0) or in reassembly (code 1).
    TimeExceeded { code: u8, quote: &'a [u8] },
    /// A field is wrong at byte `pointer` of the quoted packet.
    ParameterProblem { code: u8, pointer: u32, quote: &'a [u8] },
}

impl<'a> Icmpv6Repr<'a> {
    /// The values in `view`. The code of "packet too big" is ignored (RFC 4443 §3.2).
    ///
    /// # Errors
    /// [`WireError::BadField`] for a type or code of another kind of message.
    pub fn parse(view: Icmpv6View<'a>) -> Result<Self, WireError> {
        let (h, data) = (view.header(), view.data());
        let (ident, seq, code) = (h.ident(), h.seq(), h.code());
        Ok(match (h.kind(), code) {
            (kind::ECHO_REQUEST, 0) => Icmpv6Repr::EchoRequest { ident, seq, data },
            (kind::ECHO_REPLY, 0) => Icmpv6Repr::EchoReply { ident, seq, data },
            (kind::UNREACHABLE, _) => Icmpv6Repr::Unreachable { code, quote: data },
            (kind::PACKET_TOO_BIG, _) => Icmpv6Repr::PacketTooBig { mtu: h.value(), quote: data },
            (kind::TIME_EXCEEDED, _) => Icmpv6Repr::TimeExceeded { code, quote: data },
            (kind::PARAMETER_PROBLEM, _) => {
                Icmpv6Repr::ParameterProblem { code, pointer: h.value(), quote: data }
            }
            _ => return Err(unexpected::<V6>(h)),
        })
    }

    /// Bytes that [`emit`](Self::emit) writes: header and data.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.data().len()
    }

    /// Writes the message to the front of `buf`, with its checksum between these addresses.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, buf: &mut [u8], addresses: &[u8; 32]) -> Result<(), WireError> {
        let message = lay_out::<V6>(buf, self.data(), |header| self.emit_header(header))?;
        fill_checksum(message, addresses);
        Ok(())
    }

    /// Writes the header alone, its checksum zero, in front of data that already stand there.
    pub fn emit_header(&self, header: &mut [u8; HEADER_LEN]) {
        *header = blank(self.kind(), self.code());
        match *self {
            Icmpv6Repr::EchoRequest { ident, seq, .. }
            | Icmpv6Repr::EchoReply { ident, seq, .. } => put_echo(header, ident, seq),
            Icmpv6Repr::PacketTooBig { mtu, .. } => put(header, VALUE, mtu.to_be_bytes()),
            Icmpv6Repr::ParameterProblem { pointer, .. } => {
                put(header, VALUE, pointer.to_be_bytes());
            }
            Icmpv6Repr::Unreachable { .. } | Icmpv6Repr::TimeExceeded { .. } => {}
        }
    }

    const fn code(&self) -> u8 {
        match *self {
            Icmpv6Repr::EchoRequest { .. }
            | Icmpv6Repr::EchoReply { .. }
            | Icmpv6Repr::PacketTooBig { .. } => 0,
            Icmpv6Repr::Unreachable { code, .. }
            | Icmpv6Repr::TimeExceeded { code, .. }
            | Icmpv6Repr::ParameterProblem { code, .. } => code,
        }
    }

    /// The type that is emitted.
    pub const fn kind(&self) -> u8 {
        match self {
            Icmpv6Repr::EchoRequest { .. } => kind::ECHO_REQUEST,
            Icmpv6Repr::EchoReply { .. } => kind::ECHO_REPLY,
            Icmpv6Repr::Unreachable { .. } => kind::UNREACHABLE,
            Icmpv6Repr::PacketTooBig { .. } => kind::PACKET_TOO_BIG,
            Icmpv6Repr::TimeExceeded { .. } => kind::TIME_EXCEEDED,
            Icmpv6Repr::ParameterProblem { .. } => kind::PARAMETER_PROBLEM,
        }
    }

    /// Data or quote.
    pub const fn data(&self) -> &'a [u8] {
        match self {
            Icmpv6Repr::EchoRequest { data, .. } | Icmpv6Repr::EchoReply { data, .. } => data,
            Icmpv6Repr::Unreachable { quote, .. }
            | Icmpv6Repr::PacketTooBig { quote, .. }
            | Icmpv6Repr::TimeExceeded { quote, .. }
            | Icmpv6Repr::ParameterProblem { quote, .. } => quote,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Icmpv6Header as Oracle, Icmpv6Type};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn any_message(data: &[u8]) -> impl Iterator<Item = Icmpv6Repr<'_>> {
        [
            Icmpv6Repr::EchoRequest { ident: 0x1234, seq: 9, data },
            Icmpv6Repr::EchoReply { ident: 1, seq: 0xffff, data },
            Icmpv6Repr::Unreachable { code: unreachable::PORT, quote: data },
            Icmpv6Repr::PacketTooBig { mtu: 0x1_2345, quote: data },
            Icmpv6Repr::TimeExceeded { code: 1, quote: data },
            Icmpv6Repr::ParameterProblem { code: 2, pointer: 0x1_0007, quote: data },
        ]
        .into_iter()
    }

    fn written(repr: Icmpv6Repr<'_>, addresses: &[u8; 32]) -> Vec<u8> {
        let mut buf = std::vec![0xee; repr.buffer_len()];
        repr.emit(&mut buf, addresses).unwrap();
        buf
    }

    proptest! {
        #[test]
        fn round_trip_and_checksum_agree_with_etherparse(
            data in vec(any::<u8>(), 0..100), src: [u8; 16], dst: [u8; 16],
        ) {
            let addresses: [u8; 32] = [src, dst].concat().try_into().unwrap();
            for repr in any_message(&data) {
                let buf = written(repr, &addresses);
                prop_assert!(checksum_ok(&buf, &addresses));
                prop_assert_eq!(Icmpv6Repr::parse(Icmpv6View::new(&buf).unwrap()), Ok(repr));
                let (mut theirs, rest) = Oracle::from_slice(&buf).unwrap();
                let field = theirs.checksum;
                theirs.update_checksum(src, dst, rest).unwrap();
                prop_assert_eq!(field, theirs.checksum);
            }
        }

        #[test]
        fn damage_is_noticed(data in vec(any::<u8>(), 1..60), at in 8usize..67, bit in 0u8..8) {
            let addresses = [7; 32];
            let mut buf = written(Icmpv6Repr::EchoRequest { ident: 1, seq: 2, data: &data }, &addresses);
            let at = at % buf.len();
            buf[at] ^= 1 << bit;
            prop_assert!(!checksum_ok(&buf, &addresses));
        }

        #[test]
        fn a_reply_made_in_place_is_the_reply(data in vec(any::<u8>(), 0..60), swap: [u8; 32]) {
            let mut buf = written(Icmpv6Repr::EchoRequest { ident: 1, seq: 2, data: &data }, &swap);
            make_echo_reply(buf.first_chunk_mut().unwrap());
            let mut back = [0; 32];
            back[..16].copy_from_slice(&swap[16..]);
            back[16..].copy_from_slice(&swap[..16]);
            prop_assert_eq!(buf, written(Icmpv6Repr::EchoReply { ident: 1, seq: 2, data: &data }, &back));
        }

        #[test]
        fn any_bytes_are_no_panic(bytes in vec(any::<u8>(), 0..40)) {
            if let Ok(view) = Icmpv6View::new(&bytes) {
                let _ = Icmpv6Repr::parse(view);
            }
            fill_checksum(&mut bytes.clone(), &[0; 32]);
        }
    }

    #[test]
    fn etherparse_agrees_on_types() {
        let addresses = [0; 32];
        let buf = written(Icmpv6Repr::PacketTooBig { mtu: 1280, quote: &[1, 2] }, &addresses);
        let (header, _) = Oracle::from_slice(&buf).unwrap();
        assert!(matches!(header.icmp_type, Icmpv6Type::PacketTooBig { mtu: 1280 }));
        assert!(kind::is_error(kind::PARAMETER_PROBLEM) && !kind::is_error(kind::ECHO_REQUEST));
    }
}
