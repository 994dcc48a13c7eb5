//! Writing either format.

use std::io::{Result, Write};

use weever_packet::Nanos;

use super::read::blocks as pcapng;
use super::read::classic::NANOS;
use super::{Direction, ETHERNET, Interface, LONGEST_PACKET, Record, Statistics};
use crate::trace::{Event, Observe};

/// Which format is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One interface, no names, no directions; every tool reads it.
    Pcap,
    /// Interfaces with names, directions, drops.
    #[default]
    Pcapng,
}

/// Writes a capture file, little-endian and with times in nanoseconds. It writes in small pieces
/// and blocks as `W` does: give it a `BufWriter`. Every call leaves whole records behind, so
/// flushed records can be read while the capture goes on.
#[derive(Debug)]
pub struct Writer<W> {
    inner: W,
    format: Format,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header. `application` names the program, in formats that have a place for it.
    ///
    /// # Errors
    /// When writing fails, as in every method here.
    pub fn new(mut inner: W, format: Format, application: &str) -> Result<Writer<W>> {
        let mut block = Vec::new();
        match format {
            Format::Pcap => inner.write_all(&classic_header())?,
            Format::Pcapng => {
                section(&mut block, application);
                inner.write_all(&block)?;
            }
        }
        Ok(Writer { inner, format, interfaces: 0, block })
    }

    /// Declares an interface and returns its number. Its statistics are not written, see
    /// [`statistics`](Self::statistics). A classic file tells none from the other.
    pub fn interface(&mut self, interface: &Interface) -> Result<u32> {
        let number = self.interfaces;
        self.interfaces += 1;
        if self.format == Format::Pcapng {
            self.block(pcapng::INTERFACE, |body| {
                body.extend(interface.link_type.to_le_bytes());
                body.extend([0; 2]);
                body.extend(interface.snaplen.to_le_bytes());
                option(body, 2, interface.name.as_bytes());
                option(body, 9, &[9]);
                option(body, 0, &[]);
            })?;
        }
        Ok(number)
    }

    /// Writes a packet. Its interface was declared before, or a reader finds the file malformed;
    /// bytes beyond [`LONGEST_PACKET`] are left out.
    pub fn write(&mut self, record: &Record<'_>) -> Result<()> {
        let data = &record.data[..record.data.len().min(LONGEST_PACKET as usize)];
        let record = Record { data, ..*record };
        match self.format {
            Format::Pcap => self.classic(&record),
            Format::Pcapng => self.block(pcapng::ENHANCED, |body| enhanced(body, &record)),
        }
    }

    /// Writes the statistics of an interface's capture at a time; in classic files nothing.
    pub fn statistics(&mut self, interface: u32, time: u64, known: Statistics) -> Result<()> {
        if self.format == Format::Pcap {
            return Ok(());
        }
        self.block(pcapng::STATISTICS, |body| {
            body.extend(interface.to_le_bytes());
            timestamp(body, time);
            let values = [(4, known.received), (5, known.dropped)];
            for (code, value) in values.into_iter().filter_map(|(c, v)| Some((c, v?))) {
                option(body, code, &value.to_le_bytes());
            }
            option(body, 0, &[]);
        })
    }

    /// Flushes the written records.
    pub fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    /// The underlying writer, not flushed.
    pub fn into_inner(self) -> W {
        self.inner
    }

    fn classic(&mut self, record: &Record<'_>) -> Result<()> {
        let block = &mut self.block;
        block.clear();
        block.extend(((record.time / 1_000_000_000) as u32).to_le_bytes());
        block.extend(((record.time % 1_000_000_000) as u32).to_le_bytes());
        block.extend((record.data.len() as u32).to_le_bytes());
        block.extend(record.original.max(record.data.len() as u32).to_le_bytes());
        block.extend(record.data);
        self.inner.write_all(block)
    }

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        put_block(&mut self.block, kind, body);
        self.inner.write_all(&self.block)
    }
}

fn classic_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&NANOS.to_le_bytes());
    header[4..6].copy_from_slice(&2u16.to_le_bytes());
    header[6..8].copy_from_slice(&4u16.to_le_bytes());
    header[16..20].copy_from_slice(&LONGEST_PACKET.to_le_bytes());
    header[20..].copy_from_slice(&u32::from(ETHERNET).to_le_bytes());
    header
}

