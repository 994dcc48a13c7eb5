//! Multicast listener discovery messages: version 2 (RFC 3810 §5), and as much of version 1 (RFC
//! 2710 §3) as a listener needs to know of an older querier.

use core::net::Ipv6Addr;

use crate::bytes::{array, be16, first, put, room};
use crate::icmpv6::{fill_checksum, kind};
use crate::{Layer, WireError};

#[cfg(test)]
mod tests;

/// Bytes of a version 1 message, and of what both versions' queries share.
pub const V1_LEN: usize = 24;
/// Bytes of a version 2 query before its sources.
pub const QUERY_LEN: usize = 28;
/// Bytes of a report before its records.
pub const REPORT_LEN: usize = 8;
/// Bytes of a record before its sources.
pub const RECORD_LEN: usize = 20;

const ADDR: usize = 16;
const MAX_RESPONSE: usize = 4;
const GROUP: usize = 8;
const COUNT: usize = 6;

/// What a record says of its group (RFC 3810 §5.2.12).
pub mod record_kind {
    /// Listens to these sources.
    pub const MODE_IS_INCLUDE: u8 = 1;
    /// Listens to all sources but these.
    pub const MODE_IS_EXCLUDE: u8 = 2;
    /// From now on listens to these.
    pub const CHANGE_TO_INCLUDE: u8 = 3;
    /// From now on listens to all but these.
    pub const CHANGE_TO_EXCLUDE: u8 = 4;
    /// Listens to these too.
    pub const ALLOW_NEW: u8 = 5;
    /// Listens to these no more.
    pub const BLOCK_OLD: u8 = 6;
}

/// A list of addresses, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources<'a>(&'a [u8]);

impl<'a> Sources<'a> {
    /// All of them, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Ipv6Addr> + 'a {
        self.0.as_chunks::<ADDR>().0.iter().map(|octets| Ipv6Addr::from_octets(*octets))
    }
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MldQuery<'a> {
    /// Version of the querier: 1 or 2.
    pub version: u8,
    /// Milliseconds within which to answer.
    pub max_response: u32,
    /// The group that is asked for; unspecified: all.
    pub group: Ipv6Addr,
    /// Sources that are asked for; none: all.
    pub sources: Sources<'a>,
    /// The querier's robustness; 0: not said.
    pub robustness: u8,
    /// Seconds between the querier's general queries; 0: not said.
    pub interval: u32,
}

impl<'a> MldQuery<'a> {
    /// The values in `message`, a whole ICMPv6 message. RFC 3810 §8.1: a query of 24 bytes is
    /// version 1, of 28 or more version 2, and others "MUST be silently ignored".
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadLength`], [`WireError::BadField`] for another type.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let fixed: &[u8; V1_LEN] = first(message, Layer::Mld)?;
        if fixed[0] != kind::MLD_QUERY {
            return Err(unexpected(fixed[0]));
        }
        let (code, group) = (be16(fixed, MAX_RESPONSE), Ipv6Addr::from_octets(array(fixed, GROUP)));
        if message.len() == V1_LEN {
            let (max_response, sources) = (code.into(), Sources(&[]));
            return Ok(Self {
                version: 1,
                max_response,
                group,
                sources,
                robustness: 0,
                interval: 0,
            });
        }
        let fixed: &[u8; QUERY_LEN] = first(message, Layer::Mld)?;
        let sources = sources(&message[QUERY_LEN..], be16(fixed, 26))?;
        let (robustness, max_response) = (fixed[24] & 7, milliseconds(code));
        // RFC 3810 §5.1.9: coded as in IGMP.
        let interval = crate::igmp::floating(fixed[25]);
        Ok(Self { version: 2, max_response, group, sources, robustness, interval })
    }
}

/// RFC 3810 §5.1.3: above 32,767 the code is a floating-point number.
const fn milliseconds(code: u16) -> u32 {
    if code < 0x8000 {
        return code as u32;
    }
    ((code & 0x0fff) as u32 | 0x1000) << ((code >> 12 & 7) + 3)
}

/// What a report says of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MldRecord<'a> {
    /// See [`record_kind`].
    pub kind: u8,
    /// The group.
    pub group: Ipv6Addr,
    /// Its sources.
    pub sources: Sources<'a>,
}

/// The records of a version 2 report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MldReport<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> MldReport<'a> {
    /// The records of `message`, a whole ICMPv6 message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadField`] for another type.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let fixed: &[u8; REPORT_LEN] = first(message, Layer::Mld)?;
        if fixed[0] != kind::MLDV2_REPORT {
            return Err(unexpected(fixed[0]));
        }
        Ok(Self { rest: &message[REPORT_LEN..], left: be16(fixed, COUNT) })
    }

    fn read(&mut self) -> Result<MldRecord<'a>, WireError> {
        let fixed: &[u8; RECORD_LEN] = first(self.rest, Layer::Mld)?;
        let after = &self.rest[RECORD_LEN..];
        let sources = sources(after, be16(fixed, 2))?;
        // Auxiliary data, in words, are stepped over.
        let len = sources.0.len() + 4 * usize::from(fixed[1]);
        let (said, max) = (len, after.len());
        self.rest = after.get(len..).ok_or(WireError::BadLength {
            layer: Layer::Mld,
            said,
            min: 0,
            max,
        })?;
        let group = Ipv6Addr::from_octets(array(fixed, 4));
        Ok(MldRecord { kind: fixed[0], group, sources })
    }
}

