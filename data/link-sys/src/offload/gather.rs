//! Segmentation on send: segments of a connection that follow each other leave as one packet, which the device
//! cuts into what they were.
//!
//! Nothing is copied but the headers: the device takes them and the payloads from where they lie. Only segments
//! whose checksum is partial are taken, since the device sums the pieces: a wrong checksum would become right.

use super::{Layers, Transport, number, pseudo_of, put, write_ipv4};

/// Longer headers are not gathered.
const HEADERS: usize = 160;
/// Pieces of a packet. Each is a part of one system call.
pub(crate) const MOST_PIECES: usize = 64;
/// The longest packet, without its link header.
const LONGEST: usize = 65_535;

const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Segments that leave as one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    /// How many, at least two.
    pub(crate) count: usize,
    /// Where the payload of each begins.
    pub(crate) payload: usize,
    /// Payload of each but the last.
    pub(crate) size: u16,
    /// Its layers.
    pub(crate) layers: Layers,
    headers: [u8; HEADERS],
}

impl Gathered {
    /// The headers of the packet.
    pub(crate) fn headers(&self) -> &[u8] {
        &self.headers[..self.payload]
    }
}

/// A segment that may be part of a packet.
#[derive(Clone, Copy)]
struct Part {
    layers: Layers,
    payload: usize,
    len: usize,
    sequence: u32,
    flags: u8,
}

impl Part {
    /// A segment with payload and no other flags than these three, without bytes behind its end.
    fn of(frame: &[u8]) -> Option<Part> {
        let layers = Layers::of(frame).filter(|layers| layers.transport == Transport::Tcp)?;
        let payload = layers.payload(frame).filter(|payload| *payload <= HEADERS)?;
        let end = match layers.v6 {
            true => layers.l3 + 40 + usize::from(number(frame, layers.l3 + 4)?),
            false => layers.l3 + usize::from(number(frame, layers.l3 + 2)?),
        };
        let (high, low) = (number(frame, layers.l4 + 4)?, number(frame, layers.l4 + 6)?);
        let flags = *frame.get(layers.l4 + 13)?;
        let len = frame.len().checked_sub(payload)?;
        let plain = flags & ACK != 0 && flags & !(FIN | PSH | ACK) == 0;
        let sequence = u32::from(high) << 16 | u32::from(low);
        (plain && end == frame.len() && len > 0).then_some(Part {
            layers,
            payload,
            len,
            sequence,
            flags,
        })
    }

    /// Whether nothing may follow in the same packet.
    fn is_last(self, size: usize) -> bool {
        self.flags & (FIN | PSH) != 0 || self.len < size
    }

    /// Whether the headers of two segments differ only in what segmentation makes anew.
    fn is_like(self, frame: &[u8], other: Part, others: &[u8]) -> bool {
        let Layers { l3, l4, v6, .. } = self.layers;
        // Length, identification and checksum of IP; sequence number, flags and checksum of TCP.
        let same: &[std::ops::Range<usize>] = match v6 {
            true => &[
                0..l3 + 4,
                l3 + 6..l4 + 4,
                l4 + 8..l4 + 13,
                l4 + 14..l4 + 16,
                l4 + 18..self.payload,
            ],
            false => &[
                0..l3 + 2,
                l3 + 6..l3 + 10,
                l3 + 12..l4 + 4,
                l4 + 8..l4 + 13,
                l4 + 14..l4 + 16,
                l4 + 18..self.payload,
            ],
        };
        self.layers == other.layers
            && self.payload == other.payload
            && same.iter().all(|range| frame.get(range.clone()) == others.get(range.clone()))
    }
}

/// The first of `frames`, with those behind it that leave in the same packet; `None` if there are none.
pub(crate) fn gather<'f>(mut frames: impl Iterator<Item = &'f [u8]>) -> Option<Gathered> {
    let frame = frames.next()?;
    let first = Part::of(frame)?;
    let (mut last, mut count) = (first, 1);
    let mut len = frame.len();
    for next in frames {
        let Some(part) = Part::of(next) else { break };
        let fits = len + part.len - first.layers.l3 <= LONGEST && count < MOST_PIECES;
        let follows = part.sequence == last.sequence.wrapping_add(last.len as u32);
        if last.is_last(first.len)
            || part.len > first.len
            || !fits
            || !follows
            || !first.is_like(frame, part, next)
        {
            break;
        }
        (last, count, len) = (part, count + 1, len + part.len);
    }
    if count == 1 {
        return None;
    }
    let mut headers = [0; HEADERS];
    headers[..first.payload].copy_from_slice(&frame[..first.payload]);
    let Layers { l3, l4, v6, .. } = first.layers;
    headers[l4 + 13] = last.flags;
    if v6 {
        put(&mut headers, l3 + 4, (len - l3 - 40) as u16);
    } else {
        put(&mut headers, l3 + 2, (len - l3) as u16);
        write_ipv4(&mut headers, &first.layers);
    }
    let partial = pseudo_of(&headers, &first.layers, len);
    put(&mut headers, first.layers.checksum(), partial);
    let (payload, layers) = (first.payload, first.layers);
    Some(Gathered { count, payload, size: first.len as u16, layers, headers })
}