fn section(block: &mut Vec<u8>, application: &str) {
    put_block(block, pcapng::SECTION, |body| {
        body.extend(pcapng::BYTE_ORDER.to_le_bytes());
        body.extend([1, 0, 0, 0]);
        // The section's length is not known beforehand.
        body.extend([0xff; 8]);
        option(body, 4, application.as_bytes());
        option(body, 0, &[]);
    });
}

fn enhanced(body: &mut Vec<u8>, record: &Record<'_>) {
    body.extend(record.interface.to_le_bytes());
    timestamp(body, record.time);
    body.extend((record.data.len() as u32).to_le_bytes());
    body.extend(record.original.max(record.data.len() as u32).to_le_bytes());
    body.extend(record.data);
    fill_up(body);
    let flags: u32 = match record.direction {
        Direction::Unknown => 0,
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    };
    if flags == 0 && record.dropped == 0 {
        return;
    }
    if flags != 0 {
        option(body, 2, &flags.to_le_bytes());
    }
    if record.dropped != 0 {
        option(body, 4, &record.dropped.to_le_bytes());
    }
    option(body, 0, &[]);
}

/// The high half comes first in either byte order.
fn timestamp(body: &mut Vec<u8>, time: u64) {
    body.extend(((time >> 32) as u32).to_le_bytes());
    body.extend((time as u32).to_le_bytes());
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(u16::MAX as usize)];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    fill_up(body);
}

fn fill_up(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

/// A block: `body` appends the contents, which are then enclosed in type and lengths.
fn put_block(block: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    block.clear();
    block.extend(kind.to_le_bytes());
    block.extend([0; 4]);
    body(block);
    let total = block.len() as u32 + 4;
    block[4..8].copy_from_slice(&total.to_le_bytes());
    block.extend(total.to_le_bytes());
}

/// An observer for a [`TracedLink`](crate::trace::TracedLink) that writes a capture file: each link
/// becomes an interface of its name.
///
/// ```no_run
/// use std::{fs::File, io::BufWriter};
/// use weever_link::pcap::{Format, Recorder, Writer};
/// use weever_link::trace::Shared;
///
/// let file = BufWriter::new(File::create("both-ends.pcapng")?);
/// let mut recorder = Recorder::new(Writer::new(file, Format::Pcapng, "weever")?, 0);
/// let observer = Shared::new(move |event| recorder.record(event));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Recorder<W> {
    writer: Writer<W>,
    /// Offset from an event's time to nanoseconds since 1970.
    epoch: u64,
    /// By number.
    interfaces: Vec<String>,
    error: Option<std::io::Error>,
}

impl<W: Write + Send> Observe for Recorder<W> {
    fn see(&mut self, burst: &mut dyn Iterator<Item = Event<'_>>) {
        burst.for_each(|event| self.record(&event));
    }
}

/// One that may be taken away while links are still in use.
impl<W: Write + Send> Observe for Option<Recorder<W>> {
    fn see(&mut self, burst: &mut dyn Iterator<Item = Event<'_>>) {
        if let Some(recorder) = self {
            recorder.see(burst);
        }
    }
}

impl<W: Write> Recorder<W> {
    /// Records to a fresh writer. `epoch` is added to each packet's time: 0 for a virtual clock;
    /// the difference between the two clocks for a monotonic one.
    pub fn new(writer: Writer<W>, epoch: Nanos) -> Recorder<W> {
        Recorder { writer, epoch, interfaces: Vec::new(), error: None }
    }

    /// Writes a packet down. After an error nothing more is written.
    pub fn record(&mut self, event: &Event<'_>) {
        if self.error.is_none() {
            self.error = self.write(event).err();
        }
    }

    /// Flushes, and gives the writer back.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self) -> std::io::Result<W> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.writer.flush()?;
        Ok(self.writer.into_inner())
    }

    fn write(&mut self, event: &Event<'_>) -> std::io::Result<()> {
        let known = self.interfaces.iter().position(|name| name == event.link);
        let interface = match known {
            Some(number) => number as u32,
            None => {
                self.interfaces.push(event.link.to_owned());
                self.writer.interface(&Interface::ethernet(event.link))?
            }
        };
        let time = self.epoch.saturating_add(event.now);
        let direction = event.direction;
        let whole = Record::whole(time, event.packet.data());
        self.writer.write(&Record { interface, direction, ..whole })
    }
}
