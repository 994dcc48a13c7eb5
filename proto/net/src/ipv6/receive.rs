//! Validation of received packets: one function for each node of the graph.

use core::net::Ipv6Addr;

use weever_wire::ipv6::{HEADER_LEN, Ipv6Header, next_header};

use super::addr::stays_on_link;

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
    /// RFC 4291 §2.5.2: only a node that looks for an address has none.
    #[error("unspecified IPv6 source address")]
    Unspecified,
    /// An IPv4 address in the form that only programming interfaces have (RFC 4942 §2.2).
    #[error("IPv4-mapped source address")]
    Mapped,
    /// One of our own addresses, from outside.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv6::template;

    fn packet(src: &str, dst: &str, next_header: u8) -> [u8; HEADER_LEN] {
        let mut packet = [0; HEADER_LEN];
        let repr = template(src.parse().unwrap(), dst.parse().unwrap(), next_header, 4);
        repr.emit(&mut packet).unwrap();
        packet
    }

    #[test]
    fn version_and_length() {
        let mut packet = packet("2001:db8::2", "2001:db8::1", 17);
        assert!(payload_len_ok(Ipv6Header::of(&packet), 44));
        assert!(!payload_len_ok(Ipv6Header::of(&packet), 43));
        assert!(version_ok(Ipv6Header::of(&packet)));
        packet[0] = 0x45;
        assert!(!version_ok(Ipv6Header::of(&packet)));
    }

    #[test]
    fn sources() {
        for (src, wanted) in [
            ("2001:db8::2", Ok(())),
            ("fe80::2", Ok(())),
            ("ff02::1", Err(Martian6::Group)),
            ("::1", Err(Martian6::Loopback)),
            ("::", Err(Martian6::Unspecified)),
            ("::ffff:10.0.0.1", Err(Martian6::Mapped)),
            ("2001:db8::1", Err(Martian6::Own)),
        ] {
            let is_ours = |ip: Ipv6Addr| ip == "2001:db8::1".parse::<Ipv6Addr>().unwrap();
            assert_eq!(check_source(src.parse().unwrap(), is_ours), wanted, "{src}");
        }
    }

    #[test]
    fn only_messages_to_groups_of_the_link_need_no_source() {
        let hidden = |dst, next| may_hide_source(Ipv6Header::of(&packet("::", dst, next)));
        assert!(hidden("ff02::1:ff00:1", 58) && hidden("ff02::16", 0));
        assert!(!hidden("ff02::1", 17) && !hidden("ff05::2", 58) && !hidden("2001:db8::1", 58));
    }

    #[test]
    fn what_a_router_passes_on() {
        let forward = |src, dst| may_forward(Ipv6Header::of(&packet(src, dst, 17)));
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
}
