//! The errors of parsing a header.

use core::fmt;

/// The header an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the variants are the protocols' names")]
pub enum Layer {
    Ethernet,
    Vlan,
    Arp,
    Ipv4,
    Ipv6,
    Icmpv4,
    Icmpv6,
    Ndp,
    Mld,
    Igmp,
    Udp,
    Tcp,
    Dhcp4,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Ethernet => "Ethernet",
            Layer::Vlan => "802.1Q",
            Layer::Arp => "ARP",
            Layer::Ipv4 => "IPv4",
            Layer::Ipv6 => "IPv6",
            Layer::Icmpv4 => "ICMPv4",
            Layer::Icmpv6 => "ICMPv6",
            Layer::Ndp => "neighbour discovery",
            Layer::Mld => "multicast listener discovery",
            Layer::Igmp => "IGMP",
            Layer::Udp => "UDP",
            Layer::Tcp => "TCP",
            Layer::Dhcp4 => "DHCP",
        })
    }
}

/// A header that cannot be read, or cannot be written where it was asked to go.
///
/// All variants but [`WireError::NoRoom`] are the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end before the header does.
    #[error("{layer} header needs {need} bytes, {have} are there")]
    Truncated {
        /// The header's protocol.
        layer: Layer,
        /// Bytes it needs.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A length field contradicts the header or the bytes at hand.
    #[error("{layer} length field says {said} where {min} to {max} bytes are possible")]
    BadLength {
        /// The protocol of the length field.
        layer: Layer,
        /// The claimed length, in bytes.
        said: usize,
        /// The least it may say.
        min: usize,
        /// The most it may say.
        max: usize,
    },
    /// A field has a value that this implementation cannot read on from.
    #[error("{layer} field `{field}` has the unexpected value {value:#x}")]
    BadField {
        /// The field's protocol.
        layer: Layer,
        /// Its name in the RFC, in lower case.
        field: &'static str,
        /// Its value.
        value: u32,
    },
    /// The caller's buffer is too small for the header to be emitted.
    #[error("{layer} header of {need} bytes does not fit a buffer of {have}")]
    NoRoom {
        /// The header's protocol.
        layer: Layer,
        /// Bytes it needs.
        need: usize,
        /// Bytes the buffer has.
        have: usize,
    },
}
