//! What fragments of one datagram have in common.

use core::net::IpAddr;

/// Identifies a datagram among those that are in pieces.
///
/// RFC 791 §3.2: "identification field, source, destination, and protocol"; RFC 8200 §4.5: source,
/// destination and identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Identification, 16 bits wide in IPv4.
    pub ident: u32,
    /// Protocol; zero in IPv6, where only the first fragment's next header counts.
    pub protocol: u8,
    /// Where it came in, for the caller to tell link-local addresses apart.
    pub zone: u16,
    /// Who sent it.
    pub src: IpAddr,
    /// To whom.
    pub dst: IpAddr,
}

impl Key {
    /// Whom a datagram is charged to: an IPv4 address, or the first 64 bits of an IPv6 address, as
    /// one station can have all of the others.
    pub(super) fn source(&self) -> u64 {
        match self.src {
            IpAddr::V4(src) => src.to_bits().into(),
            IpAddr::V6(src) => (src.to_bits() >> 64) as u64 | 1 << 63,
        }
    }
}
