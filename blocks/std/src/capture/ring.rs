//! Records in a ring of bytes.
//!
//! A record is a header and the bytes of a packet. It is written whole or not at all, and becomes
//! visible in two steps, header first: a reader waits for the bytes that the header promises.

use rtrb::{Consumer, Producer, RingBuffer};
use weever_packet::Nanos;

/// Time, length of the packet, length of the copy, place, link.
const HEADER: usize = 20;

/// The end of a ring that belongs to a block.
pub(super) struct Writer {
    ring: Producer<u8>,
    place: u16,
}

/// The reader's end.
pub(super) struct Reader(Consumer<u8>);

/// The facts recorded about a copied packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) time: Nanos,
    pub(super) original: u32,
    pub(super) length: u32,
    pub(super) place: u16,
    pub(super) link: u16,
}

/// Both ends of a ring of `bytes`, whose records are marked with `place`.
pub(super) fn ring(bytes: usize, place: u16) -> (Writer, Reader) {
    let (ring, reader) = RingBuffer::new(bytes);
    (Writer { ring, place }, Reader(reader))
}

impl Writer {
    /// Copies at most `most` bytes of a packet; false if there is no room.
    pub(super) fn write(&mut self, time: Nanos, link: u16, packet: &[u8], most: usize) -> bool {
        let data = &packet[..packet.len().min(most)];
        if self.ring.slots() < HEADER + data.len() {
            return false;
        }
        let original = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let length = data.len() as u32;
        let header = Header { time, original, length, place: self.place, link }.bytes();
        self.ring.push_entire_slice(&header).is_ok() && self.ring.push_entire_slice(data).is_ok()
    }
}

impl Reader {
    /// Takes the next record out, if it is there whole.
    pub(super) fn next(&mut self) -> Option<(Header, Vec<u8>)> {
        let header = Header::read(self.peek()?);
        if self.0.slots() < HEADER + header.length as usize {
            return None;
        }
        let mut data = vec![0; header.length as usize];
        let mut skipped = [0; HEADER];
        self.0.pop_entire_slice(&mut skipped).ok()?;
        self.0.pop_entire_slice(&mut data).ok()?;
        Some((header, data))
    }

    /// Whether nothing will ever come any more.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_abandoned() && self.0.is_empty()
    }

    fn peek(&mut self) -> Option<[u8; HEADER]> {
        let chunk = self.0.read_chunk(HEADER).ok()?;
        let (first, second) = chunk.as_slices();
        let mut bytes = [0; HEADER];
        bytes[..first.len()].copy_from_slice(first);
        bytes[first.len()..].copy_from_slice(second);
        Some(bytes)
    }
}

impl Header {
    fn bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.time.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.original.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_ne_bytes());
        bytes[16..18].copy_from_slice(&self.place.to_ne_bytes());
        bytes[18..].copy_from_slice(&self.link.to_ne_bytes());
        bytes
    }

    fn read(bytes: [u8; HEADER]) -> Header {
        let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
        let [i, j, k, l, m, n, o, p, q, r, s, t] = rest;
        Header {
            time: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            original: u32::from_ne_bytes([i, j, k, l]),
            length: u32::from_ne_bytes([m, n, o, p]),
            place: u16::from_ne_bytes([q, r]),
            link: u16::from_ne_bytes([s, t]),
        }
    }
}
