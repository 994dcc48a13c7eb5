//! Headers of the datagrams we send.

use core::net::Ipv4Addr;

use weever_wire::MacAddr;
use weever_wire::ipv4::{FLAG_DF, Ipv4Repr};

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
    use super::*;
    use weever_wire::ipv4::{HEADER_LEN, Ipv4View};

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
