//! The chain of extension headers (RFC 8200 §4), walked once, with bounds.

use super::options::{self, OptionFault, OptionReport};
use super::{FragmentHeader, HEADER_LEN, Ipv6Header, next_header};

/// Most extension headers of one packet. RFC 8504 §5.3 allows a host such a limit, and RFC 8200
/// §4.1 recommends each header once, destination options twice: six in all.
pub const MAX_HEADERS: usize = 8;
/// Most bytes of extension headers of one packet (RFC 8504 §5.3).
pub const MAX_BYTES: usize = 512;

/// Where the next header of the fixed header stands.
const FIXED_NEXT: usize = 6;
/// Offsets in a routing header: its type, and the segments left (RFC 8200 §4.4).
const ROUTING_TYPE: usize = 2;
const SEGMENTS_LEFT: usize = 3;

/// The end of a chain of extension headers. Offsets count from the start of the IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    /// Protocol of the payload behind the chain; [`next_header::FRAGMENT`] if the packet is a
    /// fragment of another, at whose fragment header the walk ended.
    pub protocol: u8,
    /// Where that begins.
    pub offset: usize,
    /// Where the byte stands that names [`Chain::protocol`].
    pub pointer: usize,
    /// Whether hop-by-hop options asked routers to look at the packet (RFC 2711).
    pub router_alert: bool,
}

/// Why a chain cannot be walked to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ChainFault {
    /// The packet ends within a header.
    #[error("IPv6 extension header cut short")]
    Truncated,
    /// More than [`MAX_HEADERS`] headers.
    #[error("more than {MAX_HEADERS} IPv6 extension headers")]
    TooMany,
    /// More than [`MAX_BYTES`] bytes, or too many options in one header.
    #[error("more than {MAX_BYTES} bytes of IPv6 extension headers, or too many options")]
    TooLong,
    /// Hop-by-hop options that do not follow the fixed header (RFC 8200 §4.3).
    #[error("IPv6 hop-by-hop options that are not the first extension header")]
    HopByHopNotFirst {
        /// Where it is announced.
        pointer: usize,
    },
    /// An option that is not known and must not be skipped (RFC 8200 §4.2).
    #[error("unknown IPv6 option that must not be skipped")]
    Option {
        /// Where the option's type stands.
        pointer: usize,
        /// Whether the sender is told.
        report: OptionReport,
    },
    /// A routing header of an unknown type with segments left (RFC 8200 §4.4), type 0 included
    /// (RFC 5095).
    #[error("IPv6 routing header with segments left")]
    Routing {
        /// Where its type stands.
        pointer: usize,
    },
}

impl Chain {
    /// Walks the chain of `packet`, which begins with the fixed header and ends where its payload
    /// does. Atomic fragments (RFC 6946) are stepped over, others end the walk.
    ///
    /// # Errors
    /// The first fault.
    #[inline]
    pub fn walk(packet: &[u8]) -> Result<Chain, ChainFault> {
        let header = Ipv6Header::first(packet).ok_or(ChainFault::Truncated)?;
        let protocol = header.next_header();
        let chain =
            Chain { protocol, offset: HEADER_LEN, pointer: FIXED_NEXT, router_alert: false };
        // The usual case, no extension header, costs one comparison.
        if is_extension(protocol) { chain.walk_on(packet) } else { Ok(chain) }
    }

    /// The protocol behind the chain and where it begins, even if the headers in between are
    /// faulty: for callers that need the protocol before they report an error about the packet.
    /// `None` if that cannot be told, or the packet is a later fragment.
    pub fn skim(packet: &[u8]) -> Option<(u8, usize)> {
        let mut protocol = Ipv6Header::first(packet)?.next_header();
        let mut offset = HEADER_LEN;
        for _ in 0..=MAX_HEADERS {
            if !is_extension(protocol) {
                return Some((protocol, offset));
            }
            let later = |header: FragmentHeader<'_>| header.offset() != 0;
            if protocol == next_header::FRAGMENT && later(FragmentHeader::at(packet, offset)?) {
                return None;
            }
            let header = packet.get(offset..)?;
            offset += header_len(protocol, header)?;
            protocol = *header.first()?;
        }
        None
    }

    #[cold]
    fn walk_on(mut self, packet: &[u8]) -> Result<Chain, ChainFault> {
        let mut count = 0;
        while is_extension(self.protocol) {
            if self.ends_at_fragment(packet)? {
                return Ok(self);
            }
            count += 1;
            if count > MAX_HEADERS {
                return Err(ChainFault::TooMany);
            }
            self.step(packet, count == 1)?;
        }
        Ok(self)
    }

    fn ends_at_fragment(&self, packet: &[u8]) -> Result<bool, ChainFault> {
        if self.protocol != next_header::FRAGMENT {
            return Ok(false);
        }
        let header = FragmentHeader::at(packet, self.offset).ok_or(ChainFault::Truncated)?;
        Ok(!header.is_atomic())
    }

    /// Over one header.
    fn step(&mut self, packet: &[u8], first: bool) -> Result<(), ChainFault> {
        let (protocol, at) = (self.protocol, self.offset);
        if protocol == next_header::HOP_BY_HOP && !first {
            return Err(ChainFault::HopByHopNotFirst { pointer: self.pointer });
        }
        let rest = packet.get(at..).unwrap_or_default();
        let len = header_len(protocol, rest).ok_or(ChainFault::Truncated)?;
        if at + len - HEADER_LEN > MAX_BYTES {
            return Err(ChainFault::TooLong);
        }
        let header = rest.get(..len).ok_or(ChainFault::Truncated)?;
        self.check(header)?;
        (self.protocol, self.offset, self.pointer) = (header[0], at + len, at);
        Ok(())
    }

    /// Checks the contents of this one header.
    fn check(&mut self, header: &[u8]) -> Result<(), ChainFault> {
        let at = self.offset;
        match self.protocol {
            next_header::HOP_BY_HOP | next_header::DESTINATION_OPTIONS => {
                self.router_alert |= options::check(&header[2..]).map_err(|fault| match fault {
                    OptionFault::Truncated => ChainFault::Truncated,
                    OptionFault::TooMany => ChainFault::TooLong,
                    OptionFault::Unknown { offset, report } => {
                        ChainFault::Option { pointer: at + 2 + offset, report }
                    }
                })?;
                Ok(())
            }
            next_header::ROUTING if header[SEGMENTS_LEFT] != 0 => {
                Err(ChainFault::Routing { pointer: at + ROUTING_TYPE })
            }
            _ => Ok(()),
        }
    }
}

/// Whether the walk goes on after this header. "No next header" (59) and payload encrypted by IPsec
/// end it.
#[inline]
pub const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        next_header::HOP_BY_HOP
            | next_header::ROUTING
            | next_header::FRAGMENT
            | next_header::DESTINATION_OPTIONS
    )
}

/// Bytes of an extension header: RFC 8200 §4.3, "in 8-octet units, not including the first 8
/// octets"; `None` without its second byte.
fn header_len(protocol: u8, header: &[u8]) -> Option<usize> {
    let units = *header.get(1)?;
    Some(if protocol == next_header::FRAGMENT { 8 } else { 8 + 8 * usize::from(units) })
}
