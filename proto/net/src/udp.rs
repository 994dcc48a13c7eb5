//! UDP for a host (RFC 768, RFC 1122 §4.1).

use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};

use weever_wire::checksum::{self, Pseudo};
use weever_wire::ipv4::{self, protocol};
use weever_wire::udp::{never_zero, set_checksum};
use weever_wire::{Layer, WireError};

use crate::ipv4::template;

pub use weever_wire::udp::{HEADER_LEN, UdpHeader, UdpRepr, UdpView};

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address; unspecified in a socket that takes any of ours.
    pub addr: Ipv4Addr,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddrV4::from(*self).fmt(f)
    }
}

impl From<SocketAddrV4> for Endpoint {
    fn from(addr: SocketAddrV4) -> Self {
        Self { addr: *addr.ip(), port: addr.port() }
    }
}

impl From<Endpoint> for SocketAddrV4 {
    fn from(endpoint: Endpoint) -> Self {
        SocketAddrV4::new(endpoint.addr, endpoint.port)
    }
}

/// Both ends of a datagram, as its receiver sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Our end.
    pub local: Endpoint,
    /// The peer's end.
    pub remote: Endpoint,
}

/// The verdict on a datagram's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// Computed and right.
    Valid,
    /// The sender computed none: RFC 768, "An all zero transmitted checksum value means that the
    /// transmitter generated no checksum".
    Absent,
    /// Left to a device that never saw the frame; taken as valid on links between software ends.
    Partial,
    /// Computed and wrong.
    Wrong,
}

/// Whether a checksum may be partial where a datagram came from: veth, virtio and TAP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Partial {
    /// A wire: a checksum that looks partial is wrong.
    #[default]
    Refused,
    /// A link between software ends.
    Accepted,
}

/// Looks at the checksum `field` of a datagram with this pseudo-header. A partial one is recognised
/// before anything is summed, which makes it the cheapest kind.
#[inline(always)]
pub fn judge(datagram: &[u8], field: u16, pseudo: Pseudo, partial: Partial) -> Checksum {
    if field == 0 {
        Checksum::Absent
    } else if partial == Partial::Accepted && pseudo.is_partial(field) {
        Checksum::Partial
    } else if pseudo.verifies(datagram) {
        Checksum::Valid
    } else {
        Checksum::Wrong
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;
    use weever_wire::WireError;
    use weever_wire::ipv4::{Ipv4View, protocol};

    const FLOW: Flow = Flow {
        local: Endpoint { addr: Ipv4Addr::new(10, 0, 0, 1), port: 7 },
        remote: Endpoint { addr: Ipv4Addr::new(10, 0, 0, 2), port: 40_000 },
    };

    fn packet(flow: Flow, payload: &[u8]) -> Vec<u8> {
        let mut buf = [&[0; HEADERS_LEN], payload].concat();
        emit_headers(&mut buf, flow).unwrap();
        buf
    }

    /// The ends of a datagram, and the verdict on its checksum.
    fn received(packet: &[u8], partial: Partial) -> (Flow, Checksum) {
        let ip = Ipv4View::new(packet).unwrap();
        let udp = UdpView::new(ip.payload()).unwrap();
        let (ip, header) = (ip.header(), udp.header());
        let pseudo = Pseudo::v4(&ip.addresses(), protocol::UDP, header.length());
        let local = Endpoint { addr: ip.dst(), port: header.dst_port() };
        let remote = Endpoint { addr: ip.src(), port: header.src_port() };
        (Flow { local, remote }, judge(udp.datagram(), header.checksum(), pseudo, partial))
    }

    /// Writes the partial checksum that a kernel leaves for a device to complete.
    fn make_partial(packet: &mut [u8]) {
        let ip = Ipv4View::new(packet).unwrap();
        let view = UdpView::new(ip.payload()).unwrap();
        let pseudo = view.pseudo_sum(ip.header().src(), ip.header().dst());
        packet[26..28].copy_from_slice(&pseudo.to_be_bytes());
    }

    proptest! {
        #[test]
        fn what_one_end_sends_the_other_takes(ports: (u16, u16), payload in vec(any::<u8>(), 0..200)) {
            let mut sent = FLOW;
            (sent.local.port, sent.remote.port) = (ports.0, ports.1.max(1));
            let packet = packet(sent, &payload);
            let wanted = Flow { local: sent.remote, remote: sent.local };
            prop_assert_eq!(received(&packet, Partial::Refused), (wanted, Checksum::Valid));
            prop_assert!(Ipv4View::new(&packet).unwrap().checksum_ok());
        }

        #[test]
        fn a_partial_checksum_is_taken_where_it_may_be_and_completed(
            payload in vec(any::<u8>(), 0..200),
        ) {
            let whole = packet(FLOW, &payload);
            let mut partial = whole.clone();
            make_partial(&mut partial);
            prop_assert_eq!(received(&partial, Partial::Accepted).1, Checksum::Partial);
            if partial != whole {
                prop_assert_eq!(received(&partial, Partial::Refused).1, Checksum::Wrong);
            }
            prop_assert!(complete_partial(&mut partial[20..]));
            prop_assert_eq!(partial, whole);
        }

        #[test]
        fn damage_is_seen(payload in vec(any::<u8>(), 1..100), bit: prop::sample::Index) {
            let mut packet = packet(FLOW, &payload);
            let bit = bit.index(payload.len() * 8);
            packet[HEADERS_LEN + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(received(&packet, Partial::Refused).1, Checksum::Wrong);
        }

        #[test]
        fn only_a_whole_datagram_is_completed(bytes in vec(any::<u8>(), 0..40), length in 0u8..45) {
            let mut bytes = bytes;
            if bytes.len() > 6 {
                bytes[4..6].copy_from_slice(&[0, length]);
            }
            let is_whole = UdpView::new(&bytes).is_ok();
            prop_assert_eq!(complete_partial(&mut bytes), is_whole);
        }
    }

    #[test]
    fn a_checksum_may_be_absent() {
        let mut packet = packet(FLOW, b"data");
        packet[26..28].fill(0);
        packet[30] ^= 1;
        assert_eq!(received(&packet, Partial::Refused).1, Checksum::Absent);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let short = emit_headers(&mut [0; HEADERS_LEN - 1], FLOW);
        assert!(matches!(short, Err(WireError::NoRoom { .. })));
        let long = emit_headers(&mut std::vec![0; 65_536], FLOW);
        assert!(matches!(long, Err(WireError::BadLength { .. })));
        assert_eq!(emit_headers(&mut std::vec![0; 65_535], FLOW), Ok(()));
    }

    #[test]
    fn endpoints_read_like_socket_addresses() {
        assert_eq!(FLOW.remote.to_string(), "10.0.0.2:40000");
        let parsed: SocketAddrV4 = "10.0.0.2:40000".parse().unwrap();
        assert_eq!(Endpoint::from(parsed), FLOW.remote);
    }
}
