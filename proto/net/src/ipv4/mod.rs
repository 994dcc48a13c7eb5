//! IPv4 for a host (RFC 791, RFC 1122 §3.2.1): the tests that a received datagram has to pass,
//! forwarding, and headers of the datagrams we send.

mod forward;
mod options;

pub use forward::{Forward, complete_partial, forward, is_partial, options_may_pass};
pub use options::{OptionReject, check_options};
pub use weever_wire::ipv4::{HEADER_LEN, Ipv4Header, Ipv4Repr, Ipv4View, protocol};

use core::net::Ipv4Addr;

use weever_wire::MacAddr;
use weever_wire::ipv4::FLAG_DF;

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

/// RFC 1700 and IANA's recommended default time to live.
pub const DEFAULT_TTL: u8 = 64;

/// A header from `src` to `dst` with the defaults of a host that does not fragment: "don't
/// fragment" set and an identification of zero, which RFC 6864 §4.1 allows for an atomic datagram.
#[inline]
pub const fn template(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload_len: u16) -> Ipv4Repr {
    let (tos, ident, flags_frag, ttl) = (0, 0, FLAG_DF, DEFAULT_TTL);
    Ipv4Repr { tos, ident, flags_frag, ttl, protocol, src, dst, payload_len }
}

/// The station address of a group (RFC 1112 §6.4): 23 bits of the group's address.
pub const fn multicast_mac(group: Ipv4Addr) -> MacAddr {
    MacAddr::from_bits(0x0100_5e00_0000 | (group.to_bits() & 0x007f_ffff) as u64)
}

/// Identifications for datagrams that may be fragmented on their way.
///
/// A counter: unique within 65,536 datagrams, per owner. Owners that share a source address get
/// a start and a stride each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ident {
    next: u16,
    stride: u16,
}

impl Ident {
    /// Counts from `start` in steps of `stride`; a stride of zero counts in ones.
    pub const fn new(start: u16, stride: u16) -> Self {
        Self { next: start, stride: if stride == 0 { 1 } else { stride } }
    }

    /// The next identification.
    #[inline]
    pub const fn take(&mut self) -> u16 {
        let ident = self.next;
        self.next = ident.wrapping_add(self.stride);
        ident
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use proptest::prelude::*;
    use weever_wire::ipv4::{HEADER_LEN, Ipv4Repr, Ipv4View};

    use super::*;

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
        }
    }

    #[test]
    fn a_template_is_a_valid_atomic_datagram() {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut buf = [0; HEADER_LEN + 3];
        template(src, dst, 17, 3).emit(&mut buf).unwrap();
        let view = Ipv4View::new(&buf).unwrap();
        let header = view.header();
        assert!(view.checksum_ok() && header.dont_fragment() && !header.is_fragment());
        assert_eq!((header.ttl(), header.src(), header.dst()), (64, src, dst));
    }

    #[test]
    fn groups_keep_23_bits() {
        let mac = multicast_mac(Ipv4Addr::new(239, 255, 1, 2));
        assert_eq!(mac, MacAddr([1, 0, 0x5e, 0x7f, 1, 2]));
    }

    #[test]
    fn owners_with_strides_do_not_collide() {
        let (mut even, mut odd) = (Ident::new(0, 2), Ident::new(1, 2));
        for _ in 0..70_000 {
            assert_eq!((even.take() % 2, odd.take() % 2), (0, 1));
        }
        assert_eq!((Ident::new(65_535, 0).take(), Ident::new(9, 0).next), (65_535, 9));
    }
}
