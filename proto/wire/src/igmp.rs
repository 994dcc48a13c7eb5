//! IGMP: version 3 (RFC 3376 §4), and as much of versions 2 (RFC 2236) and 1 (RFC 1112) as a host
//! needs to live with older queriers.

use core::net::Ipv4Addr;

use crate::bytes::{array, be16, first, put, room};
use crate::checksum;
use crate::{Layer, WireError};

#[cfg(test)]
mod tests;

/// Bytes of a message of version 1 or 2, and of what all versions' queries share.
pub const V2_LEN: usize = 8;
/// Bytes of a version 3 query before its sources.
pub const QUERY_LEN: usize = 12;
/// Bytes of a version 3 report before its records.
pub const REPORT_LEN: usize = 8;
/// Bytes of a record before its sources.
pub const RECORD_LEN: usize = 8;

const ADDR: usize = 4;
const CHECKSUM: usize = 2;
const GROUP: usize = 4;

/// Message types.
pub mod kind {
    /// Who listens?
    pub const QUERY: u8 = 0x11;
    /// Version 1: I do.
    pub const V1_REPORT: u8 = 0x12;
    /// Version 2: I do.
    pub const V2_REPORT: u8 = 0x16;
    /// Version 2: I no longer do.
    pub const V2_LEAVE: u8 = 0x17;
    /// Version 3: what I listen to.
    pub const V3_REPORT: u8 = 0x22;
}

/// A list of addresses, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources<'a>(&'a [u8]);

impl<'a> Sources<'a> {
    /// All of them, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Ipv4Addr> + 'a {
        self.0.as_chunks::<ADDR>().0.iter().map(|octets| Ipv4Addr::from_octets(*octets))
    }
}

/// Whether the checksum over a whole message is right.
pub fn checksum_ok(message: &[u8]) -> bool {
    message.len() >= V2_LEN && checksum::is_valid(checksum::sum(message))
}

/// Writes the checksum of a whole message of at least four bytes.
pub fn fill_checksum(message: &mut [u8]) {
    if let Some(field) = message.get_mut(CHECKSUM..CHECKSUM + 2) {
        field.fill(0);
        let check = checksum::finish(checksum::sum(message));
        message[CHECKSUM..CHECKSUM + 2].copy_from_slice(&check.to_be_bytes());
    }
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgmpQuery<'a> {
    /// Version of the querier: 1, 2 or 3.
    pub version: u8,
    /// Milliseconds within which to answer.
    pub max_response: u32,
    /// The group that is asked for; unspecified: all.
    pub group: Ipv4Addr,
    /// Sources that are asked for; none: all.
    pub sources: Sources<'a>,
    /// The querier's robustness; 0: not said.
    pub robustness: u8,
    /// Seconds between its general queries; 0: not said.
    pub interval: u32,
}

impl<'a> IgmpQuery<'a> {
    /// The values in `message`, a whole IGMP message whose checksum was found right. RFC 3376 §7.1:
    /// a query of 8 bytes is version 1 if its code is zero, else version 2, and one of 12 or more
    /// is version 3; others "MUST be silently ignored".
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadLength`], [`WireError::BadField`] for another type.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let fixed: &[u8; V2_LEN] = first(message, Layer::Igmp)?;
        if fixed[0] != kind::QUERY {
            return Err(unexpected(fixed[0]));
        }
        let (code, group) = (fixed[1], Ipv4Addr::from_octets(array(fixed, GROUP)));
        if message.len() == V2_LEN {
            // RFC 3376 §7.2.1: a version 1 query is to be answered within ten seconds.
            let (version, code) = if code == 0 { (1, 100) } else { (2, code) };
            let max_response = u32::from(code) * 100;
            let sources = Sources(&[]);
            return Ok(Self { version, max_response, group, sources, robustness: 0, interval: 0 });
        }
        let fixed: &[u8; QUERY_LEN] = first(message, Layer::Igmp)?;
        let sources = sources(&message[QUERY_LEN..], be16(fixed, 10))?;
        let (robustness, interval) = (fixed[8] & 7, floating(fixed[9]));
        let max_response = floating(code) * 100;
        Ok(Self { version: 3, max_response, group, sources, robustness, interval })
    }
}

/// RFC 3376 §4.1.1: from 128 on, the code is a floating-point number.
pub(crate) const fn floating(code: u8) -> u32 {
    if code < 0x80 {
        return code as u32;
    }
    ((code & 0x0f) as u32 | 0x10) << ((code >> 4 & 7) + 3)
}

/// What a report says of one group. The kinds are those of [`crate::mld::record_kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgmpRecord<'a> {
    /// What is said.
    pub kind: u8,
    /// The group.
    pub group: Ipv4Addr,
    /// Its sources.
    pub sources: Sources<'a>,
}

/// The records of a version 3 report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgmpReport<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> IgmpReport<'a> {
    /// The records of `message`, a whole IGMP message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadField`] for another type.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let fixed: &[u8; REPORT_LEN] = first(message, Layer::Igmp)?;
        if fixed[0] != kind::V3_REPORT {
            return Err(unexpected(fixed[0]));
        }
        Ok(Self { rest: &message[REPORT_LEN..], left: be16(fixed, 6) })
    }

    fn read(&mut self) -> Result<IgmpRecord<'a>, WireError> {
        let fixed: &[u8; RECORD_LEN] = first(self.rest, Layer::Igmp)?;
        let after = &self.rest[RECORD_LEN..];
        let sources = sources(after, be16(fixed, 2))?;
        let said = sources.0.len() + 4 * usize::from(fixed[1]);
        let bad = WireError::BadLength { layer: Layer::Igmp, said, min: 0, max: after.len() };
        self.rest = after.get(said..).ok_or(bad)?;
        let group = Ipv4Addr::from_octets(array(fixed, GROUP));
        Ok(IgmpRecord { kind: fixed[0], group, sources })
    }
}

impl<'a> Iterator for IgmpReport<'a> {
    type Item = Result<IgmpRecord<'a>, WireError>;

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
    all.map(Sources).ok_or(WireError::BadLength { layer: Layer::Igmp, said, min: 0, max })
}

/// Writes a message of version 1 or 2, checksum included: a report, a leave, or a query.
///
/// # Errors
/// [`WireError::NoRoom`].
pub fn emit_v2(kind: u8, code: u8, group: Ipv4Addr, buf: &mut [u8]) -> Result<(), WireError> {
    let (fixed, _) = room::<V2_LEN>(buf, Layer::Igmp)?;
    *fixed = [kind, code, 0, 0, 0, 0, 0, 0];
    put(fixed, GROUP, group.octets());
    fill_checksum(fixed);
    Ok(())
}

fn unexpected(value: u8) -> WireError {
    WireError::BadField { layer: Layer::Igmp, field: "type", value: value.into() }
}
