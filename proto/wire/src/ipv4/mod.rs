//! IPv4 header (RFC 791 §3.1).

use core::net::Ipv4Addr;

use crate::bytes::{array, be16, be32, first, header, put, room};
use crate::checksum;
use crate::{Layer, WireError};

mod options;
pub use options::{Ipv4Option, Ipv4Options, asks_routers, option_kind};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

const VERSION_IHL: usize = 0;
const TOS: usize = 1;
const TOTAL_LEN: usize = 2;
const IDENT: usize = 4;
const FRAG: usize = 6;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const CHECKSUM: usize = 10;
const SRC: usize = 12;
const DST: usize = 16;

/// "Don't fragment", in the word of flags and fragment offset.
pub const FLAG_DF: u16 = 0x4000;
/// "More fragments", in the word of flags and fragment offset.
pub const FLAG_MF: u16 = 0x2000;
/// The fragment offset in that word, in units of 8 bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

/// Protocol numbers, shared with IPv6's next header.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// Group membership of IPv4.
    pub const IGMP: u8 = 2;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

header! {
    /// The 20 fixed bytes of a header; no value in them has been checked.
    Ipv4Header, HEADER_LEN
}

impl Ipv4Header<'_> {
    /// Version, 4 bits.
    #[inline]
    pub fn version(self) -> u8 {
        self.0[VERSION_IHL] >> 4
    }

    /// Header length in bytes as the header claims it: a multiple of 4 from 0 to 60.
    #[inline]
    pub fn header_len(self) -> usize {
        usize::from(self.0[VERSION_IHL] & 0x0f) * 4
    }

    /// Type of service: DSCP and ECN.
    #[inline]
    pub fn tos(self) -> u8 {
        self.0[TOS]
    }

    /// Length of header and payload in bytes, as the header claims it.
    #[inline]
    pub fn total_len(self) -> usize {
        be16(self.0, TOTAL_LEN).into()
    }

    /// Identification.
    #[inline]
    pub fn ident(self) -> u16 {
        be16(self.0, IDENT)
    }

    /// More-fragments flag and fragment offset, reserved bit and "don't fragment" cleared: zero
    /// for a whole datagram.
    #[inline]
    pub fn frag(self) -> u16 {
        be16(self.0, FRAG) & (FLAG_MF | OFFSET_MASK)
    }

    /// Whether "don't fragment" is set.
    #[inline]
    pub fn dont_fragment(self) -> bool {
        be16(self.0, FRAG) & FLAG_DF != 0
    }

    /// Whether it is a fragment, the first one included.
    #[inline]
    pub fn is_fragment(self) -> bool {
        self.frag() != 0
    }

    /// Whether the payload begins somewhere inside the datagram and so has no transport header.
    #[inline]
    pub fn is_later_fragment(self) -> bool {
        self.frag() & OFFSET_MASK != 0
    }

    /// Time to live.
    #[inline]
    pub fn ttl(self) -> u8 {
        self.0[TTL]
    }

    /// Protocol of the payload.
    #[inline]
    pub fn protocol(self) -> u8 {
        self.0[PROTOCOL]
    }

    /// Header checksum field.
    #[inline]
    pub fn checksum(self) -> u16 {
        be16(self.0, CHECKSUM)
    }

    /// Source and destination address, as they lie there.
    #[inline(always)]
    pub fn addresses(self) -> [u8; 8] {
        array(self.0, SRC)
    }

    /// Source address.
    #[inline]
    pub fn src(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.0, SRC))
    }

    /// Destination address.
    #[inline]
    pub fn dst(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.0, DST))
    }
}

/// Whether the checksum of a whole header, options included, is right.
///
/// The common header without options takes an unrolled path.
#[inline]
pub fn checksum_ok(header: &[u8]) -> bool {
    match <&[u8; HEADER_LEN]>::try_from(header) {
        Ok(fixed) => checksum::is_valid(checksum::sum_array(fixed)),
        Err(_) => checksum::is_valid(checksum::sum(header)),
    }
}

/// Writes the checksum of a header without options.
#[inline]
pub fn fill_checksum(header: &mut [u8; HEADER_LEN]) {
    put(header, CHECKSUM, [0; 2]);
    let sum = checksum::sum_array(header);
    put(header, CHECKSUM, checksum::finish(sum).to_be_bytes());
}

