//! The steps of an IPv4 receiver.

use weever_wire::ipv4::{self as wire, HEADER_LEN, Ipv4Header, Ipv4View};

use super::{OptionReject, check_options};
use crate::addr::{Destination, Locals, Martian};

/// Whether the fixed header is there at all.
#[inline]
pub fn has_fixed_header(packet: &[u8]) -> bool {
    packet.len() >= HEADER_LEN
}

/// RFC 1122 §3.2.1.1: "A datagram whose version number is not 4 MUST be silently discarded."
#[inline]
pub fn version_ok(header: Ipv4Header<'_>) -> bool {
    header.version() == 4
}

/// Whether the header length is possible and within the `available` bytes of the packet
/// (RFC 791 §3.1, IHL: "the minimum value for a correct header is 5").
#[inline]
pub fn header_len_ok(header: Ipv4Header<'_>, available: usize) -> bool {
    (HEADER_LEN..=available).contains(&header.header_len())
}

/// Whether the total length covers the header and is within the `available` bytes.
#[inline]
pub fn total_len_ok(header: Ipv4Header<'_>, available: usize) -> bool {
    (header.header_len()..=available).contains(&header.total_len())
}

/// RFC 1122 §3.2.1.2: "A host MUST verify the IP header checksum on every received datagram and
/// silently discard every datagram that has a bad checksum." False too if the header is cut short.
#[inline]
pub fn checksum_ok(packet: &[u8]) -> bool {
    let Some(header) = Ipv4Header::first(packet) else { return false };
    packet.get(..header.header_len()).is_some_and(wire::checksum_ok)
}

/// Whether a router may pass the datagram on. A *host* that is the destination takes any value:
/// RFC 1122 §3.2.1.7, "A host MUST NOT discard a datagram just because it was received with TTL
/// less than 2."
#[inline]
pub fn may_forward(header: Ipv4Header<'_>) -> bool {
    header.ttl() > 1
}

/// Whether it is a whole datagram; fragments are not reassembled yet.
#[inline]
pub fn is_whole(header: Ipv4Header<'_>) -> bool {
    !header.is_fragment()
}

/// Why a datagram is not taken; the name of a counter each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Discard {
    /// Fewer bytes than a header.
    #[error("truncated IPv4 header")]
    Truncated,
    /// Not version 4.
    #[error("wrong IP version")]
    Version,
    /// Impossible header length.
    #[error("wrong IPv4 header length")]
    HeaderLength,
    /// Impossible total length.
    #[error("wrong IPv4 total length")]
    TotalLength,
    /// Wrong header checksum.
    #[error("wrong IPv4 header checksum")]
    Checksum,
    /// Invalid source address.
    #[error(transparent)]
    Martian(#[from] Martian),
    /// Not for us.
    #[error("IPv4 destination is not ours")]
    NotOurs,
    /// Options that are not taken.
    #[error(transparent)]
    Option(#[from] OptionReject),
    /// A fragment, unsupported for now.
    #[error("IPv4 fragments are not supported")]
    Fragment,
}

/// All steps in their order: what is not ours is dropped before its options are looked at, so that
/// nobody makes us report a problem with somebody else's datagram.
///
/// # Errors
/// The first step that failed.
pub fn receive<'a>(
    packet: &'a [u8],
    locals: &Locals,
) -> Result<(Ipv4View<'a>, Destination), Discard> {
    let header = Ipv4Header::first(packet).ok_or(Discard::Truncated)?;
    ensure(version_ok(header), Discard::Version)?;
    ensure(header_len_ok(header, packet.len()), Discard::HeaderLength)?;
    ensure(total_len_ok(header, packet.len()), Discard::TotalLength)?;
    ensure(checksum_ok(packet), Discard::Checksum)?;
    let view = Ipv4View::new(packet).map_err(|_| Discard::Truncated)?;
    locals.check_source(header.src())?;
    let destination = locals.classify(header.dst());
    ensure(destination != Destination::Other, Discard::NotOurs)?;
    check_options(view.header_bytes())?;
    ensure(is_whole(header), Discard::Fragment)?;
    Ok((view, destination))
}

