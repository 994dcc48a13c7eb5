//! Validation of received datagrams: one function for each node of the graph.

use weever_wire::ipv4::{HEADER_LEN, Ipv4Header};

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

/// Whether a router may pass the datagram on. A *host* that is the destination takes any value:
/// RFC 1122 §3.2.1.7, "A host MUST NOT discard a datagram just because it was received with TTL
/// less than 2."
#[inline]
pub fn may_forward(header: Ipv4Header<'_>) -> bool {
    header.ttl() > 1
}

/// Whether it is a whole datagram, and no fragment.
#[inline]
pub fn is_whole(header: Ipv4Header<'_>) -> bool {
    !header.is_fragment()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;
    use weever_wire::ipv4::Ipv4Repr;

    fn packet(change: impl FnOnce(&mut Ipv4Repr)) -> [u8; HEADER_LEN] {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1));
        let mut repr = crate::ipv4::template(src, dst, 17, 4);
        change(&mut repr);
        let mut packet = [0; HEADER_LEN];
        repr.emit(&mut packet).unwrap();
        packet
    }

    #[test]
    fn only_routers_look_at_the_ttl() {
        for (ttl, wanted) in [(0, false), (1, false), (2, true)] {
            assert_eq!(may_forward(Ipv4Header::of(&packet(|repr| repr.ttl = ttl))), wanted);
        }
    }

    #[test]
    fn any_offset_or_more_to_come_is_a_fragment() {
        for (flags_frag, wanted) in [(0, true), (0x4000, true), (0x2000, false), (1, false)] {
            let packet = packet(|repr| repr.flags_frag = flags_frag);
            assert_eq!(is_whole(Ipv4Header::of(&packet)), wanted, "{flags_frag:#x}");
        }
    }

    proptest! {
        /// A datagram that passes has its header and its announced length within the bytes at hand.
        #[test]
        fn lengths(ihl in 0u8..16, total in 0u16..100, available in 20usize..100) {
            let mut packet = packet(|_| {});
            packet[0] = 0x40 | ihl;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            let (header, len) = (Ipv4Header::of(&packet), usize::from(ihl) * 4);
            prop_assert_eq!(header_len_ok(header, available), ihl >= 5 && len <= available);
            let total = usize::from(total);
            prop_assert_eq!(total_len_ok(header, available), len <= total && total <= available);
            prop_assert!(version_ok(header));
        }
    }
}
