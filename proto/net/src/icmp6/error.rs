//! Sending errors: when one may be sent, its message, and how much it quotes.

use weever_wire::icmpv6::{HEADER_LEN, Icmpv6Repr, kind, problem, unreachable};
use weever_wire::ipv6::{self, Chain, ChainFault, Ipv6Header, OptionReport, next_header};

use crate::fragment::{Piece, Reject};
use crate::ipv6::MIN_MTU;

/// Bytes of the longest packet that reports an error: RFC 4443 §2.4(c), as much of the offending
/// one "as possible without making the ICMPv6 packet exceed the minimum IPv6 MTU".
pub const MAX_ERROR_LEN: usize = MIN_MTU as usize;

/// Where the payload length stands in a header.
const PAYLOAD_LENGTH: u32 = 4;
/// Where the offset stands in a fragment header.
const FRAGMENT_OFFSET: usize = 2;
const MAX_QUOTE: usize = MAX_ERROR_LEN - ipv6::HEADER_LEN - HEADER_LEN;

/// The cause of an error to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// There is no route to the destination.
    NoRoute,
    /// Forbidden by configuration.
    Prohibited,
    /// The source's scope does not reach the destination.
    BeyondScope,
    /// A neighbour did not answer.
    AddressUnreachable,
    /// The port is closed.
    PortUnreachable,
    /// The next link carries no more than this.
    PacketTooBig {
        /// Its MTU.
        mtu: u32,
    },
    /// The hop limit ran out on our way.
    HopLimitExceeded,
    /// Not every fragment came in time.
    ReassemblyExceeded,
    /// A header field is wrong.
    HeaderField {
        /// Which byte of the packet.
        pointer: u32,
    },
    /// The next header is unknown.
    NextHeader {
        /// Which byte of the packet names it.
        pointer: u32,
    },
    /// A first fragment has not all headers up to the transport's (RFC 7112 §5).
    IncompleteChain,
    /// An option is unknown.
    Option {
        /// Which byte of the packet names it.
        pointer: u32,
        /// Whether it is reported even if the packet was sent to a group.
        even_to_group: bool,
    },
}

impl Cause {
    /// The cause to report for a fault in a chain of extension headers, if any. Packets beyond our own
    /// bounds are dropped silently: RFC 8883 reports them, but does not oblige to.
    pub const fn of_chain(fault: ChainFault) -> Option<Cause> {
        match fault {
            ChainFault::HopByHopNotFirst { pointer } => {
                Some(Cause::NextHeader { pointer: pointer as u32 })
            }
            ChainFault::Routing { pointer } => Some(Cause::HeaderField { pointer: pointer as u32 }),
            ChainFault::Option { pointer, report: OptionReport::Always } => {
                Some(Cause::Option { pointer: pointer as u32, even_to_group: true })
            }
            ChainFault::Option { pointer, report: OptionReport::UnlessGroup } => {
                Some(Cause::Option { pointer: pointer as u32, even_to_group: false })
            }
            _ => None,
        }
    }

    /// The error due for a fragment that was not taken (RFC 8200 §4.5, RFC 7112 §5), of `packet`
    /// that it is.
    pub fn of_fragment(reject: Reject, packet: &[u8]) -> Option<Cause> {
        match reject {
            Reject::Misaligned => Some(Cause::HeaderField { pointer: PAYLOAD_LENGTH }),
            Reject::TooLong => {
                let at = Piece::header_at(packet)? + FRAGMENT_OFFSET;
                Some(Cause::HeaderField { pointer: at as u32 })
            }
            Reject::Tiny => Some(Cause::IncompleteChain),
            _ => None,
        }
    }

    /// The message about this quotation.
    pub fn repr(self, quote: &[u8]) -> Icmpv6Repr<'_> {
        let unreachable = |code| Icmpv6Repr::Unreachable { code, quote };
        let problem = |code, pointer| Icmpv6Repr::ParameterProblem { code, pointer, quote };
        match self {
            Cause::NoRoute => unreachable(unreachable::NO_ROUTE),
            Cause::Prohibited => unreachable(unreachable::PROHIBITED),
            Cause::BeyondScope => unreachable(unreachable::BEYOND_SCOPE),
            Cause::AddressUnreachable => unreachable(unreachable::ADDRESS),
            Cause::PortUnreachable => unreachable(unreachable::PORT),
            Cause::PacketTooBig { mtu } => Icmpv6Repr::PacketTooBig { mtu, quote },
            Cause::HopLimitExceeded => Icmpv6Repr::TimeExceeded { code: 0, quote },
            Cause::ReassemblyExceeded => Icmpv6Repr::TimeExceeded { code: 1, quote },
            Cause::HeaderField { pointer } => problem(problem::HEADER_FIELD, pointer),
            Cause::NextHeader { pointer } => problem(problem::NEXT_HEADER, pointer),
            Cause::IncompleteChain => problem(problem::INCOMPLETE_CHAIN, 0),
            Cause::Option { pointer, .. } => problem(problem::OPTION, pointer),
        }
    }

    /// The message's type.
    pub fn kind(self) -> u8 {
        self.repr(&[]).kind()
    }

    /// RFC 4443 §2.4(e.3): errors that are sent even about packets to a group.
    const fn even_to_group(self) -> bool {
        matches!(self, Cause::PacketTooBig { .. } | Cause::Option { even_to_group: true, .. })
    }
}

