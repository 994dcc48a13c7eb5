//! The classic format: a header of 24 bytes, then 16 bytes and a packet, again and again.

use std::io::{ErrorKind, Read};

use super::super::{
    Direction, Fields, Interface, LONGEST_PACKET, Order, PcapError, Record, Statistics, Ticks,
};

pub(in super::super) const MICROS: u32 = 0xa1b2_c3d4;
pub(in super::super) const NANOS: u32 = 0xa1b2_3c4d;

#[derive(Debug)]
pub(super) struct Classic {
    order: Order,
    ticks: Ticks,
    pub(super) interface: Interface,
}

impl Classic {
    /// Reads the header behind its first four bytes.
    pub(super) fn start<R: Read>(
        magic: [u8; 4],
        source: &mut Source<R>,
    ) -> Result<Classic, PcapError> {
        let (order, ticks) = match (u32::from_be_bytes(magic), u32::from_le_bytes(magic)) {
            (MICROS, _) => (Order::Big, Ticks::MICROS),
            (_, MICROS) => (Order::Little, Ticks::MICROS),
            (NANOS, _) => (Order::Big, Ticks::NANOS),
            (_, NANOS) => (Order::Little, Ticks::NANOS),
            _ => return Err(PcapError::NotACapture { start: magic }),
        };
        let header = source.array::<20>("the file header")?;
        let mut fields = Fields::new(&header, order, 4);
        let (major, minor) = (fields.u16("the version")?, fields.u16("the version")?);
        if major != 2 {
            let what = format!("pcap version {major}.{minor} is not known; 2.4 is");
            return Err(PcapError::malformed(4, what));
        }
        fields.bytes(8, "the time zone and the accuracy, which are never filled in")?;
        let snaplen = fields.u32("the longest capture")?;
        // The upper bits say whether frames end in a check sequence.
        let link_type = (fields.u32("the link type")? & 0xffff) as u16;
        let (name, statistics) = (String::new(), Statistics::default());
        Ok(Classic { order, ticks, interface: Interface { name, link_type, snaplen, statistics } })
    }

    pub(super) fn record<'b, R: Read>(
        &mut self,
        source: &mut Source<R>,
        block: &'b mut Vec<u8>,
    ) -> Result<Option<Record<'b>>, PcapError> {
        let offset = source.offset();
        let Some(header) = source.maybe_array::<16>("a packet's header")? else { return Ok(None) };
        let mut fields = Fields::new(&header, self.order, offset);
        let seconds = u64::from(fields.u32("the time")?);
        let fraction = u64::from(fields.u32("the time")?);
        let (captured, original) = (fields.u32("the length")?, fields.u32("the length")?);
        check_length(offset, captured)?;
        source.fill(block, captured.into(), "a packet")?;
        let time = seconds * 1_000_000_000 + self.ticks.nanos(fraction);
        // Some old writers swapped the two lengths.
        let original = original.max(captured);
        let direction = Direction::Unknown;
        Ok(Some(Record { interface: 0, time, original, direction, dropped: 0, data: block }))
    }
}

pub(super) fn check_length(offset: u64, captured: u32) -> Result<(), PcapError> {
    if captured > LONGEST_PACKET {
        let what =
            format!("a packet of {captured} bytes; no capture has more than {LONGEST_PACKET}");
        return Err(PcapError::malformed(offset, what));
    }
    Ok(())
}

pub(super) struct Source<R> {
    inner: R,
    offset: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R) -> Source<R> {
        Source { inner, offset: 0 }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `N` bytes of something that has begun.
    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], PcapError> {
        let offset = self.offset;
        self.maybe_array(what)?.ok_or(PcapError::Truncated { offset, what })
    }

    /// The next `N` bytes, `None` at the end of the file.
    pub(super) fn maybe_array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<[u8; N]>, PcapError> {
        let (mut bytes, start) = ([0; N], self.offset);
        let mut have = 0;
        while have < N {
            match self.inner.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(PcapError::Truncated { offset: start, what }),
                Ok(n) => have += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(PcapError::Io { offset: self.offset, source }),
            }
        }
        self.offset += N as u64;
        Ok(Some(bytes))
    }

    /// Exactly `len` bytes into `into`, whose memory grows only as the file yields them.
    pub(super) fn fill(
        &mut self,
        into: &mut Vec<u8>,
        len: u64,
        what: &'static str,
    ) -> Result<(), PcapError> {
        into.clear();
        let offset = self.offset;
        let got = (&mut self.inner).take(len).read_to_end(into);
        self.advanced(got.map(|n| n as u64), offset, len, what)
    }

    /// Passes over `len` bytes.
    pub(super) fn skip(&mut self, len: u64, what: &'static str) -> Result<(), PcapError> {
        let offset = self.offset;
        let got = std::io::copy(&mut (&mut self.inner).take(len), &mut std::io::sink());
        self.advanced(got, offset, len, what)
    }

    fn advanced(
        &mut self,
        got: std::io::Result<u64>,
        offset: u64,
        wanted: u64,
        what: &'static str,
    ) -> Result<(), PcapError> {
        let got = got.map_err(|source| PcapError::Io { offset, source })?;
        self.offset += got;
        if got < wanted { Err(PcapError::Truncated { offset, what }) } else { Ok(()) }
    }
}