#[inline]
fn ensure(holds: bool, otherwise: Discard) -> Result<(), Discard> {
    if holds { Ok(()) } else { Err(otherwise) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;
    use weever_wire::ipv4::Ipv4Repr;

    const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn locals() -> Locals {
        Locals::new(&["10.0.0.1/24".parse().unwrap()])
    }

    fn repr() -> Ipv4Repr {
        let src = Ipv4Addr::new(10, 0, 0, 2);
        Ipv4Repr {
            tos: 0,
            ident: 7,
            flags_frag: 0,
            ttl: 64,
            protocol: 17,
            src,
            dst: OURS,
            payload_len: 4,
        }
    }

    fn packet(repr: Ipv4Repr) -> Vec<u8> {
        let mut packet = [0; HEADER_LEN + 4].to_vec();
        repr.emit(&mut packet).unwrap();
        packet
    }

    fn with_options(area: &[u8]) -> Vec<u8> {
        let payload_len = area.len() as u16 + 4;
        let mut packet =
            [&packet(Ipv4Repr { payload_len, ..repr() })[..20], area, &[0; 4]].concat();
        packet[0] = 0x45 + (area.len() / 4) as u8;
        packet[10..12].fill(0);
        let sum = weever_wire::checksum::sum(&packet[..20 + area.len()]);
        packet[10..12].copy_from_slice(&(!sum).to_be_bytes());
        packet
    }

    fn outcome(packet: &[u8]) -> Result<Destination, Discard> {
        receive(packet, &locals()).map(|(_, destination)| destination)
    }

    #[test]
    fn good_ones() {
        assert_eq!(outcome(&packet(repr())), Ok(Destination::Local));
        let ttl_zero = packet(Ipv4Repr { ttl: 0, ..repr() });
        assert_eq!(outcome(&ttl_zero), Ok(Destination::Local), "RFC 1122 §3.2.1.7");
        let broadcast = packet(Ipv4Repr { dst: Ipv4Addr::BROADCAST, ..repr() });
        assert_eq!(outcome(&broadcast), Ok(Destination::Broadcast));
        assert_eq!(outcome(&with_options(&[148, 4, 0, 0])), Ok(Destination::Local));
    }

    #[test]
    fn every_discard() {
        let good = packet(repr());
        let patched = |at: usize, byte: u8| {
            let mut packet = good.clone();
            packet[at] = byte;
            outcome(&packet).unwrap_err()
        };
        assert_eq!(outcome(&good[..19]), Err(Discard::Truncated));
        assert_eq!(patched(0, 0x65), Discard::Version);
        assert_eq!(patched(0, 0x44), Discard::HeaderLength);
        assert_eq!(patched(0, 0x4f), Discard::HeaderLength);
        assert_eq!(patched(3, 19), Discard::TotalLength);
        assert_eq!(patched(3, 25), Discard::TotalLength);
        assert_eq!(patched(8, 63), Discard::Checksum);
        let loopback = Ipv4Repr { src: Ipv4Addr::LOCALHOST, ..repr() };
        assert_eq!(outcome(&packet(loopback)), Err(Martian::Loopback.into()));
        let stray = Ipv4Repr { dst: Ipv4Addr::new(10, 0, 0, 9), ..repr() };
        assert_eq!(outcome(&packet(stray)), Err(Discard::NotOurs));
        let routed = with_options(&[131, 4, 4, 0]);
        assert_eq!(outcome(&routed), Err(OptionReject::SourceRoute.into()));
        for flags_frag in [0x2000, 0x0001, 0x3fff] {
            assert_eq!(outcome(&packet(Ipv4Repr { flags_frag, ..repr() })), Err(Discard::Fragment));
        }
    }

    #[test]
    fn a_checksum_needs_a_whole_header() {
        let packet = with_options(&[148, 4, 0, 0]);
        assert!(checksum_ok(&packet));
        assert!(has_fixed_header(&packet[..20]) && !has_fixed_header(&packet[..19]));
        assert!(!checksum_ok(&packet[..23]) && !checksum_ok(&packet[..19]));
    }

    #[test]
    fn only_routers_look_at_the_ttl() {
        for (ttl, wanted) in [(0, false), (1, false), (2, true)] {
            let packet = packet(Ipv4Repr { ttl, ..repr() });
            assert_eq!(may_forward(Ipv4Header::first(&packet).unwrap()), wanted);
        }
    }

    proptest! {
        /// No panic on damaged packets, and what is accepted satisfies the wire view too.
        #[test]
        fn damage_is_survived(
            patches in vec((0usize..24, any::<u8>()), 0..5), len in 0usize..25, fix: bool,
        ) {
            let mut packet = packet(repr());
            for (at, byte) in patches {
                packet[at] = byte;
            }
            if fix {
                wire::fill_checksum(packet.first_chunk_mut().unwrap());
            }
            packet.truncate(len);
            if let Ok((view, _)) = receive(&packet, &locals()) {
                prop_assert!(view.checksum_ok() && !view.header().is_fragment());
                prop_assert!(has_fixed_header(&packet));
            }
        }
    }
}
