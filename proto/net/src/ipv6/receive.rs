//! The steps of an IPv6 receiver.

use core::net::Ipv6Addr;

use weever_wire::ipv6::{Chain, ChainFault, HEADER_LEN, Ipv6Header, Ipv6View, next_header};

use super::addr::stays_on_link;
use crate::addr::Destination;

/// Whether the fixed header is there at all.
#[inline]
pub fn has_fixed_header(packet: &[u8]) -> bool {
    packet.len() >= HEADER_LEN
}

/// Whether it is version 6.
#[inline]
pub fn version_ok(header: Ipv6Header<'_>) -> bool {
    header.version() == 6
}

/// Whether the payload that the header announces is within the `available` bytes of the packet.
/// Jumbograms (RFC 2675) are not: their payload length is zero, and their header unknown.
#[inline]
pub fn payload_len_ok(header: Ipv6Header<'_>, available: usize) -> bool {
    HEADER_LEN + header.payload_len() <= available
}

/// Why a source address cannot be that of a packet from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Martian6 {
    /// RFC 4291 §2.7: "Multicast addresses must not be used as source addresses in IPv6 packets".
    #[error("IPv6 multicast source address")]
    Group,
    /// RFC 4291 §2.5.3: the loopback address "must not be used as the source address in IPv6
    /// packets that are sent outside of a single node".
    #[error("IPv6 loopback source address")]
    Loopback,
    /// RFC 4291 §2.5.2: only what looks for an address has none.
    #[error("unspecified IPv6 source address")]
    Unspecified,
    /// An IPv4 address in the form that only programming interfaces have (RFC 4942 §2.2).
    #[error("IPv4-mapped source address")]
    Mapped,
    /// One of our own addresses, from somebody else.
    #[error("our own IPv6 address as the source")]
    Own,
}

/// Whether a packet from outside can be from `src`; `is_ours` knows our addresses on the interface
/// by which it came. The unspecified address is [`may_hide_source`]'s to judge.
///
/// # Errors
/// The rule that `src` breaks.
#[inline]
pub fn check_source(src: Ipv6Addr, is_ours: impl FnOnce(Ipv6Addr) -> bool) -> Result<(), Martian6> {
    let bits = src.to_bits();
    if bits >> 120 == 0xff {
        Err(Martian6::Group)
    } else if bits >> 32 == 0xffff {
        Err(Martian6::Mapped)
    } else if bits == 1 {
        Err(Martian6::Loopback)
    } else if bits == 0 {
        Err(Martian6::Unspecified)
    } else if is_ours(src) {
        Err(Martian6::Own)
    } else {
        Ok(())
    }
}

/// Whether a packet may lack a source address: probes for an address, router solicitations, and
/// listeners' reports before there is one (RFC 4861 §4.1, §4.3, RFC 3590 §4). All are ICMPv6 to a
/// group of the link.
#[inline]
pub fn may_hide_source(header: Ipv6Header<'_>) -> bool {
    let hop = matches!(header.next_header(), next_header::ICMPV6 | next_header::HOP_BY_HOP);
    hop && header.dst().octets()[..2] == [0xff, 0x02]
}

/// Whether a router may pass a packet on, apart from its hop limit: RFC 4291 §2.5.6, "Routers must
/// not forward any packets with Link-Local source or destination addresses to other links." Groups
/// are not routed at all.
#[inline]
pub fn may_forward(header: Ipv6Header<'_>) -> bool {
    let (src, dst) = (header.src(), header.dst());
    !stays_on_link(src) && !stays_on_link(dst) && !dst.is_multicast()
}

/// Why a packet is not taken; the name of a counter each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Discard {
    /// Fewer bytes than a header.
    #[error("truncated IPv6 header")]
    Truncated,
    /// Not version 6.
    #[error("wrong IP version")]
    Version,
    /// More payload announced than there is.
    #[error("wrong IPv6 payload length")]
    PayloadLength,
    /// Invalid source address.
    #[error(transparent)]
    Martian(#[from] Martian6),
    /// Not for us.
    #[error("IPv6 destination is not ours")]
    NotOurs,
    /// Extension headers that cannot be followed.
    #[error(transparent)]
    Chain(#[from] ChainFault),
}

/// A packet that is for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken<'a> {
    /// Fixed header and all that follows, cut to its length.
    pub packet: &'a [u8],
    /// What its extension headers led to.
    pub chain: Chain,
    /// What its destination means.
    pub destination: Destination,
}

