//! The classic format: a header of 24 bytes, then 16 bytes and a packet, again and again.

use std::io::Read;

use super::super::fields::{Fields, Order};
use super::super::time::Ticks;
use super::super::{Direction, Interface, LONGEST_PACKET, PcapError, Record, Statistics};
use super::source::Source;

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
