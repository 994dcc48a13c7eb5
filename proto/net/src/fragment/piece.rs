//! A fragment as it came: its place in the datagram, and the checks of its fields.

use core::net::IpAddr;

use weever_wire::ipv4::{self, Ipv4View, OFFSET_MASK, protocol};
use weever_wire::ipv6::{self, Chain, Ipv6Header};

use super::map::UNIT;
use super::{FRAGMENT_HEADER_LEN, MAX_DATAGRAM};
use crate::random::{self, keyed_hash};

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
    /// Its source.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
}

impl Key {
    /// The source that a datagram is charged to: an IPv4 address, or the first 64 bits of an IPv6 address, as
    /// one station can have all of the others.
    pub(super) fn source(&self) -> u64 {
        match self.src {
            IpAddr::V4(src) => src.to_bits().into(),
            IpAddr::V6(src) => (src.to_bits() >> 64) as u64 | 1 << 63,
        }
    }

    /// A hash that is unpredictable without `key`, since peers choose all that is hashed.
    pub fn hash(&self, key: random::Key) -> u64 {
        let (zone, protocol) = (u64::from(self.zone), u64::from(self.protocol));
        let name = u64::from(self.ident) | zone << 32 | protocol << 48;
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let hosts = u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits());
                keyed_hash(key, &[hosts, name])
            }
            (src, dst) => {
                let [src, dst] = [src, dst].map(|ip| match ip {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(v6) => v6.to_bits(),
                });
                let [a, b, c, d] = [src >> 64, src, dst >> 64, dst].map(|half| half as u64);
                keyed_hash(key, &[a, b, c, d, name])
            }
        }
    }
}

/// Why a fragment is not taken; the name of a counter each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    /// Its own header does not hold together.
    #[error("malformed fragment")]
    Malformed,
    /// No bytes beside the headers, and more to come.
    #[error("empty fragment")]
    Empty,
    /// More fragments follow, but its length is no multiple of eight (RFC 8200 §4.5: parameter
    /// problem, code 0, at the payload length).
    #[error("fragment length is no multiple of 8")]
    Misaligned,
    /// It reaches beyond the longest datagram (RFC 8200 §4.5: parameter problem, code 0, at the
    /// fragment offset).
    #[error("fragment reaches beyond 65,535 bytes")]
    TooLong,
    /// A first fragment without a transport header, or a second one that would rewrite it
    /// (RFC 1858, RFC 3128).
    #[error("fragment splits the transport header")]
    Tiny,
    /// It overlaps others, or contradicts the known end of the datagram.
    #[error("overlapping fragments")]
    Overlap,
    /// Its datagram was given up before.
    #[error("fragment of a datagram that was given up")]
    GivenUp,
    /// Congestion marks that cannot go together (RFC 3168 §5.3).
    #[error("fragments disagree about congestion notification")]
    Ecn,
    /// No room to keep it.
    #[error("no room for fragments")]
    NoRoom,
}

/// A fragment, read and checked as far as it can be by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    pub(super) key: Key,
    /// From the IP header on, padding cut off.
    pub(super) packet: &'a [u8],
    /// Bytes of `packet` that become the datagram's header.
    pub(super) header_len: usize,
    /// Bytes of every such header at least, behind which the payload is kept.
    pub(super) fixed_len: usize,
    /// Where in the header the protocol is to be written, and which; IPv6 only.
    pub(super) next: Option<(usize, u8)>,
    /// Where the data belong, in bytes.
    pub(super) offset: usize,
    pub(super) more: bool,
    pub(super) data: &'a [u8],
    /// Bits 0 to 3: the ECN codepoint that it carries, as one bit.
    pub(super) ecn: u8,
}

impl<'a> Piece<'a> {
    /// The fragment in an IPv4 packet whose header was found valid; `None` if it is a whole
    /// datagram. Bytes behind the total length are ignored.
    ///
    /// # Errors
    /// The first fault found in it.
    pub fn v4(packet: &'a [u8], zone: u16) -> Result<Option<Self>, Reject> {
        let view = Ipv4View::new(packet).map_err(|_| Reject::Malformed)?;
        let header = view.header();
        if !header.is_fragment() {
            return Ok(None);
        }
        let (src, dst) = (IpAddr::V4(header.src()), IpAddr::V4(header.dst()));
        let ident = header.ident().into();
        let piece = Piece {
            key: Key { ident, protocol: header.protocol(), zone, src, dst },
            packet: &packet[..header.total_len()],
            header_len: view.header_bytes().len(),
            fixed_len: ipv4::HEADER_LEN,
            next: None,
            offset: usize::from(header.frag() & OFFSET_MASK) * UNIT,
            more: header.frag() & ipv4::FLAG_MF != 0,
            data: view.payload(),
            ecn: 1 << (header.tos() & 3),
        };
        piece.check(header.protocol()).map(Some)
    }