impl<'a> Iterator for MldReport<'a> {
    type Item = Result<MldRecord<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let record = self.read();
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

fn sources(bytes: &[u8], count: u16) -> Result<Sources<'_>, WireError> {
    let (said, max) = (ADDR * usize::from(count), bytes.len());
    let all = bytes.get(..said);
    all.map(Sources).ok_or(WireError::BadLength { layer: Layer::Mld, said, min: 0, max })
}

/// A record to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRepr<'a> {
    /// See [`record_kind`].
    pub kind: u8,
    /// The group.
    pub group: Ipv6Addr,
    /// Its sources.
    pub sources: &'a [Ipv6Addr],
}

impl RecordRepr<'_> {
    /// Bytes that it takes in a report.
    pub const fn buffer_len(&self) -> usize {
        RECORD_LEN + ADDR * self.sources.len()
    }

    fn emit(&self, buf: &mut [u8]) -> Result<(), WireError> {
        let (fixed, rest) = room::<RECORD_LEN>(buf, Layer::Mld)?;
        put(fixed, 0, [self.kind, 0]);
        put(fixed, 2, (self.sources.len() as u16).to_be_bytes());
        put(fixed, 4, self.group.octets());
        let (need, have) = (ADDR * self.sources.len(), rest.len());
        let no_room = WireError::NoRoom { layer: Layer::Mld, need, have };
        let list = rest.get_mut(..need).ok_or(no_room)?;
        for (place, source) in list.chunks_exact_mut(ADDR).zip(self.sources) {
            place.copy_from_slice(&source.octets());
        }
        Ok(())
    }
}

/// Bytes of a report with these records.
pub fn report_len(records: &[RecordRepr<'_>]) -> usize {
    REPORT_LEN + records.iter().map(RecordRepr::buffer_len).sum::<usize>()
}

/// Writes a version 2 report to the front of `buf`, with its checksum between these addresses.
///
/// # Errors
/// [`WireError::NoRoom`].
pub fn emit_report(
    records: &[RecordRepr<'_>],
    buf: &mut [u8],
    addresses: &[u8; 32],
) -> Result<(), WireError> {
    let (need, have) = (report_len(records), buf.len());
    let message = buf.get_mut(..need).ok_or(WireError::NoRoom { layer: Layer::Mld, need, have })?;
    let (fixed, mut rest) = room::<REPORT_LEN>(message, Layer::Mld)?;
    *fixed = [0; REPORT_LEN];
    fixed[0] = kind::MLDV2_REPORT;
    put(fixed, COUNT, (records.len() as u16).to_be_bytes());
    for record in records {
        record.emit(rest)?;
        rest = &mut rest[record.buffer_len()..];
    }
    fill_checksum(message, addresses);
    Ok(())
}

fn unexpected(value: u8) -> WireError {
    WireError::BadField { layer: Layer::Mld, field: "type", value: value.into() }
}
