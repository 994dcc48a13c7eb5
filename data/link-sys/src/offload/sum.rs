//! The Internet checksum (RFC 1071), as far as segmenting needs it.

use super::Layers;
use super::headers::put;

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
    let addresses = match layers.v6 {
        true => &frame[layers.l3 + 8..layers.l3 + 40],
        false => &frame[layers.l3 + 12..layers.l3 + 20],
    };
    let length = (frame.len() - layers.l4) as u64;
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
