//! Sending errors: when one may be sent, its message, and how much it quotes.

use weever_wire::icmpv6::{HEADER_LEN, Icmpv6Repr, kind, problem, unreachable};
use weever_wire::ipv6::{self, Chain, ChainFault, Ipv6Header, Report, next_header};

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
            ChainFault::Option { pointer, report: Report::Always } => {
                Some(Cause::Option { pointer: pointer as u32, even_to_group: true })
            }
            ChainFault::Option { pointer, report: Report::UnlessGroup } => {
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
mod tests;
