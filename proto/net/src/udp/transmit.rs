//! Datagrams that we send.

use weever_wire::ipv4::{self, protocol};
use weever_wire::udp::{HEADER_LEN, UdpHeader, UdpRepr, never_zero, set_checksum};
use weever_wire::{Layer, WireError, checksum};

use super::Flow;
use crate::ipv4::template;

/// Bytes of IPv4 and UDP headers in front of a payload.
pub const HEADERS_LEN: usize = ipv4::HEADER_LEN + HEADER_LEN;

/// Writes IPv4 and UDP headers in front of the payload that already stands at
/// `buf[HEADERS_LEN..]`, to its end. RFC 1122 §4.1.3.4: an
/// application may control whether a checksum is generated, "but it MUST default to checksumming
/// on".
///
/// # Errors
/// [`WireError::NoRoom`] if `buf` is shorter than the headers, [`WireError::BadLength`] if it is
/// longer than an IPv4 datagram can be.
#[inline]
pub fn emit_headers(buf: &mut [u8], flow: Flow) -> Result<(), WireError> {
    let (need, have) = (HEADERS_LEN, buf.len());
    let too_long = WireError::BadLength {
        layer: Layer::Ipv4,
        said: have,
        min: HEADERS_LEN,
        max: u16::MAX.into(),
    };
    let payload_len =
        have.checked_sub(need).ok_or(WireError::NoRoom { layer: Layer::Udp, need, have })?;
    let total = u16::try_from(have).map_err(|_| too_long)?;
    let Flow { local, remote } = flow;
    let udp =
        UdpRepr { src_port: local.port, dst_port: remote.port, payload_len: payload_len as u16 };
    let l4_len = total - ipv4::HEADER_LEN as u16;
    template(local.addr, remote.addr, protocol::UDP, l4_len).emit(buf)?;
    udp.emit_with_checksum(&mut buf[ipv4::HEADER_LEN..], local.addr, remote.addr)
}

/// Completes a partial checksum, before the datagram leaves for a link that does not take one:
/// the field holds the pseudo-header's sum, so a plain sum over the datagram finishes it. Returns
/// false, with nothing changed, if there is no whole header.
pub fn complete_partial(datagram: &mut [u8]) -> bool {
    let Some(length) = UdpHeader::first(datagram).map(UdpHeader::length) else { return false };
    let Some(covered) = datagram.get_mut(..length.into()) else { return false };
    let sum = checksum::sum(covered);
    let Some(header) = covered.first_chunk_mut() else { return false };
    set_checksum(header, never_zero(checksum::finish(sum)));
    true
}
