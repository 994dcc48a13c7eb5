//! Causes of errors.

use weever_wire::icmpv4::{HEADER_LEN, kind, unreachable};

/// The cause of an error to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// RFC 1812 §5.2.7.1: no route, "a default route does not exist".
    NetUnreachable,
    /// A neighbour did not answer, or a route says so (RFC 1812 §5.2.7.1).
    HostUnreachable,
    /// RFC 1122 §3.2.2.1: "when the designated transport protocol is not supported".
    ProtocolUnreachable,
    /// RFC 1122 §3.2.2.1: "when the designated transport protocol (e.g., UDP) is unable to
    /// demultiplex the datagram but has no protocol mechanism to inform the sender".
    PortUnreachable,
    /// Longer than the next link takes, and not to be fragmented (RFC 1191 §4).
    FragmentationNeeded {
        /// Bytes that the next link takes.
        mtu: u16,
    },
    /// Forbidden by configuration.
    Prohibited,
    /// The time to live ran out at this hop.
    TimeExceeded,
    /// RFC 1122 §3.3.2: fragments of a datagram did not come in time.
    ReassemblyTimeExceeded,
    /// RFC 1122 §3.2.2.5: a header field is wrong at byte `pointer`.
    ParameterProblem {
        /// Which byte of the header.
        pointer: u8,
    },
}

/// The budget of [`ErrorLimits`](crate::limit::ErrorLimits) for errors of this type; `None`: they are
/// not sent.
pub const fn budget(kind: u8) -> Option<usize> {
    match kind {
        kind::UNREACHABLE => Some(0),
        kind::TIME_EXCEEDED => Some(1),
        kind::PARAMETER_PROBLEM => Some(2),
        kind::REDIRECT => Some(3),
        _ => None,
    }
}

/// RFC 792: code of a reassembly that took too long.
const REASSEMBLY: u8 = 1;

impl Cause {
    /// Type, code and the last two bytes or the first of the header's second half.
    const fn parts(self) -> (u8, u8, u16) {
        match self {
            Cause::NetUnreachable => (kind::UNREACHABLE, unreachable::NET, 0),
            Cause::HostUnreachable => (kind::UNREACHABLE, unreachable::HOST, 0),
            Cause::ProtocolUnreachable => (kind::UNREACHABLE, unreachable::PROTOCOL, 0),
            Cause::PortUnreachable => (kind::UNREACHABLE, unreachable::PORT, 0),
            Cause::FragmentationNeeded { mtu } => {
                (kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED, mtu)
            }
            Cause::Prohibited => (kind::UNREACHABLE, unreachable::PROHIBITED, 0),
            Cause::TimeExceeded => (kind::TIME_EXCEEDED, 0, 0),
            Cause::ReassemblyTimeExceeded => (kind::TIME_EXCEEDED, REASSEMBLY, 0),
            Cause::ParameterProblem { pointer } => (kind::PARAMETER_PROBLEM, 0, pointer as u16),
        }
    }

    /// The message's type.
    pub const fn kind(self) -> u8 {
        self.parts().0
    }

    /// The budget of [`ErrorLimits`](crate::limit::ErrorLimits) that the error takes from.
    pub const fn budget(self) -> Option<usize> {
        budget(self.kind())
    }

    /// The cause as a number other than zero, for a packet's metadata.
    pub const fn to_bits(self) -> u32 {
        let (kind, code, rest) = self.parts();
        (kind as u32) << 24 | (code as u32) << 16 | rest as u32
    }

    /// The cause that [`to_bits`](Self::to_bits) made `bits` of.
    pub const fn from_bits(bits: u32) -> Option<Cause> {
        let rest = bits as u16;
        Some(match ((bits >> 24) as u8, (bits >> 16) as u8) {
            (kind::UNREACHABLE, unreachable::NET) => Cause::NetUnreachable,
            (kind::UNREACHABLE, unreachable::HOST) => Cause::HostUnreachable,
            (kind::UNREACHABLE, unreachable::PROTOCOL) => Cause::ProtocolUnreachable,
            (kind::UNREACHABLE, unreachable::PORT) => Cause::PortUnreachable,
            (kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED) => {
                Cause::FragmentationNeeded { mtu: rest }
            }
            (kind::UNREACHABLE, unreachable::PROHIBITED) => Cause::Prohibited,
            (kind::TIME_EXCEEDED, 0) => Cause::TimeExceeded,
            (kind::TIME_EXCEEDED, REASSEMBLY) => Cause::ReassemblyTimeExceeded,
            (kind::PARAMETER_PROBLEM, 0) => Cause::ParameterProblem { pointer: rest as u8 },
            _ => return None,
        })
    }

    /// The first eight bytes of the message, its checksum zero.
    pub const fn header(self) -> [u8; HEADER_LEN] {
        let (kind, code, rest) = self.parts();
        let [high, low] = rest.to_be_bytes();
        match self {
            Cause::ParameterProblem { pointer } => [kind, code, 0, 0, pointer, 0, 0, 0],
            _ => [kind, code, 0, 0, 0, 0, high, low],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weever_wire::icmpv4::{IcmpRepr, IcmpView};

    #[test]
    fn numbers_and_headers_say_the_same() {
        for cause in [
            Cause::NetUnreachable,
            Cause::HostUnreachable,
            Cause::ProtocolUnreachable,
            Cause::PortUnreachable,
            Cause::FragmentationNeeded { mtu: 1400 },
            Cause::Prohibited,
            Cause::TimeExceeded,
            Cause::ReassemblyTimeExceeded,
            Cause::ParameterProblem { pointer: 21 },
        ] {
            assert_eq!(Cause::from_bits(cause.to_bits()), Some(cause));
            let header = cause.header();
            let view = IcmpView::new(&header).unwrap();
            assert_eq!((view.header().kind(), view.header().code() < 14), (cause.kind(), true));
            assert_eq!(u32::from_be_bytes([header[0], header[1], 0, 0]), cause.to_bits() & !0xffff);
        }
        assert_eq!(Cause::from_bits(0), None);
        let needed = Cause::FragmentationNeeded { mtu: 1400 }.header();
        let parsed = IcmpRepr::parse(IcmpView::new(&needed).unwrap());
        assert_eq!(parsed, Ok(IcmpRepr::Unreachable { code: 4, mtu: 1400, quote: &[] }));
        let problem = Cause::ParameterProblem { pointer: 21 }.header();
        let parsed = IcmpRepr::parse(IcmpView::new(&problem).unwrap());
        assert_eq!(parsed, Ok(IcmpRepr::ParameterProblem { code: 0, pointer: 21, quote: &[] }));
    }
}
