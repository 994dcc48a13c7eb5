//! Work that a device does for a host's stack, or leaves to us: checksums and segmentation.
//!
//! The rule that links know no protocols has its exception here: requests to a device on behalf of
//! TCP and UDP name places in their headers.

mod cutter;
mod gather;
#[cfg(test)]
mod tests;

pub(crate) use cutter::Cutter;
pub(crate) use gather::{Gathered, MOST_PIECES, gather};

/// The transport behind the network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    fn of(protocol: u8) -> Option<Transport> {
        match protocol {
            6 => Some(Transport::Tcp),
            17 => Some(Transport::Udp),
            _ => None,
        }
    }

    pub(crate) fn protocol(self) -> u8 {
        match self {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        }
    }

    /// Where in the transport header its checksum is.
    pub(crate) fn checksum_at(self) -> usize {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }
}

/// The layers of a TCP or UDP packet in an Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layers {
    /// Where the IP header starts.
    pub(crate) l3: usize,
    /// Where the transport header starts; the frame holds all of it.
    pub(crate) l4: usize,
    pub(crate) v6: bool,
    pub(crate) transport: Transport,
}

/// Extension headers that may stand before the transport header.
const MOST_EXTENSIONS: usize = 8;

impl Layers {
    /// Finds them; `None` for anything else, fragments included.
    pub(crate) fn of(frame: &[u8]) -> Option<Layers> {
        let (ethertype, l3) = network(frame)?;
        let (v6, (protocol, l4)) = match ethertype {
            0x0800 => (false, behind_ipv4(frame, l3)?),
            0x86dd => (true, behind_ipv6(frame, l3)?),
            _ => return None,
        };
        let layers = Layers { l3, l4, v6, transport: Transport::of(protocol)? };
        (frame.len() >= l4 + layers.transport_header(frame)?).then_some(layers)
    }

    /// Where the payload starts.
    pub(crate) fn payload(&self, frame: &[u8]) -> Option<usize> {
        Some(self.l4 + self.transport_header(frame)?)
    }

    /// Where the checksum is.
    pub(crate) fn checksum(&self) -> usize {
        self.l4 + self.transport.checksum_at()
    }

    fn transport_header(&self, frame: &[u8]) -> Option<usize> {
        match self.transport {
            Transport::Udp => Some(8),
            Transport::Tcp => {
                let words = usize::from(*frame.get(self.l4 + 12)? >> 4);
                (words >= 5).then_some(4 * words)
            }
        }
    }
}

/// EtherType and start of the network header, behind up to two tags.
fn network(frame: &[u8]) -> Option<(u16, usize)> {
    for at in [12, 16, 20] {
        let ethertype = number(frame, at)?;
        if !matches!(ethertype, 0x8100 | 0x88a8) {
            return Some((ethertype, at + 2));
        }
    }
    None
}

fn behind_ipv4(frame: &[u8], l3: usize) -> Option<(u8, usize)> {
    let first = *frame.get(l3)?;
    let header = usize::from(first & 0xf) * 4;
    let fragment = number(frame, l3 + 6)? & 0x3fff != 0;
    let whole = first >> 4 == 4 && header >= 20 && !fragment;
    whole.then_some((*frame.get(l3 + 9)?, l3 + header))
}

fn behind_ipv6(frame: &[u8], l3: usize) -> Option<(u8, usize)> {
    let (mut next, mut at) = (*frame.get(l3 + 6)?, l3 + 40);
    for _ in 0..MOST_EXTENSIONS {
        // Hop-by-hop options, routing, destination options; a fragment has no transport header.
        if !matches!(next, 0 | 43 | 60) {
            return Some((next, at));
        }
        (next, at) = (*frame.get(at)?, at + (usize::from(*frame.get(at + 1)?) + 1) * 8);
    }
    None
}

pub(super) fn number(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

pub(super) fn put(frame: &mut [u8], at: usize, value: u16) {
    if let Some(place) = frame.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// The folded sum of the bytes, not inverted.
pub(super) fn sum(bytes: &[u8]) -> u16 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let pairs: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    fold(pairs + rest.first().map_or(0, |last| u64::from(*last) << 8))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// The sum of a frame's pseudo-header, which is its partial checksum.
pub(super) fn pseudo(frame: &[u8], layers: &Layers) -> u16 {
    pseudo_of(frame, layers, frame.len())
}

/// The same for a frame of `len` bytes of which only the headers are at hand.
fn pseudo_of(frame: &[u8], layers: &Layers, len: usize) -> u16 {
    let addresses = match layers.v6 {
        true => &frame[layers.l3 + 8..layers.l3 + 40],
        false => &frame[layers.l3 + 12..layers.l3 + 20],
    };
    let length = (len - layers.l4) as u64;
    fold(u64::from(sum(addresses)) + u64::from(layers.transport.protocol()) + length)
}

/// Writes the partial checksum that fits the frame's addresses and length.
pub(super) fn write_partial(frame: &mut [u8], layers: &Layers) {
    let partial = pseudo(frame, layers);
    put(frame, layers.checksum(), partial);
}

/// Writes an IPv4 header's checksum.
pub(super) fn write_ipv4(frame: &mut [u8], layers: &Layers) {
    put(frame, layers.l3 + 10, 0);
    let header = !sum(&frame[layers.l3..layers.l4]);
    put(frame, layers.l3 + 10, header);
}