    /// The fragment in an IPv6 packet; `None` if it has no fragment header, or one that makes it
    /// a whole datagram by itself (RFC 6946), see [`atomic`](Self::atomic). Bytes behind the payload
    /// are ignored.
    ///
    /// # Errors
    /// The first fault found in it.
    pub fn v6(packet: &'a [u8], zone: u16) -> Result<Option<Self>, Reject> {
        let (header, packet) = whole_v6(packet)?;
        let Some((next_at, at)) = find(packet)? else { return Ok(None) };
        let word = u16::from_be_bytes([packet[at + 2], packet[at + 3]]);
        let (offset, more) = (usize::from(word & !7), word & 1 != 0);
        if offset == 0 && !more {
            return Ok(None);
        }
        let ident =
            u32::from_be_bytes([packet[at + 4], packet[at + 5], packet[at + 6], packet[at + 7]]);
        let (src, dst) = (IpAddr::V6(header.src()), IpAddr::V6(header.dst()));
        let piece = Piece {
            key: Key { ident, protocol: 0, zone, src, dst },
            packet,
            header_len: at,
            fixed_len: ipv6::HEADER_LEN,
            next: Some((next_at, packet[at])),
            offset,
            more,
            data: &packet[at + FRAGMENT_HEADER_LEN..],
            ecn: 1 << (header.traffic_class() & 3),
        };
        // RFC 7112 §5: all headers up to the transport's own are in the first fragment.
        if piece.is_first() && !has_whole_chain(packet) {
            return Err(Reject::Tiny);
        }
        piece.check(packet[at]).map(Some)
    }

    /// Where the fragment header of an IPv6 packet stands, if it has one.
    pub fn header_at(packet: &[u8]) -> Option<usize> {
        let (_, packet) = whole_v6(packet).ok()?;
        find(packet).ok()?.map(|(_, at)| at)
    }

    /// Where the fragment header of an atomic fragment stands: (the byte that names it, its
    /// offset). To go on, put the byte at the offset into the place of the first, and pass over
    /// [`FRAGMENT_HEADER_LEN`] bytes.
    pub fn atomic(packet: &[u8]) -> Option<(usize, usize)> {
        let (_, packet) = whole_v6(packet).ok()?;
        let (next_at, at) = find(packet).ok()??;
        let word = u16::from_be_bytes([packet[at + 2], packet[at + 3]]);
        (word & !6 == 0).then_some((next_at, at))
    }

    /// Which datagram it belongs to.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Whether it is the one with the transport header.
    pub fn is_first(&self) -> bool {
        self.offset == 0
    }

    fn check(self, transport: u8) -> Result<Self, Reject> {
        let end = self.offset + self.data.len();
        if self.data.is_empty() {
            Err(Reject::Empty)
        } else if self.more && !self.data.len().is_multiple_of(UNIT) {
            Err(Reject::Misaligned)
        } else if end + self.header_len - self.uncounted() > MAX_DATAGRAM {
            Err(Reject::TooLong)
        } else if end + self.header_len > MAX_DATAGRAM {
            Err(Reject::NoRoom)
        } else if self.splits_header(transport) {
            Err(Reject::Tiny)
        } else {
            Ok(self)
        }
    }

    /// Bytes of the header that a packet's length does not count.
    fn uncounted(&self) -> usize {
        if self.next.is_some() { self.fixed_len } else { 0 }
    }

    /// RFC 1858 §3.2.2, RFC 3128 §3.
    fn splits_header(&self, transport: u8) -> bool {
        let Some(least) = least_of(transport) else { return false };
        match self.offset {
            0 => self.data.len() < least,
            // In IPv6 a later fragment does not reliably name its transport.
            offset => self.next.is_none() && offset < least,
        }
    }
}

/// Bytes of a transport's header that have to be in one fragment.
const fn least_of(transport: u8) -> Option<usize> {
    match transport {
        protocol::TCP => Some(16),
        protocol::UDP | protocol::ICMP | protocol::ICMPV6 => Some(8),
        _ => None,
    }
}

fn has_whole_chain(packet: &[u8]) -> bool {
    Chain::skim(packet)
        .is_some_and(|(transport, at)| packet.len() >= at + least_of(transport).unwrap_or(0))
}

fn whole_v6(packet: &[u8]) -> Result<(Ipv6Header<'_>, &[u8]), Reject> {
    let header = Ipv6Header::first(packet).ok_or(Reject::Malformed)?;
    let end = ipv6::HEADER_LEN + header.payload_len();
    Ok((header, packet.get(..end).ok_or(Reject::Malformed)?))
}

/// The longest run of headers in front of a fragment header that is looked at.
const MAX_HEADERS: usize = 8;

/// The fragment header: (the byte whose value names it, its offset).
fn find(packet: &[u8]) -> Result<Option<(usize, usize)>, Reject> {
    let (mut next_at, mut at) = (6, ipv6::HEADER_LEN);
    for _ in 0..MAX_HEADERS {
        match packet[next_at] {
            44 if packet.len() < at + FRAGMENT_HEADER_LEN => return Err(Reject::Malformed),
            44 => return Ok(Some((next_at, at))),
            0 | 43 | 60 => {
                let &[_, len] = packet.get(at..at + 2).ok_or(Reject::Malformed)? else {
                    return Err(Reject::Malformed);
                };
                next_at = at;
                at += (usize::from(len) + 1) * 8;
                if at > packet.len() {
                    return Err(Reject::Malformed);
                }
            }
            _ => return Ok(None),
        }
    }
    Ok(None)
}