/// Why an error must not be reported: RFC 4443 §2.4(e), "An ICMPv6 error message MUST NOT be
/// originated as a result of receiving" any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Silence {
    /// The packet is shorter than its header, or its type cannot be told.
    #[error("no whole header to quote")]
    Truncated,
    /// "An ICMPv6 error message", or "an ICMPv6 redirect message".
    #[error("about an ICMPv6 error or redirect")]
    AboutAnError,
    /// "A packet destined to an IPv6 multicast address".
    #[error("about a packet to a group")]
    ToGroup,
    /// "A packet sent as a link-layer multicast" or broadcast.
    #[error("about a packet to a group of stations")]
    LinkGroup,
    /// "A packet whose source address does not uniquely identify a single node".
    #[error("about a packet from no single node")]
    SourceNotANode,
}

/// Whether `cause` may be reported about `packet`; `link_group` says that its frame was sent to a
/// group of stations.
///
/// # Errors
/// The rule which forbids it.
pub fn may_report(cause: Cause, packet: &[u8], link_group: bool) -> Result<(), Silence> {
    let header = Ipv6Header::first(packet).ok_or(Silence::Truncated)?;
    let src = header.src();
    if header.dst().is_multicast() && !cause.even_to_group() {
        Err(Silence::ToGroup)
    } else if link_group && !cause.even_to_group() {
        Err(Silence::LinkGroup)
    } else if src.is_unspecified() || src.is_multicast() || src.is_loopback() {
        Err(Silence::SourceNotANode)
    } else if is_error(packet)? {
        Err(Silence::AboutAnError)
    } else {
        Ok(())
    }
}

/// Whether a packet may be an ICMPv6 error; a message without a type could be anything. Later
/// fragments tell nothing, and are no longer looked at where errors are reported.
fn is_error(packet: &[u8]) -> Result<bool, Silence> {
    let Some((protocol, offset)) = Chain::skim(packet) else { return is_error_later(packet) };
    if protocol != next_header::ICMPV6 {
        return Ok(false);
    }
    Ok(packet.get(offset).is_none_or(|&kind| kind::is_error(kind) || kind == kind::REDIRECT))
}

/// The same of a later fragment, which names the protocol of its datagram.
fn is_error_later(packet: &[u8]) -> Result<bool, Silence> {
    let protocol = Piece::header_at(packet).and_then(|at| packet.get(at));
    match protocol {
        Some(&protocol) if protocol != next_header::ICMPV6 && !ipv6::is_extension(protocol) => {
            Ok(false)
        }
        _ => Err(Silence::Truncated),
    }
}

/// How much of `packet` an error quotes; not the padding of a short frame.
pub fn quote_len(packet: &[u8]) -> usize {
    let said = Ipv6Header::first(packet).map_or(0, |header| header.payload_len());
    packet.len().min(ipv6::HEADER_LEN + said).min(MAX_QUOTE)
}

