//! IPv6 for a host and a router (RFC 8200): the tests that a received packet has to pass, our
//! addresses, choosing a source, and headers of the packets we send.

pub use weever_wire::ipv6::{Chain, ChainFault, HEADER_LEN, Ipv6Header, Ipv6Repr, Ipv6View};

pub mod addr;
mod locals;
mod select;

pub use locals::{AddrOrigin, AddrState, Locals6, OwnAddr};
pub use select::best_source;

use core::net::Ipv6Addr;

use addr::stays_on_link;

/// IANA's recommended default, where no router says otherwise (RFC 4861 §6.3.2).
pub const DEFAULT_HOP_LIMIT: u8 = 64;
/// RFC 8200 §5: "IPv6 requires that every link in the Internet have an MTU of 1280 octets or
/// greater."
pub const MIN_MTU: u16 = 1280;

/// A header from `src` to `dst` with our defaults.
#[inline]
pub const fn template(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload_len: u16) -> Ipv6Repr {
    let (traffic_class, flow_label, hop_limit) = (0, 0, DEFAULT_HOP_LIMIT);
    Ipv6Repr { traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst }
}

/// How an interface uses IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct V6Settings {
    /// Whether it speaks IPv6 at all, and gets a link-local address.
    pub enabled: bool,
    /// Whether router advertisements make addresses and routes. Never in a router.
    pub accept_ra: bool,
    /// The secret of stable interface identifiers (RFC 7217); `None`: they are made of the link
    /// address.
    pub secret: Option<[u64; 2]>,
    /// Probes before an address is used (RFC 4862 §5.1, DupAddrDetectTransmits); 0: none.
    pub dad_transmits: u8,
    /// Hop limit of the packets it sends, as routers advertise it.
    pub hop_limit: u8,
    /// The link's MTU as routers advertise it; 0: the interface's own.
    pub link_mtu: u16,
}

impl Default for V6Settings {
    fn default() -> Self {
        Self {
            enabled: false,
            accept_ra: true,
            secret: None,
            dad_transmits: 1,
            hop_limit: DEFAULT_HOP_LIMIT,
            link_mtu: 0,
        }
    }
}

/// Whether the payload that the header announces is within the `available` bytes of the packet.
/// Jumbograms (RFC 2675) are not: their payload length is zero, and their header unknown.
#[inline]
pub fn payload_len_ok(header: Ipv6Header<'_>, available: usize) -> bool {
    HEADER_LEN + header.payload_len() <= available
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

    fn packet(src: &str, dst: &str, next_header: u8) -> [u8; HEADER_LEN] {
        let mut packet = [0; HEADER_LEN];
        let repr = template(src.parse().unwrap(), dst.parse().unwrap(), next_header, 4);
        repr.emit(&mut packet).unwrap();
        packet
    }

    #[test]
    fn an_announced_payload_is_there() {
        let packet = packet("2001:db8::2", "2001:db8::1", 17);
        assert!(payload_len_ok(Ipv6Header::of(&packet), 44));
        assert!(!payload_len_ok(Ipv6Header::of(&packet), 43));
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
