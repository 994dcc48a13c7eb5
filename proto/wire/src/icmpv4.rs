//! ICMP for IPv4 (RFC 792): echo, unreachable, time exceeded, parameter problem.

pub use crate::icmp::{HEADER_LEN, IcmpHeader};

use crate::bytes::put;
use crate::icmp::{
    self, MTU, VALUE, Version, View, blank, lay_out, put_checksum, put_echo, unexpected,
};
use crate::{Layer, WireError, checksum};

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

/// A message and its data. An error's `quote` is the header and the first bytes of the datagram
/// that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are named and documented in RFC 792")]
pub enum IcmpRepr<'a> {
    /// Please answer with the same data.
    EchoRequest { ident: u16, seq: u16, data: &'a [u8] },
    /// The answer.
    EchoReply { ident: u16, seq: u16, data: &'a [u8] },
    /// Not delivered; `mtu` only has a meaning if the code is "fragmentation needed".
    Unreachable { code: u8, mtu: u16, quote: &'a [u8] },
    /// Expired in transit (code 0) or in reassembly (code 1).
    TimeExceeded { code: u8, quote: &'a [u8] },
    /// A field is wrong at byte `pointer` of the quoted header.
    ParameterProblem { code: u8, pointer: u8, quote: &'a [u8] },
}

impl<'a> IcmpRepr<'a> {
    /// The values in `view`.
    ///
    /// # Errors
    /// [`WireError::BadField`] for a type or code of another kind of message.
    pub fn parse(view: IcmpView<'a>) -> Result<Self, WireError> {
        let (h, data) = (view.header(), view.data());
        let (ident, seq, code) = (h.ident(), h.seq(), h.code());
        Ok(match (h.kind(), code) {
            (kind::ECHO_REQUEST, 0) => IcmpRepr::EchoRequest { ident, seq, data },
            (kind::ECHO_REPLY, 0) => IcmpRepr::EchoReply { ident, seq, data },
            (kind::UNREACHABLE, _) => IcmpRepr::Unreachable { code, mtu: h.mtu(), quote: data },
            (kind::TIME_EXCEEDED, _) => IcmpRepr::TimeExceeded { code, quote: data },
            (kind::PARAMETER_PROBLEM, _) => {
                IcmpRepr::ParameterProblem { code, pointer: h.pointer(), quote: data }
            }
            _ => return Err(unexpected::<V4>(h)),
        })
    }

    /// Bytes that [`emit`](Self::emit) writes: header and data.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.data().len()
    }

    /// Writes the message, checksum included, to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let message = lay_out::<V4>(buf, self.data(), |header| *header = self.header())?;
        put_checksum(message, checksum::finish(checksum::sum(message)));
        Ok(())
    }

    /// The header, its checksum zero.
    fn header(&self) -> [u8; HEADER_LEN] {
        let mut header = blank(self.kind(), self.code());
        match *self {
            IcmpRepr::EchoRequest { ident, seq, .. } | IcmpRepr::EchoReply { ident, seq, .. } => {
                put_echo(&mut header, ident, seq);
            }
            IcmpRepr::Unreachable { mtu, .. } => put(&mut header, MTU, mtu.to_be_bytes()),
            IcmpRepr::ParameterProblem { pointer, .. } => header[VALUE] = pointer,
            IcmpRepr::TimeExceeded { .. } => {}
        }
        header
    }

    const fn code(&self) -> u8 {
        match *self {
            IcmpRepr::EchoRequest { .. } | IcmpRepr::EchoReply { .. } => 0,
            IcmpRepr::Unreachable { code, .. }
            | IcmpRepr::TimeExceeded { code, .. }
            | IcmpRepr::ParameterProblem { code, .. } => code,
        }
    }

    /// The type that is emitted.
    pub const fn kind(&self) -> u8 {
        match self {
            IcmpRepr::EchoRequest { .. } => kind::ECHO_REQUEST,
            IcmpRepr::EchoReply { .. } => kind::ECHO_REPLY,
            IcmpRepr::Unreachable { .. } => kind::UNREACHABLE,
            IcmpRepr::TimeExceeded { .. } => kind::TIME_EXCEEDED,
            IcmpRepr::ParameterProblem { .. } => kind::PARAMETER_PROBLEM,
        }
    }

    /// Data or quote.
    pub const fn data(&self) -> &'a [u8] {
        match self {
            IcmpRepr::EchoRequest { data, .. } | IcmpRepr::EchoReply { data, .. } => data,
            IcmpRepr::Unreachable { quote, .. }
            | IcmpRepr::TimeExceeded { quote, .. }
            | IcmpRepr::ParameterProblem { quote, .. } => quote,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Icmpv4Slice, Icmpv4Type, icmpv4};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn emitted(repr: IcmpRepr<'_>) -> Vec<u8> {
        let mut buf = vec![0xee; repr.buffer_len()];
        repr.emit(&mut buf).unwrap();
        buf
    }

    fn every_kind(code: u8, a: u16, b: u16, data: &[u8]) -> [IcmpRepr<'_>; 5] {
        [
            IcmpRepr::EchoRequest { ident: a, seq: b, data },
            IcmpRepr::EchoReply { ident: a, seq: b, data },
            IcmpRepr::Unreachable { code, mtu: a, quote: data },
            IcmpRepr::TimeExceeded { code, quote: data },
            IcmpRepr::ParameterProblem { code, pointer: a as u8, quote: data },
        ]
    }

    proptest! {
        #[test]
        fn round_trip(code: u8, a: u16, b: u16, data in vec(any::<u8>(), 0..60)) {
            for repr in every_kind(code, a, b, &data) {
                let buf = emitted(repr);
                let view = IcmpView::new(&buf).unwrap();
                prop_assert!(view.checksum_ok());
                prop_assert_eq!(IcmpRepr::parse(view), Ok(repr));
            }
        }

        #[test]
        fn an_echo_agrees_with_etherparse(ident: u16, seq: u16, data in vec(any::<u8>(), 0..60)) {
            let buf = emitted(IcmpRepr::EchoRequest { ident, seq, data: &data });
            let theirs = Icmpv4Slice::from_slice(&buf).unwrap();
            let Icmpv4Type::EchoRequest(echo) = theirs.icmp_type() else { panic!("not an echo") };
            prop_assert_eq!((echo.id, echo.seq), (ident, seq));
            prop_assert_eq!(theirs.icmp_type().calc_checksum(&data), theirs.checksum());
        }

        #[test]
        fn a_request_becomes_its_reply(ident: u16, seq: u16, data in vec(any::<u8>(), 0..60)) {
            let mut buf = emitted(IcmpRepr::EchoRequest { ident, seq, data: &data });
            make_echo_reply(buf.first_chunk_mut().unwrap());
            let view = IcmpView::new(&buf).unwrap();
            prop_assert!(view.checksum_ok());
            prop_assert_eq!(IcmpRepr::parse(view), Ok(IcmpRepr::EchoReply { ident, seq, data: &data }));
        }

        #[test]
        fn any_bytes_parse_or_fail(bytes in vec(any::<u8>(), 0..40)) {
            match IcmpView::new(&bytes) {
                Ok(view) => {
                    let again = IcmpRepr::parse(view).map(|repr| emitted(repr)[0]);
                    prop_assert!(again.is_err() || again == Ok(bytes[0]));
                }
                Err(_) => prop_assert!(bytes.len() < HEADER_LEN),
            }
        }
    }

    #[test]
    fn fragmentation_needed_carries_the_mtu_where_rfc_1191_puts_it() {
        let code = unreachable::FRAGMENTATION_NEEDED;
        let buf = emitted(IcmpRepr::Unreachable { code, mtu: 1400, quote: &[] });
        let theirs = Icmpv4Slice::from_slice(&buf).unwrap().icmp_type();
        let wanted = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1400 };
        assert_eq!(theirs, Icmpv4Type::DestinationUnreachable(wanted));
    }

    #[test]
    fn numbers_are_those_of_rfc_792() {
        use unreachable::{FRAGMENTATION_NEEDED, HOST, NET, PORT, PROTOCOL, SOURCE_ROUTE};
        assert_eq!(
            [NET, HOST, PROTOCOL, PORT, FRAGMENTATION_NEEDED, SOURCE_ROUTE],
            [0, 1, 2, 3, 4, 5]
        );
    }

    #[test]
    fn unknown_types_count_as_errors() {
        let errors: Vec<u8> = (0..=255).filter(|&k| kind::is_error(k)).collect();
        assert!([3, 4, 5, 11, 12, 200].iter().all(|k| errors.contains(k)));
        assert!([0, 8, 13, 14, 17, 18].iter().all(|k| !errors.contains(k)));
    }
}