/// Sets the time to live and repairs the checksum (RFC 1624).
#[inline]
pub fn set_ttl(header: &mut [u8; HEADER_LEN], ttl: u8) {
    let old = be16(header, TTL);
    let new = u16::from_be_bytes([ttl, header[PROTOCOL]]);
    let check = checksum::update16(be16(header, CHECKSUM), old, new);
    put(header, CHECKSUM, check.to_be_bytes());
    header[TTL] = ttl;
}

/// A datagram whose version and lengths are consistent with the bytes at hand.
///
/// The checksum is not checked: ask [`Ipv4View::checksum_ok`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4View<'a> {
    header: Ipv4Header<'a>,
    header_bytes: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// Checks version, header length and total length; bytes beyond the total length (Ethernet
    /// padding) are cut off.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadField`] for the version,
    /// [`WireError::BadLength`] for either length.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let header = Ipv4Header(first(bytes, Layer::Ipv4)?);
        if header.version() != 4 {
            let value = header.version().into();
            return Err(WireError::BadField { layer: Layer::Ipv4, field: "version", value });
        }
        let max = bytes.len().min(MAX_HEADER_LEN);
        let header_len = within(header.header_len(), HEADER_LEN, max)?;
        let total_len = within(header.total_len(), header_len, bytes.len())?;
        let (header_bytes, payload) = bytes[..total_len].split_at(header_len);
        Ok(Self { header, header_bytes, payload })
    }

    /// The fixed part of the header.
    #[inline]
    pub fn header(self) -> Ipv4Header<'a> {
        self.header
    }

    /// The header with its options.
    #[inline]
    pub fn header_bytes(self) -> &'a [u8] {
        self.header_bytes
    }

    /// The options; an empty iterator for most datagrams.
    #[inline]
    pub fn options(self) -> Ipv4Options<'a> {
        Ipv4Options::new(&self.header_bytes[HEADER_LEN..])
    }

    /// The bytes behind the header.
    #[inline]
    pub fn payload(self) -> &'a [u8] {
        self.payload
    }

    /// Whether the header's checksum is right.
    #[inline]
    pub fn checksum_ok(self) -> bool {
        checksum_ok(self.header_bytes)
    }
}

#[inline]
fn within(said: usize, min: usize, max: usize) -> Result<usize, WireError> {
    if (min..=max).contains(&said) {
        return Ok(said);
    }
    Err(WireError::BadLength { layer: Layer::Ipv4, said, min, max })
}

/// The values of a header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Repr {
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification.
    pub ident: u16,
    /// The word of flags and fragment offset, see [`FLAG_DF`].
    pub flags_frag: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Bytes of payload that follow; header and payload together at most 65,535.
    pub payload_len: u16,
}

impl Ipv4Repr {
    /// The values in `view`, its options left out.
    pub fn parse(view: Ipv4View<'_>) -> Self {
        let h = view.header;
        Self {
            tos: h.tos(),
            ident: h.ident(),
            flags_frag: be16(h.0, FRAG),
            ttl: h.ttl(),
            protocol: h.protocol(),
            src: h.src(),
            dst: h.dst(),
            payload_len: view.payload.len() as u16,
        }
    }

    /// Bytes that [`emit`](Self::emit) writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, checksum included, to the front of `buf`.
    ///
    /// # Errors
    /// [`WireError::NoRoom`]; [`WireError::BadLength`] if the datagram were longer than 65,535.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        const MAX: usize = u16::MAX as usize - HEADER_LEN;
        let total_len = within(self.payload_len.into(), 0, MAX)? + HEADER_LEN;
        let (header, _) = room::<HEADER_LEN>(buf, Layer::Ipv4)?;
        header[VERSION_IHL] = 0x45;
        header[TOS] = self.tos;
        put(header, TOTAL_LEN, (total_len as u16).to_be_bytes());
        put(header, IDENT, self.ident.to_be_bytes());
        put(header, FRAG, self.flags_frag.to_be_bytes());
        put(header, TTL, [self.ttl, self.protocol]);
        put(header, SRC, self.src.octets());
        put(header, DST, self.dst.octets());
        // Of the values: what was just written in bytes cannot be read in words before it has reached the cache.
        let words = 0x4500 + u64::from(self.tos) + total_len as u64;
        let words = words + u64::from(self.ident) + u64::from(self.flags_frag);
        let words = words + u64::from(self.ttl) * 256 + u64::from(self.protocol);
        let addresses = u64::from(self.src.to_bits()) + u64::from(self.dst.to_bits());
        let sum = checksum::fold(words + addresses);
        put(header, CHECKSUM, checksum::finish(sum).to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
