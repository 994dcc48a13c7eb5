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

mod error;
mod fields;
pub mod playback;
mod read;
mod recorder;
mod time;
mod write;

pub use error::PcapError;
pub use read::Reader;
pub use recorder::Recorder;
pub use write::{Format, Writer};

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

#[cfg(test)]
mod tests;