/// The budget of [`ErrorLimits`](crate::limit::ErrorLimits) for errors of this type (RFC 4443 §2.4(f)), or
/// for redirects; `None`: they are not sent.
pub const fn budget(kind: u8) -> Option<usize> {
    match kind {
        kind::UNREACHABLE..=kind::PARAMETER_PROBLEM => Some((kind - 1) as usize),
        kind::REDIRECT => Some(4),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv6::template;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;

    const US: &str = "2001:db8::1";
    const PEER: &str = "2001:db8::2";

    fn packet(src: &str, dst: &str, next: u8, payload: &[u8]) -> Vec<u8> {
        let repr = template(src.parse().unwrap(), dst.parse().unwrap(), next, payload.len() as u16);
        let mut packet = [0; 40].to_vec();
        repr.emit(&mut packet).unwrap();
        packet.extend_from_slice(payload);
        packet
    }

    #[test]
    fn every_silence() {
        let ask = |packet: &[u8], group| may_report(Cause::PortUnreachable, packet, group).err();
        let fine = packet(PEER, US, 17, &[0; 8]);
        assert_eq!(ask(&fine, false), None);
        assert_eq!(ask(&fine, true), Some(Silence::LinkGroup));
        assert_eq!(ask(&fine[..39], false), Some(Silence::Truncated));
        assert_eq!(ask(&packet(PEER, "ff02::1", 17, &[0; 8]), false), Some(Silence::ToGroup));
        for src in ["::", "::1", "ff02::9"] {
            assert_eq!(ask(&packet(src, US, 17, &[0; 8]), false), Some(Silence::SourceNotANode));
        }
        for kind in [1, 2, 3, 4, 100, kind::REDIRECT] {
            assert_eq!(ask(&packet(PEER, US, 58, &[kind]), false), Some(Silence::AboutAnError));
            let hidden = [58, 0, 1, 4, 0, 0, 0, 0, kind];
            assert_eq!(ask(&packet(PEER, US, 60, &hidden), false), Some(Silence::AboutAnError));
        }
        assert_eq!(ask(&packet(PEER, US, 58, &[]), false), Some(Silence::AboutAnError));
        assert_eq!(ask(&packet(PEER, US, 58, &[kind::ECHO_REQUEST]), false), None);
        // A later fragment names only the protocol of its datagram.
        for (of, silence) in
            [(17, None), (58, Some(Silence::Truncated)), (60, Some(Silence::Truncated))]
        {
            let later = packet(PEER, US, 44, &[of, 0, 1, 0, 0, 0, 0, 0]);
            assert_eq!(ask(&later, false), silence, "of {of}");
        }
    }

    #[test]
    fn two_causes_are_reported_to_senders_to_groups() {
        let to_group = packet(PEER, "ff0e::5", 17, &[0; 8]);
        for (cause, told) in [
            (Cause::PacketTooBig { mtu: 1280 }, true),
            (Cause::Option { pointer: 42, even_to_group: true }, true),
            (Cause::Option { pointer: 42, even_to_group: false }, false),
            (Cause::NextHeader { pointer: 6 }, false),
        ] {
            assert_eq!(may_report(cause, &to_group, true).is_ok(), told, "{cause:?}");
        }
    }

    #[test]
    fn faults_of_chains() {
        let of = Cause::of_chain;
        assert_eq!(of(ChainFault::Truncated), None);
        assert_eq!(of(ChainFault::TooMany), None);
        assert_eq!(of(ChainFault::Option { pointer: 42, report: OptionReport::Never }), None);
        let silent = Cause::Option { pointer: 42, even_to_group: false };
        assert_eq!(
            of(ChainFault::Option { pointer: 42, report: OptionReport::UnlessGroup }),
            Some(silent)
        );
        assert_eq!(
            of(ChainFault::Routing { pointer: 42 }),
            Some(Cause::HeaderField { pointer: 42 })
        );
        let first = ChainFault::HopByHopNotFirst { pointer: 40 };
        assert_eq!(of(first), Some(Cause::NextHeader { pointer: 40 }));
    }

    #[test]
    fn each_type_has_its_budget() {
        let kinds =
            [kind::UNREACHABLE, kind::PACKET_TOO_BIG, kind::PARAMETER_PROBLEM, kind::REDIRECT];
        assert_eq!(kinds.map(budget), [Some(0), Some(1), Some(3), Some(4)]);
        assert_eq!([budget(kind::ECHO_REPLY), budget(0)], [None, None]);
    }

    proptest! {
        #[test]
        fn an_error_quotes_what_fits_and_is_never_answered(
            payload in vec(any::<u8>(), 0..1600), padding in 0usize..20,
        ) {
            let mut about = packet(PEER, US, 17, &payload);
            about.resize(about.len() + padding, 0);
            let len = quote_len(&about);
            prop_assert_eq!(len, (40 + payload.len()).min(1232));
            for cause in [Cause::PortUnreachable, Cause::PacketTooBig { mtu: 1400 }, Cause::HopLimitExceeded] {
                let repr = cause.repr(&about[..len]);
                let mut message = std::vec![0; repr.buffer_len()];
                repr.emit(&mut message, &[0; 32]).unwrap();
                prop_assert!(40 + message.len() <= MAX_ERROR_LEN);
                let error = packet(US, PEER, next_header::ICMPV6, &message);
                prop_assert!(may_report(Cause::NoRoute, &error, false).is_err());
            }
        }
    }
}
