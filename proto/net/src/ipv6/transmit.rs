//! Headers of the packets we send.

use core::net::Ipv6Addr;

use weever_wire::WireError;
use weever_wire::ipv4::protocol;
use weever_wire::ipv6::{HEADER_LEN as IP, Ipv6Repr};
use weever_wire::udp::UdpRepr;

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

/// Bytes of IPv6 and UDP headers in front of a payload.
const HEADERS: usize = IP + weever_wire::udp::HEADER_LEN;

/// Writes IPv6 and UDP headers in front of the payload that already stands behind them in `buf`, to
/// its end: 48 bytes further.
///
/// # Errors
/// [`WireError::NoRoom`] if `buf` is shorter than the headers, [`WireError::BadLength`] if it is
/// longer than a datagram can be.
pub fn emit_datagram(
    buf: &mut [u8],
    (src, src_port): (Ipv6Addr, u16),
    (dst, dst_port): (Ipv6Addr, u16),
) -> Result<(), WireError> {
    use weever_wire::Layer;
    let (need, have, max) = (HEADERS, buf.len(), IP + usize::from(u16::MAX));
    let short = WireError::NoRoom { layer: Layer::Udp, need, have };
    let payload_len = have.checked_sub(need).ok_or(short)?;
    let long = WireError::BadLength { layer: Layer::Ipv6, said: have, min: need, max };
    let len = u16::try_from(have - IP).map_err(|_| long)?;
    template(src, dst, protocol::UDP, len).emit(buf)?;
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&src.octets());
    addresses[16..].copy_from_slice(&dst.octets());
    let udp = UdpRepr { src_port, dst_port, payload_len: payload_len as u16 };
    udp.emit_with_checksum_v6(&mut buf[IP..], &addresses)
}
