//! pcapng: blocks that state their own length, in sections of one byte order each.

use std::io::Read;

use super::super::{
    Direction, Fields, Interface, LONGEST_BLOCK, MOST_INTERFACES, Order, PcapError, Record,
    Statistics, Ticks,
};
use super::classic::{Source, check_length};

/// Section header; reads the same in both byte orders.
pub(in super::super) const SECTION: u32 = 0x0a0d_0d0a;
pub(in super::super) const BYTE_ORDER: u32 = 0x1a2b_3c4d;
pub(in super::super) const INTERFACE: u32 = 1;
/// Obsolete, but old files have it.
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
pub(in super::super) const STATISTICS: u32 = 5;
pub(in super::super) const ENHANCED: u32 = 6;

/// Type, length, and the length again at the end.
pub(in super::super) const AROUND: u32 = 12;

#[derive(Debug)]
pub(super) struct Sections {
    order: Order,
    /// Of all sections.
    interfaces: Vec<Interface>,
    ticks: Vec<Ticks>,
    /// Where the present section's interfaces start.
    first: usize,
}

impl Sections {
    /// Reads the rest of the first section's header, whose type has been read.
    pub(super) fn start<R: Read>(source: &mut Source<R>) -> Result<Sections, PcapError> {
        let (interfaces, ticks) = (Vec::new(), Vec::new());
        let mut sections = Sections { order: Order::Little, interfaces, ticks, first: 0 };
        sections.section(source)?;
        Ok(sections)
    }

