//! IGMP: version 3 (RFC 3376 §4), and as much of versions 2 (RFC 2236) and 1 (RFC 1112) as a host
//! needs to live with older queriers.

use core::net::Ipv4Addr;

use crate::bytes::{array, be16, first, put, room};
use crate::checksum;
use crate::listener::{Address, GroupReport, Query, Sources, floating, unexpected};
use crate::{Layer, WireError};

/// Bytes of a message of version 1 or 2, and of the part that all versions' queries share.
pub const V2_LEN: usize = 8;
/// Bytes of a version 3 query before its sources.
pub const QUERY_LEN: usize = 12;
const CHECKSUM: usize = 2;
const GROUP: usize = 4;

/// Message types.
pub mod kind {
    /// Membership query.
    pub const QUERY: u8 = 0x11;
    /// Version 1: I do.
    pub const V1_REPORT: u8 = 0x12;
    /// Version 2: I do.
    pub const V2_REPORT: u8 = 0x16;
    /// Version 2: I no longer do.
    pub const V2_LEAVE: u8 = 0x17;
    /// Version 3: the groups and sources that the sender listens to.
    pub const V3_REPORT: u8 = 0x22;
}

impl Address for Ipv4Addr {
    const LEN: usize = 4;
    const LAYER: Layer = Layer::Igmp;
    const REPORT: u8 = kind::V3_REPORT;

    fn get(from: &[u8]) -> Self {
        from.first_chunk::<4>().map_or(Self::UNSPECIFIED, |octets| Self::from_octets(*octets))
    }

    fn put(self, to: &mut [u8]) {
        to[..4].copy_from_slice(&self.octets());
    }
}

/// A query.
pub type IgmpQuery<'a> = Query<'a, Ipv4Addr>;
/// The records of a version 3 report.
pub type IgmpReport<'a> = GroupReport<'a, Ipv4Addr>;

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
            return Err(unexpected::<Ipv4Addr>(fixed[0]));
        }
        let (code, group) = (fixed[1], Ipv4Addr::from_octets(array(fixed, GROUP)));
        if message.len() == V2_LEN {
            // RFC 3376 §7.2.1: a version 1 query is to be answered within ten seconds.
            let (version, code) = if code == 0 { (1, 100) } else { (2, code) };
            let max_response = u32::from(code) * 100;
            let sources = Sources::NONE;
            return Ok(Self { version, max_response, group, sources, robustness: 0, interval: 0 });
        }
        let fixed: &[u8; QUERY_LEN] = first(message, Layer::Igmp)?;
        let sources = Sources::first(&message[QUERY_LEN..], be16(fixed, 10))?;
        let (robustness, interval) = (fixed[8] & 7, floating(fixed[9]));
        let max_response = floating(code) * 100;
        Ok(Self { version: 3, max_response, group, sources, robustness, interval })
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn queries_of_three_versions() {
        let mut query = [0; 16];
        query[..8].copy_from_slice(&[kind::QUERY, 100, 0, 0, 239, 1, 2, 3]);
        query[8..].copy_from_slice(&[0x0a, 125, 0, 1, 10, 0, 0, 9]);
        fill_checksum(&mut query);
        assert!(checksum_ok(&query));
        let new = IgmpQuery::parse(&query).unwrap();
        assert_eq!(
            (new.version, new.max_response, new.robustness, new.interval),
            (3, 10_000, 2, 125)
        );
        assert_eq!(new.group, Ipv4Addr::new(239, 1, 2, 3));
        assert_eq!(new.sources.iter().collect::<Vec<_>>(), [Ipv4Addr::new(10, 0, 0, 9)]);
        let two = IgmpQuery::parse(&query[..8]).unwrap();
        assert_eq!((two.version, two.max_response), (2, 10_000));
        query[1] = 0;
        let one = IgmpQuery::parse(&query[..8]).unwrap();
        assert_eq!((one.version, one.max_response), (1, 10_000));
        query[1] = 0x80 | 0x1f;
        assert_eq!(IgmpQuery::parse(&query).unwrap().max_response, (0x1f << 4) * 100);
        assert!(matches!(IgmpQuery::parse(&query[..11]), Err(WireError::Truncated { .. })));
        assert!(matches!(IgmpQuery::parse(&query[..15]), Err(WireError::BadLength { .. })));
        query[0] = kind::V3_REPORT;
        assert!(matches!(IgmpQuery::parse(&query), Err(WireError::BadField { .. })));
    }

    #[test]
    fn old_messages_are_written() {
        let mut buf = [0; 8];
        emit_v2(kind::V2_LEAVE, 0, Ipv4Addr::new(239, 0, 0, 1), &mut buf).unwrap();
        assert!(checksum_ok(&buf) && buf[0] == 0x17 && buf[4..] == [239, 0, 0, 1]);
        assert!(emit_v2(kind::V2_LEAVE, 0, Ipv4Addr::new(239, 0, 0, 1), &mut buf[..7]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in vec(0u8..4, 0..120)) {
            if let Some(first) = bytes.first_mut() {
                *first = kind::QUERY;
            }
            let sound = IgmpQuery::parse(&bytes).is_ok();
            prop_assert!(!sound || bytes.len() == V2_LEN || bytes.len() >= QUERY_LEN);
        }
    }
}
