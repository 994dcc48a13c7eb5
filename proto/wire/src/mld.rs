//! Multicast listener discovery messages: version 2 (RFC 3810 §5), and as much of version 1 (RFC
//! 2710 §3) as a listener needs to know of an older querier.

use core::net::Ipv6Addr;

use crate::bytes::{array, be16, first};
use crate::icmpv6::kind;
use crate::listener::{Address, GroupReport, Query, Sources, floating, unexpected};
use crate::{Layer, WireError};

/// Bytes of a version 1 message, and of the part that both versions' queries share.
pub const V1_LEN: usize = 24;
/// Bytes of a version 2 query before its sources.
pub const QUERY_LEN: usize = 28;
const MAX_RESPONSE: usize = 4;
const GROUP: usize = 8;

impl Address for Ipv6Addr {
    const LEN: usize = 16;
    const LAYER: Layer = Layer::Mld;
    const REPORT: u8 = kind::MLDV2_REPORT;

    fn get(from: &[u8]) -> Self {
        from.first_chunk::<16>().map_or(Self::UNSPECIFIED, |octets| Self::from_octets(*octets))
    }

    fn put(self, to: &mut [u8]) {
        to[..16].copy_from_slice(&self.octets());
    }
}

/// A query.
pub type MldQuery<'a> = Query<'a, Ipv6Addr>;
/// The records of a version 2 report.
pub type MldReport<'a> = GroupReport<'a, Ipv6Addr>;

impl<'a> MldQuery<'a> {
    /// The values in `message`, a whole ICMPv6 message. RFC 3810 §8.1: a query of 24 bytes is
    /// version 1, of 28 or more version 2, and others "MUST be silently ignored".
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadLength`], [`WireError::BadField`] for another type.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let fixed: &[u8; V1_LEN] = first(message, Layer::Mld)?;
        if fixed[0] != kind::MLD_QUERY {
            return Err(unexpected::<Ipv6Addr>(fixed[0]));
        }
        let (code, group) = (be16(fixed, MAX_RESPONSE), Ipv6Addr::from_octets(array(fixed, GROUP)));
        if message.len() == V1_LEN {
            let (max_response, sources) = (code.into(), Sources::NONE);
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
        let sources = Sources::first(&message[QUERY_LEN..], be16(fixed, 26))?;
        let (robustness, max_response) = (fixed[24] & 7, milliseconds(code));
        let interval = floating(fixed[25]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in vec(0u8..4, 0..120)) {
            if let Some(first) = bytes.first_mut() {
                *first = kind::MLD_QUERY;
            }
            let sound = MldQuery::parse(&bytes).is_ok();
            prop_assert!(!sound || bytes.len() == V1_LEN || bytes.len() >= QUERY_LEN);
        }
    }

    #[test]
    fn queries_of_both_versions() {
        let mut query = [0; 44];
        query[0] = kind::MLD_QUERY;
        query[4..6].copy_from_slice(&10_000u16.to_be_bytes());
        query[8..10].copy_from_slice(&[0xff, 2]);
        query[24] = 0x0a;
        (query[25], query[27]) = (0x8f, 1);
        query[43] = 9;
        let old = MldQuery::parse(&query[..24]).unwrap();
        assert_eq!((old.version, old.max_response, old.interval), (1, 10_000, 0));
        let new = MldQuery::parse(&query).unwrap();
        assert_eq!((new.version, new.robustness, new.max_response), (2, 2, 10_000));
        assert_eq!(new.interval, 0x1f << 3);
        assert_eq!(new.group, "ff02::".parse::<Ipv6Addr>().unwrap());
        assert_eq!(new.sources.iter().collect::<Vec<_>>(), ["::9".parse::<Ipv6Addr>().unwrap()]);
        assert!(MldQuery::parse(&query[..26]).is_err() && MldQuery::parse(&query[..40]).is_err());
        assert_eq!(milliseconds(0x8000), 32_768);
        assert_eq!(milliseconds(0xffff), 0x1fff << 10);
    }
}