    pub(super) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Reads blocks until one is a packet.
    pub(super) fn record<'b, R: Read>(
        &mut self,
        source: &mut Source<R>,
        block: &'b mut Vec<u8>,
    ) -> Result<Option<Record<'b>>, PcapError> {
        loop {
            let offset = source.offset();
            let Some(kind) = source.maybe_array::<4>("a block's type")? else { return Ok(None) };
            let kind = self.order.u32(kind);
            if kind == SECTION {
                self.section(source)?;
                continue;
            }
            if !self.body(kind, offset, source, block)? {
                continue;
            }
            if matches!(kind, ENHANCED | SIMPLE | PACKET) {
                return self.packet(kind, Fields::new(block, self.order, offset + 8)).map(Some);
            }
            self.note(kind, Fields::new(block, self.order, offset + 8))?;
        }
    }

    /// Reads a block's body and the length behind it. False: it is not needed, and was skipped.
    fn body<R: Read>(
        &self,
        kind: u32,
        offset: u64,
        source: &mut Source<R>,
        block: &mut Vec<u8>,
    ) -> Result<bool, PcapError> {
        let total = self.order.u32(source.array("a block's length")?);
        check_total(offset, total)?;
        let known = matches!(kind, INTERFACE | PACKET | SIMPLE | STATISTICS | ENHANCED);
        if known {
            if total > LONGEST_BLOCK {
                let what = format!("a block of {total} bytes; {LONGEST_BLOCK} is the most");
                return Err(PcapError::malformed(offset, what));
            }
            source.fill(block, (total - AROUND).into(), "a block")?;
        } else {
            source.skip((total - AROUND).into(), "a block")?;
        }
        self.closing(total, source)?;
        Ok(known)
    }

    /// The length that ends a block, which has to be the one that began it.
    fn closing<R: Read>(&self, total: u32, source: &mut Source<R>) -> Result<(), PcapError> {
        let offset = source.offset();
        let again = self.order.u32(source.array("a block's closing length")?);
        if again == total {
            return Ok(());
        }
        let what = format!("the block's length is {total} in front and {again} behind");
        Err(PcapError::malformed(offset, what))
    }

    /// A section's header: from here on another byte order and other interfaces hold.
    fn section<R: Read>(&mut self, source: &mut Source<R>) -> Result<(), PcapError> {
        let offset = source.offset() - 4;
        let total = source.array("a section's length")?;
        self.order = match u32::from_be_bytes(source.array("a section's byte order")?) {
            BYTE_ORDER => Order::Big,
            order if order.swap_bytes() == BYTE_ORDER => Order::Little,
            order => {
                let what = format!("the byte-order magic is {order:#x}, not {BYTE_ORDER:#x}");
                return Err(PcapError::malformed(offset + 8, what));
            }
        };
        let total = self.order.u32(total);
        check_total(offset, total)?;
        let major = self.order.u16(source.array("a section's version")?);
        if major != 1 {
            let what = format!("pcapng version {major} is not known; 1 is");
            return Err(PcapError::malformed(offset + 12, what));
        }
        // Type, length, byte order and version have been read, closing length is not.
        let Some(rest) = total.checked_sub(18) else {
            return Err(PcapError::malformed(offset, format!("a section header of {total} bytes")));
        };
        source.skip(rest.into(), "a section header")?;
        self.first = self.interfaces.len();
        self.closing(total, source)
    }

    /// A block that tells of interfaces.
    fn note(&mut self, kind: u32, fields: Fields<'_>) -> Result<(), PcapError> {
        if kind == INTERFACE { self.interface(fields) } else { self.statistics(fields) }
    }

    fn interface(&mut self, mut fields: Fields<'_>) -> Result<(), PcapError> {
        if self.interfaces.len() == MOST_INTERFACES {
            let what = format!("more than {MOST_INTERFACES} interfaces");
            return Err(PcapError::malformed(fields.offset(), what));
        }
        let link_type = fields.u16("the link type")?;
        fields.u16("reserved bytes")?;
        let snaplen = fields.u32("the longest capture")?;
        let (mut name, mut resolution, mut seconds) = (String::new(), 6, 0);
        while let Some((code, value)) = fields.option()? {
            match (code, value) {
                (2, value) => name = String::from_utf8_lossy(value).into_owned(),
                (9, [byte]) => resolution = *byte,
                (14, value) => seconds = fields.value_u64(value).unwrap_or(0) as i64,
                _ => {}
            }
        }
        let statistics = Statistics::default();
        self.interfaces.push(Interface { name, link_type, snaplen, statistics });
        self.ticks.push(Ticks::new(resolution, seconds));
        Ok(())
    }

    fn statistics(&mut self, mut fields: Fields<'_>) -> Result<(), PcapError> {
        let interface = self.known(&mut fields)?;
        fields.bytes(8, "the time")?;
        while let Some((code, value)) = fields.option()? {
            let statistics = &mut self.interfaces[interface].statistics;
            match code {
                4 => statistics.received = fields.value_u64(value),
                5 => statistics.dropped = fields.value_u64(value),
                _ => {}
            }
        }
        Ok(())
    }

    /// The interface that a block names, as an index among those of all sections.
    fn known(&self, fields: &mut Fields<'_>) -> Result<usize, PcapError> {
        let offset = fields.offset();
        let id = fields.u32("the interface's number")?;
        self.lookup(id, offset)
    }

    fn lookup(&self, id: u32, offset: u64) -> Result<usize, PcapError> {
        let index = self.first.saturating_add(id as usize);
        if index < self.interfaces.len() {
            return Ok(index);
        }
        let declared = self.interfaces.len() - self.first;
        let what = format!("interface {id}, of which the section declares {declared}");
        Err(PcapError::malformed(offset, what))
    }

    fn packet<'b>(&self, kind: u32, mut fields: Fields<'b>) -> Result<Record<'b>, PcapError> {
        let mut dropped = 0;
        let interface = match kind {
            SIMPLE => return self.simple(fields),
            ENHANCED => self.known(&mut fields)?,
            _ => {
                let (offset, id) = (fields.offset(), fields.u16("the interface's number")?);
                // All ones: the writer does not know.
                dropped = Some(fields.u16("the drops")?).filter(|n| *n != u16::MAX).unwrap_or(0);
                self.lookup(id.into(), offset)?
            }
        };
        let (high, low) = (fields.u32("the time")?, fields.u32("the time")?);
        let time = self.ticks[interface].nanos(u64::from(high) << 32 | u64::from(low));
        let at = fields.offset();
        let (captured, original) = (fields.u32("the length")?, fields.u32("the length")?);
        check_length(at, captured)?;
        let data = fields.padded(captured as usize, "the packet")?;
        let mut record = Record {
            interface: interface as u32,
            time,
            original: original.max(captured),
            direction: Direction::Unknown,
            dropped: dropped.into(),
            data,
        };
        options(&mut record, fields)?;
        Ok(record)
    }

    /// A packet of the section's first interface, without time, cut to that interface's length.
    fn simple<'b>(&self, mut fields: Fields<'b>) -> Result<Record<'b>, PcapError> {
        let at = fields.offset();
        let interface = self.lookup(0, at)?;
        let original = fields.u32("the length")?;
        let snaplen = self.interfaces[interface].snaplen;
        let captured = if snaplen == 0 { original } else { original.min(snaplen) };
        check_length(at, captured)?;
        let data = fields.padded((captured as usize).min(fields.len()), "the packet")?;
        Ok(Record { interface: interface as u32, original, data, ..Record::default() })
    }
}

fn options(record: &mut Record<'_>, mut fields: Fields<'_>) -> Result<(), PcapError> {
    while let Some((code, value)) = fields.option()? {
        match code {
            2 => {
                record.direction = match fields.value_u32(value).unwrap_or(0) & 3 {
                    1 => Direction::Inbound,
                    2 => Direction::Outbound,
                    _ => Direction::Unknown,
                }
            }
            4 => record.dropped = fields.value_u64(value).unwrap_or(0),
            _ => {}
        }
    }
    Ok(())
}

fn check_total(offset: u64, total: u32) -> Result<(), PcapError> {
    if total >= AROUND && total.is_multiple_of(4) {
        return Ok(());
    }
    let what = format!("a block of {total} bytes; it is at least {AROUND} and a multiple of 4");
    Err(PcapError::malformed(offset, what))
}
