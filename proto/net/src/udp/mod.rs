//! UDP for a host (RFC 768, RFC 1122 §4.1).

use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};

use weever_wire::checksum::Pseudo;

pub use weever_wire::udp::{HEADER_LEN, UdpHeader, UdpRepr, UdpView};

mod transmit;
pub use transmit::{HEADERS_LEN, complete_partial, emit_headers};

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

/// What a datagram's checksum says.
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
    /// A wire: what looks partial is wrong.
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

#[cfg(test)]
mod tests;
