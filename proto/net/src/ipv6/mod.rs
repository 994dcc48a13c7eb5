//! IPv6 for a host and a router (RFC 8200): the tests that a received packet has to pass, our
//! addresses, choosing a source, and headers of the packets we send.

pub use weever_wire::ipv6::{Chain, ChainFault, HEADER_LEN, Ipv6Header, Ipv6Repr, Ipv6View};

pub mod addr;
mod locals;
mod receive;
mod select;

pub use locals::{AddrOrigin, AddrState, Locals6, OwnAddr};
pub use receive::{
    Martian6, check_source, may_forward, may_hide_source, payload_len_ok, version_ok,
};
pub use select::best_source;

use core::net::Ipv6Addr;

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
