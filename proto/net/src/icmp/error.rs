//! Sending errors: when one may be sent, and how much it quotes.

use weever_wire::icmpv4::{HEADER_LEN, kind};
use weever_wire::ipv4::{self, Ipv4Header, protocol};

use crate::addr::Ours;

/// Bytes of the longest datagram that reports an error: RFC 1812 §4.3.2.3, "SHOULD contain as much
/// of the original datagram as possible without the length of the ICMP datagram exceeding 576
/// bytes". RFC 1122 §3.2.2 asks for the header and eight bytes at least.
pub const MAX_ERROR_LEN: usize = 576;

/// The type of service of errors: RFC 1812 §4.3.2.5, they "SHOULD have their precedence field set to 6
/// (INTERNETWORK CONTROL) or 7 (NETWORK CONTROL)".
pub const INTERNETWORK_CONTROL: u8 = 6 << 5;

const MAX_QUOTE: usize = MAX_ERROR_LEN - ipv4::HEADER_LEN - HEADER_LEN;

/// Why an error must not be reported. RFC 1122 §3.2.2: "An ICMP error message MUST NOT be sent as
/// the result of receiving" any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Silence {
    /// The datagram is shorter than its header.
    #[error("no whole header to quote")]
    Truncated,
    /// "an ICMP error message"
    #[error("about an ICMP error")]
    AboutAnError,
    /// "a datagram destined to an IP broadcast or IP multicast address"
    #[error("about a broadcast or multicast datagram")]
    ToGroup,
    /// "a datagram sent as a link-layer broadcast"
    #[error("about a link-layer broadcast")]
    LinkBroadcast,
    /// "a non-initial fragment"
    #[error("about a later fragment")]
    LaterFragment,
    /// "a datagram whose source address does not define a single host"
    #[error("about a datagram from no single host")]
    SourceNotAHost,
}

/// Whether an error about `datagram` may be reported; `link_group` says that its frame was sent to
/// all stations or a group of them.
///
/// # Errors
/// The rule which forbids it.
pub fn may_report(datagram: &[u8], link_group: bool, ours: &impl Ours) -> Result<(), Silence> {
    let header = Ipv4Header::first(datagram).ok_or(Silence::Truncated)?;
    let l4 = header.header_len();
    if l4 < ipv4::HEADER_LEN || datagram.len() < l4 {
        return Err(Silence::Truncated);
    }
    let dst = header.dst();
    if dst.is_multicast() || dst.is_broadcast() || ours.is_subnet_broadcast(dst) {
        Err(Silence::ToGroup)
    } else if link_group {
        Err(Silence::LinkBroadcast)
    } else if header.is_later_fragment() {
        Err(Silence::LaterFragment)
    } else if ours.check_source(header.src()).is_err() {
        Err(Silence::SourceNotAHost)
    } else if header.protocol() == protocol::ICMP && !is_query(datagram, l4) {
        Err(Silence::AboutAnError)
    } else {
        Ok(())
    }
}

/// Whether an ICMP message is surely no error; one without a type could be anything.
fn is_query(datagram: &[u8], l4: usize) -> bool {
    datagram.get(l4).is_some_and(|&kind| !kind::is_error(kind))
}

/// How much of `datagram` an error quotes; not the padding of a short frame.
pub fn quote_len(datagram: &[u8]) -> usize {
    let said = Ipv4Header::first(datagram).map_or(usize::MAX, Ipv4Header::total_len);
    datagram.len().min(said).min(MAX_QUOTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Locals;
    use crate::icmp::Cause;
    use crate::ipv4::template;
    use core::net::Ipv4Addr;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;
    use weever_wire::ipv4::Ipv4Repr;

    const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn locals() -> Locals {
        Locals::new(&["10.0.0.1/24".parse().unwrap()])
    }

    fn packet(change: impl FnOnce(&mut Ipv4Repr), payload: &[u8]) -> Vec<u8> {
        let mut repr = template(PEER, US, protocol::UDP, payload.len() as u16);
        change(&mut repr);
        let mut packet = [&[0; 20], payload].concat();
        repr.emit(&mut packet).unwrap();
        packet
    }

    fn asked(change: impl FnOnce(&mut Ipv4Repr), payload: &[u8]) -> Result<(), Silence> {
        may_report(&packet(change, payload), false, &locals())
    }

    #[test]
    fn rfc_1122_section_3_2_2() {
        let icmp = |kind: u8| asked(|r| r.protocol = protocol::ICMP, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(asked(|_| {}, &[0; 8]), Ok(()));
        assert_eq!(icmp(kind::ECHO_REQUEST), Ok(()));
        for error in [kind::UNREACHABLE, kind::TIME_EXCEEDED, kind::REDIRECT, 200] {
            assert_eq!(icmp(error), Err(Silence::AboutAnError), "{error}");
        }
        assert_eq!(asked(|r| r.protocol = protocol::ICMP, &[]), Err(Silence::AboutAnError));
        for dst in [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 255)]
        {
            assert_eq!(asked(|r| r.dst = dst, &[]), Err(Silence::ToGroup), "{dst}");
        }
        assert_eq!(asked(|r| r.flags_frag = 1, &[]), Err(Silence::LaterFragment));
        assert_eq!(asked(|r| r.flags_frag = 0x2000, &[]), Ok(()), "the first fragment");
        for src in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "240.0.0.1", "10.0.0.255"] {
            assert_eq!(asked(|r| r.src = src.parse().unwrap(), &[]), Err(Silence::SourceNotAHost));
        }
        let sent_to_all = may_report(&packet(|_| {}, &[]), true, &locals());
        assert_eq!(sent_to_all, Err(Silence::LinkBroadcast));
        assert_eq!(may_report(&[0x45; 19], false, &locals()), Err(Silence::Truncated));
        assert_eq!(may_report(&[0x46; 20], false, &locals()), Err(Silence::Truncated));
    }

    proptest! {
        #[test]
        fn an_error_quotes_what_fits_and_no_padding(
            payload in vec(any::<u8>(), 0..1400), padding in 0usize..20,
        ) {
            let mut datagram = packet(|_| {}, &payload);
            let whole = datagram.len();
            datagram.resize(whole + padding, 0xaa);
            prop_assert_eq!(quote_len(&datagram), whole.min(MAX_ERROR_LEN - 28));
        }

        #[test]
        fn any_bytes(bytes in vec(any::<u8>(), 0..80)) {
            prop_assert!(quote_len(&bytes) <= bytes.len());
            if may_report(&bytes, false, &locals()).is_ok() {
                prop_assert!(bytes.len() >= 20);
            }
        }

        /// The loop that the rules exist to prevent: nothing is ever reported about a report.
        #[test]
        fn never_about_a_report(quote in vec(any::<u8>(), 0..60)) {
            let message = [&Cause::ProtocolUnreachable.header()[..], &quote].concat();
            let report = packet(|r| (r.src, r.dst, r.protocol) = (US, PEER, protocol::ICMP), &message);
            let peer = Locals::new(&["10.0.0.2/24".parse().unwrap()]);
            prop_assert_eq!(may_report(&report, false, &peer), Err(Silence::AboutAnError));
        }
    }
}
