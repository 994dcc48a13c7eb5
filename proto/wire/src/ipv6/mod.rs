//! The fixed IPv6 header (RFC 8200 §3), and the chain of extension headers behind it (§4).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{array, be16, be32, first, header, put, room};
use crate::{Layer, WireError};

mod chain;
mod fragment;
mod options;

pub use chain::{Chain, ChainFault, MAX_BYTES, MAX_HEADERS, is_extension};
pub use fragment::{FRAGMENT_LEN, FragmentHeader, FragmentRepr};
pub use options::{Ipv6Option, Ipv6Options, MAX_OPTIONS, OptionReport, option_kind};

/// Values of "next header" (IANA's protocol numbers).
pub mod next_header {
    /// Options for every router on the way.
    pub const HOP_BY_HOP: u8 = 0;
    /// Nodes to be visited.
    pub const ROUTING: u8 = 43;
    /// A fragment.
    pub const FRAGMENT: u8 = 44;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// Nothing follows (RFC 8200 §4.7).
    pub const NONE: u8 = 59;
    /// Options for the destination.
    pub const DESTINATION_OPTIONS: u8 = 60;
}

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;

const VERSION: usize = 0;
const PAYLOAD_LEN: usize = 4;
const NEXT: usize = 6;
const HOP_LIMIT: usize = 7;
const SRC: usize = 8;
const DST: usize = 24;

/// An address of either family as 16 bytes, an IPv4 one in the mapped form of RFC 4291 §2.5.5.2.
#[inline]
pub fn mapped(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The inverse of [`mapped`]; a fifth of the instructions of `to_canonical`.
#[inline]
pub fn unmapped(addr: [u8; 16]) -> IpAddr {
    let bits = u128::from_be_bytes(addr);
    match bits >> 32 {
        0xffff => Ipv4Addr::from_bits(bits as u32).into(),
        _ => Ipv6Addr::from_bits(bits).into(),
    }
}

header! {
    /// The fixed header; no value in it has been checked.
    Ipv6Header, HEADER_LEN
}

impl Ipv6Header<'_> {
    /// Version, 4 bits.
    #[inline]
    pub fn version(self) -> u8 {
        self.0[VERSION] >> 4
    }

    /// Traffic class.
    #[inline]
    pub fn traffic_class(self) -> u8 {
        (be16(self.0, VERSION) >> 4) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(self) -> u32 {
        be32(self.0, VERSION) & 0x000f_ffff
    }

    /// Bytes after this header, as it claims them.
    #[inline]
    pub fn payload_len(self) -> usize {
        be16(self.0, PAYLOAD_LEN).into()
    }

    /// Protocol of the payload.
    #[inline]
    pub fn next_header(self) -> u8 {
        self.0[NEXT]
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(self) -> u8 {
        self.0[HOP_LIMIT]
    }

    /// Source and destination as they lie next to each other.
    #[inline]
    pub fn addresses(self) -> [u8; 32] {
        array(self.0, SRC)
    }

    /// Source address.
    #[inline]
    pub fn src(self) -> Ipv6Addr {
        Ipv6Addr::from_octets(array(self.0, SRC))
    }

    /// Destination address.
    #[inline]
    pub fn dst(self) -> Ipv6Addr {
        Ipv6Addr::from_octets(array(self.0, DST))
    }
}

/// Writes the hop limit.
#[inline]
pub fn set_hop_limit(header: &mut [u8; HEADER_LEN], hop_limit: u8) {
    header[HOP_LIMIT] = hop_limit;
}

/// A packet whose version and length are consistent with the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6View<'a> {
    header: Ipv6Header<'a>,
    payload: &'a [u8],
}

impl<'a> Ipv6View<'a> {
    /// Checks version and payload length; bytes beyond the payload are cut off.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadField`], [`WireError::BadLength`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let header = Ipv6Header(first(bytes, Layer::Ipv6)?);
        if header.version() != 6 {
            let value = header.version().into();
            return Err(WireError::BadField { layer: Layer::Ipv6, field: "version", value });
        }
        let (said, max) = (header.payload_len(), bytes.len() - HEADER_LEN);
        let payload = bytes[HEADER_LEN..].get(..said).ok_or(WireError::BadLength {
            layer: Layer::Ipv6,
            said,
            min: 0,
            max,
        })?;
        Ok(Self { header, payload })
    }

    /// The fixed header.
    #[inline]
    pub fn header(self) -> Ipv6Header<'a> {
        self.header
    }

    /// The bytes behind it.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        self.payload
    }
}

/// The fixed header's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Repr {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label; only the low 20 bits are emitted.
    pub flow_label: u32,
    /// Bytes after the header.
    pub payload_len: u16,
    /// Protocol of the payload.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Ipv6Repr {
    /// The values in `view`.
    pub fn parse(view: Ipv6View<'_>) -> Self {
        let h = view.header;
        Self {
            traffic_class: h.traffic_class(),
            flow_label: h.flow_label(),
            payload_len: view.payload.len() as u16,
            next_header: h.next_header(),
            hop_limit: h.hop_limit(),
            src: h.src(),
            dst: h.dst(),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the fixed header to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let (header, _) = room::<HEADER_LEN>(buf, Layer::Ipv6)?;
        let label = self.flow_label & 0x000f_ffff;
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | label;
        put(header, VERSION, word.to_be_bytes());
        put(header, PAYLOAD_LEN, self.payload_len.to_be_bytes());
        put(header, NEXT, [self.next_header, self.hop_limit]);
        put(header, SRC, self.src.octets());
        put(header, DST, self.dst.octets());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
