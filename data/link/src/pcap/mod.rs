//! Capture files: pcap and pcapng, read and written as streams.
//!
//! A [`Reader`] looks at the first bytes, and hands out one [`Record`] after the other, in any byte
//! order and resolution; times are always nanoseconds since 1970. A [`Writer`] makes either format.
//! [`playback`] is a link that receives a file's packets, and a [`Recorder`] writes down the
//! packets of a [traced](crate::trace) link.
//!
//! Formats: draft-ietf-opsawg-pcap (classic) and draft-ietf-opsawg-pcapng. Files come from outside:
//! any fault in one is an error that names the offset, and no length in it makes the reader hold
//! more than [`LONGEST_BLOCK`] bytes.

pub mod playback;
mod read;
mod write;

pub use read::Reader;
pub use write::{Format, Recorder, Writer};

/// The link type of Ethernet frames, which is all that weever writes.
pub const ETHERNET: u16 = 1;

/// The longest packet that is read, as libpcap has it.
pub const LONGEST_PACKET: u32 = 262_144;

/// The longest pcapng block that is held in memory; longer ones that need not be understood are
/// skipped. Wireshark's bound.
pub const LONGEST_BLOCK: u32 = 16 << 20;

/// Interfaces that a file may declare.
pub const MOST_INTERFACES: usize = 4096;

/// Which way a packet went, as its capturer saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The file does not say.
    #[default]
    Unknown,
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// A captured packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its interface, an index into [`Reader::interfaces`] or a number from
    /// [`Writer::interface`].
    pub interface: u32,
    /// Nanoseconds since 1970. 0 where the file does not say (simple packet blocks).
    pub time: u64,
    /// How long it was before it was cut to the capture's length; at least `data.len()`.
    pub original: u32,
    /// Which way it went.
    pub direction: Direction,
    /// Packets that were lost between the interface's last one and this.
    pub dropped: u64,
    /// Its bytes, from the link header on.
    pub data: &'a [u8],
}

impl<'a> Record<'a> {
    /// A whole packet on interface 0.
    pub fn whole(time: u64, data: &'a [u8]) -> Record<'a> {
        let original = u32::try_from(data.len()).unwrap_or(u32::MAX);
        Record { time, original, data, ..Record::default() }
    }
}

/// Where packets were captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name; empty where the file has none.
    pub name: String,
    /// The first header of its packets: [`ETHERNET`] or another number of the link type registry.
    pub link_type: u16,
    /// Packets were cut to this length; 0: they were not.
    pub snaplen: u32,
    /// The values of the latest interface statistics block.
    pub statistics: Statistics,
}

impl Interface {
    /// An Ethernet interface whose packets are captured whole.
    pub fn ethernet(name: impl Into<String>) -> Interface {
        let (link_type, statistics) = (ETHERNET, Statistics::default());
        Interface { name: name.into(), link_type, snaplen: 0, statistics }
    }
}

/// Counters of a capture on one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that the interface saw.
    pub received: Option<u64>,
    /// Packets that were lost for want of room.
    pub dropped: Option<u64>,
}

/// Why a capture file cannot be read, or read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The first bytes are of neither format.
    #[error("not a capture file: it starts with {start:02x?}; pcap and pcapng are understood")]
    NotACapture {
        /// The first bytes.
        start: [u8; 4],
    },
    /// The file ends in the middle of something.
    #[error("offset {offset}: the file ends within {what}; it was cut off or is still written to")]
    Truncated {
        /// Where that something starts.
        offset: u64,
        /// Its kind.
        what: &'static str,
    },
    /// The contents contradict themselves or the format.
    #[error("offset {offset}: {what}")]
    Malformed {
        /// Where.
        offset: u64,
        /// The fault.
        what: String,
    },
    /// The file cannot be read.
    #[error("offset {offset}: {source}")]
    Io {
        /// Where.
        offset: u64,
        /// The system's word.
        source: std::io::Error,
    },
}

impl PcapError {
    pub(super) fn malformed(offset: u64, what: impl Into<String>) -> PcapError {
        PcapError::Malformed { offset, what: what.into() }
    }
}

/// Which byte comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        if self == Order::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        if self == Order::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    pub(super) fn u64(self, bytes: [u8; 8]) -> u64 {
        if self == Order::Big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }
}

/// The rest of a block or header, field by field.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    order: Order,
    /// Where `rest` starts in the file.
    offset: u64,
}

impl<'a> Fields<'a> {
    pub(super) fn new(rest: &'a [u8], order: Order, offset: u64) -> Fields<'a> {
        Fields { rest, order, offset }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next `n` bytes.
    pub(super) fn bytes(&mut self, n: usize, what: &str) -> Result<&'a [u8], PcapError> {
        let Some((bytes, rest)) = self.rest.split_at_checked(n) else {
            let left = self.rest.len();
            let complaint = format!("{what} needs {n} bytes and the block has {left} left");
            return Err(PcapError::malformed(self.offset, complaint));
        };
        self.rest = rest;
        self.offset += n as u64;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], PcapError> {
        let bytes = self.bytes(N, what)?;
        Ok(std::array::from_fn(|i| bytes[i]))
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<u16, PcapError> {
        Ok(self.order.u16(self.array(what)?))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, PcapError> {
        Ok(self.order.u32(self.array(what)?))
    }

    /// Bytes that are filled up to a multiple of four.
    pub(super) fn padded(&mut self, n: usize, what: &str) -> Result<&'a [u8], PcapError> {
        let bytes = self.bytes(n, what)?;
        // Some writers leave the filling out at the end of a block; nothing is lost by allowing it.
        let filling = n.next_multiple_of(4) - n;
        self.bytes(filling.min(self.rest.len()), "padding")?;
        Ok(bytes)
    }

    /// The next option's code and value; `None` at the end.
    pub(super) fn option(&mut self) -> Result<Option<(u16, &'a [u8])>, PcapError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let code = self.u16("an option's code")?;
        let len = self.u16("an option's length")?;
        let value = self.padded(len.into(), "an option")?;
        Ok((code != 0).then_some((code, value)))
    }

    /// A number in an option's value, if it has that length.
    pub(super) fn value_u64(&self, value: &[u8]) -> Option<u64> {
        Some(self.order.u64(value.try_into().ok()?))
    }

    pub(super) fn value_u32(&self, value: &[u8]) -> Option<u32> {
        Some(self.order.u32(value.try_into().ok()?))
    }
}

const NS: u128 = 1_000_000_000;

/// The unit of an interface's timestamps and the offset to add to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    /// As option if_tsresol: the negative power of ten, or with the highest bit of two.
    resolution: u8,
    /// Seconds, as option if_tsoffset.
    offset: i64,
}

impl Ticks {
    pub(super) const MICROS: Ticks = Ticks { resolution: 6, offset: 0 };
    pub(super) const NANOS: Ticks = Ticks { resolution: 9, offset: 0 };

    pub(super) fn new(resolution: u8, offset: i64) -> Ticks {
        Ticks { resolution, offset }
    }

    /// Nanoseconds since 1970, cut to the range of a `u64` (the year 2554).
    pub(super) fn nanos(self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks);
        let power = u32::from(self.resolution & 0x7f);
        let since = if self.resolution & 0x80 != 0 {
            (ticks * NS) >> power
        } else if power <= 9 {
            ticks * 10u128.pow(9 - power)
        } else {
            // A divisor that does not fit is larger than any number of ticks.
            10u128.checked_pow(power - 9).map_or(0, |divisor| ticks / divisor)
        };
        let total = since as i128 + i128::from(self.offset) * NS as i128;
        u64::try_from(total.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