/// All steps in their order: what is not ours is dropped before its extension headers are looked
/// at, so that nobody makes us report a problem with somebody else's packet.
///
/// # Errors
/// The first step that failed.
pub fn receive(
    packet: &[u8],
    classify: impl Fn(Ipv6Addr) -> Destination,
) -> Result<Taken<'_>, Discard> {
    let header = Ipv6Header::first(packet).ok_or(Discard::Truncated)?;
    ensure(version_ok(header), Discard::Version)?;
    ensure(payload_len_ok(header, packet.len()), Discard::PayloadLength)?;
    let view = Ipv6View::new(packet).map_err(|_| Discard::Truncated)?;
    let packet = &packet[..HEADER_LEN + view.payload().len()];
    match check_source(header.src(), |src| classify(src) == Destination::Local) {
        Err(Martian6::Unspecified) if may_hide_source(header) => {}
        verdict => verdict?,
    }
    let destination = classify(header.dst());
    ensure(destination != Destination::Other, Discard::NotOurs)?;
    Ok(Taken { packet, chain: Chain::walk(packet)?, destination })
}

#[inline]
fn ensure(holds: bool, otherwise: Discard) -> Result<(), Discard> {
    if holds { Ok(()) } else { Err(otherwise) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv6::{Locals6, template};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;
    use weever_wire::ipv6::Ipv6Repr;

    const OURS: &str = "2001:db8::1/64";

    fn classify(dst: Ipv6Addr) -> Destination {
        let locals = Locals6::new(&[OURS.parse().unwrap()]);
        match dst {
            _ if locals.is_ours(dst) => Destination::Local,
            _ if dst.is_multicast() => Destination::Multicast,
            _ => Destination::Other,
        }
    }

    fn repr(src: &str, dst: &str) -> Ipv6Repr {
        template(src.parse().unwrap(), dst.parse().unwrap(), 17, 4)
    }

    fn packet(repr: Ipv6Repr) -> Vec<u8> {
        let mut packet = [7; HEADER_LEN + 4].to_vec();
        repr.emit(&mut packet).unwrap();
        packet
    }

    fn good() -> Ipv6Repr {
        repr("2001:db8::2", "2001:db8::1")
    }

    fn outcome(packet: &[u8]) -> Result<Destination, Discard> {
        receive(packet, classify).map(|taken| taken.destination)
    }

    #[test]
    fn good_ones() {
        let padded = [&packet(good())[..], &[0; 6]].concat();
        let taken = receive(&padded, classify).unwrap();
        assert_eq!((taken.packet.len(), taken.chain.offset, taken.chain.protocol), (44, 40, 17));
        assert_eq!(outcome(&packet(repr("fe80::2", "ff02::1"))), Ok(Destination::Multicast));
        let probe = Ipv6Repr { next_header: 58, ..repr("::", "ff02::1:ff00:1") };
        assert_eq!(outcome(&packet(probe)), Ok(Destination::Multicast));
    }

    #[test]
    fn every_discard() {
        let whole = packet(good());
        assert_eq!(outcome(&whole[..39]), Err(Discard::Truncated));
        assert_eq!(
            outcome(&packet(Ipv6Repr { payload_len: 5, ..good() })),
            Err(Discard::PayloadLength)
        );
        let mut old = whole.clone();
        old[0] = 0x45;
        assert_eq!(outcome(&old), Err(Discard::Version));
        for (src, why) in [
            ("ff02::1", Martian6::Group),
            ("::1", Martian6::Loopback),
            ("::", Martian6::Unspecified),
            ("::ffff:10.0.0.1", Martian6::Mapped),
            ("2001:db8::1", Martian6::Own),
        ] {
            assert_eq!(outcome(&packet(repr(src, "2001:db8::1"))), Err(why.into()), "{src}");
        }
        assert_eq!(outcome(&packet(repr("2001:db8::2", "2001:db8::9"))), Err(Discard::NotOurs));
        let routed = Ipv6Repr { next_header: 43, ..good() };
        assert_eq!(outcome(&packet(routed)), Err(ChainFault::Truncated.into()));
    }

    #[test]
    fn what_a_router_passes_on() {
        let forward = |src, dst| may_forward(Ipv6Header::first(&packet(repr(src, dst))).unwrap());
        assert!(forward("2001:db8::2", "2600::1"));
        for (src, dst) in [
            ("fe80::2", "2600::1"),
            ("2600::2", "fe80::1"),
            ("::", "2600::1"),
            ("2600::2", "ff0e::1"),
            ("::1", "2600::1"),
        ] {
            assert!(!forward(src, dst), "{src} {dst}");
        }
    }

    proptest! {
        #[test]
        fn damage_is_survived(patches in vec((0usize..44, any::<u8>()), 0..6), len in 0usize..45) {
            let mut packet = packet(good());
            for (at, byte) in patches {
                packet[at] = byte;
            }
            packet.truncate(len);
            if let Ok(taken) = receive(&packet, classify) {
                prop_assert!(taken.chain.offset <= taken.packet.len());
            }
        }
    }
}
