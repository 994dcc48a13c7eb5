//! Whether to report an error, and how often; and how the cause travels to where it is written.

use std::net::Ipv6Addr;

use weever_block::{Buffer, Nanos};
use weever_net::icmp6::{Cause, budget, may_report};
use weever_net::limit::ErrorLimits;
use weever_net::random::Key;
use weever_net::state::IcmpRates;
use weever_packet::Flags;
use weever_wire::icmpv6::{Icmpv6Repr, kind};
use weever_wire::ipv6::Ipv6Header;

use crate::kinds::between;

/// Its name, for the error of a graph without it.
pub(crate) const LIMITS: &str = "the host's budget of ICMPv6 errors";

/// The budget of ICMPv6 errors of a host, shared by all workers without a lock.
#[derive(Debug)]
pub struct Icmp6Limits(ErrorLimits);

/// Whether an error goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does; the packet's metadata have the error.
    Tell,
    /// It must not.
    Silent,
    /// Too many did lately.
    Limited,
}

impl Icmp6Limits {
    /// A full budget; `key` is a secret.
    pub fn new(key: Key) -> Icmp6Limits {
        Icmp6Limits(ErrorLimits::new(key))
    }

    /// Whether a redirect may be sent to `to` now.
    pub(crate) fn grant_redirect(&self, to: Ipv6Addr, now: Nanos) -> bool {
        self.0.take(IcmpRates::default(), budget(kind::REDIRECT), to.into(), now)
    }

    /// Whether `cause` is reported about the packet, which then carries it in its metadata.
    pub(crate) fn judge(&self, packet: &mut Buffer, cause: Cause, now: Nanos) -> Verdict {
        let meta = packet.meta();
        let about = between(packet, meta.l3, meta.end);
        if may_report(cause, about, meta.flags.has(Flags::LINK_BROADCAST)).is_err() {
            return Verdict::Silent;
        }
        let Some(header) = Ipv6Header::first(about) else { return Verdict::Silent };
        let to = header.src().into();
        if !self.0.take(IcmpRates::default(), budget(cause.kind()), to, now) {
            return Verdict::Limited;
        }
        packet.meta_mut().entry = pack(cause);
        Verdict::Tell
    }
}

/// Type, code and value of an error in the word that the metadata have for a table's entry.
fn pack(cause: Cause) -> u32 {
    let repr = cause.repr(&[]);
    let (code, value) = match repr {
        Icmpv6Repr::Unreachable { code, .. } | Icmpv6Repr::TimeExceeded { code, .. } => (code, 0),
        Icmpv6Repr::PacketTooBig { mtu, .. } => (0, mtu),
        Icmpv6Repr::ParameterProblem { code, pointer, .. } => (code, pointer),
        _ => (0, 0),
    };
    u32::from(repr.kind()) << 24 | u32::from(code) << 16 | value.min(0xffff)
}

/// The message that [`pack`] stands for, about this quotation.
pub(super) fn unpack(word: u32, quote: &[u8]) -> Option<Icmpv6Repr<'_>> {
    let [said, code, a, b] = word.to_be_bytes();
    let value = u32::from(u16::from_be_bytes([a, b]));
    Some(match said {
        kind::UNREACHABLE => Icmpv6Repr::Unreachable { code, quote },
        kind::PACKET_TOO_BIG => Icmpv6Repr::PacketTooBig { mtu: value, quote },
        kind::TIME_EXCEEDED => Icmpv6Repr::TimeExceeded { code, quote },
        kind::PARAMETER_PROBLEM => Icmpv6Repr::ParameterProblem { code, pointer: value, quote },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_travels() {
        for cause in [
            Cause::NoRoute,
            Cause::Prohibited,
            Cause::PortUnreachable,
            Cause::PacketTooBig { mtu: 1400 },
            Cause::HopLimitExceeded,
            Cause::ReassemblyExceeded,
            Cause::HeaderField { pointer: 42 },
            Cause::NextHeader { pointer: 6 },
            Cause::IncompleteChain,
            Cause::Option { pointer: 44, even_to_group: true },
        ] {
            assert_eq!(unpack(pack(cause), b"quote"), Some(cause.repr(b"quote")), "{cause:?}");
        }
        assert_eq!(unpack(7, b""), None);
    }
}
