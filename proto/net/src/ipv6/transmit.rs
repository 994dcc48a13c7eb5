//! Headers of the packets we send.

use core::net::Ipv6Addr;

use weever_wire::ipv6::Ipv6Repr;

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
