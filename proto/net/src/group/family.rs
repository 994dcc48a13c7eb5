//! What is different between IGMP and MLD: addresses, numbers, and where the fields are.

use core::fmt::Debug;
use core::net::{Ipv4Addr, Ipv6Addr};

use weever_wire::icmpv6;
use weever_wire::igmp::{self, IgmpQuery};
use weever_wire::mld::{self, MldQuery};

use super::Version;

/// A query, of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<A> {
    /// Of which protocol version the querier is.
    pub version: Version,
    /// The group that is asked for; `None`: all.
    pub group: Option<A>,
    /// Nanoseconds within which to answer.
    pub max_response: u64,
    /// 0: not said.
    pub robustness: u8,
    /// Seconds between general queries; 0: not said.
    pub interval: u32,
}

/// An address family with a protocol for groups.
pub trait Family: Copy + Ord + Debug {
    /// Where reports of the newest version go.
    const REPORTS: Self;
    /// Where "I leave" of the version before goes.
    const ROUTERS: Self;
    /// Bytes of a record before its sources.
    const RECORD_LEN: usize;
    /// Bytes of an address.
    const ADDR_LEN: usize;
    /// Types of a report of the newest version.
    const REPORT: u8;

    /// Whether it is a group.
    fn is_group(self) -> bool;
    /// Whether membership is reported at all: not that of all hosts, nor what stays on the machine.
    fn is_reported(self) -> bool;
    /// Writes the address.
    fn put(self, to: &mut [u8]);
    /// Writes a message of an older version; its length, or `None` if there is no such message.
    fn old_message(kind: OldKind, group: Self, buf: &mut [u8]) -> Option<usize>;
    /// Writes the checksum of a whole message between these addresses.
    fn fill_checksum(message: &mut [u8], src: Self, dst: Self);
}

/// A message of an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldKind {
    /// IGMPv1: I listen.
    Oldest,
    /// IGMPv2 and MLDv1: I listen.
    Report,
    /// IGMPv2 and MLDv1: I no longer do.
    Leave,
}

impl Family for Ipv4Addr {
    const REPORTS: Self = Ipv4Addr::new(224, 0, 0, 22);
    const ROUTERS: Self = Ipv4Addr::new(224, 0, 0, 2);
    const RECORD_LEN: usize = igmp::RECORD_LEN;
    const ADDR_LEN: usize = 4;
    const REPORT: u8 = igmp::kind::V3_REPORT;

    fn is_group(self) -> bool {
        self.is_multicast()
    }

    /// RFC 3376 §6: "all-systems" (224.0.0.1) is never reported.
    fn is_reported(self) -> bool {
        self.is_multicast() && self != Ipv4Addr::new(224, 0, 0, 1)
    }

    fn put(self, to: &mut [u8]) {
        to[..4].copy_from_slice(&self.octets());
    }

    fn old_message(kind: OldKind, group: Self, buf: &mut [u8]) -> Option<usize> {
        let kind = match kind {
            OldKind::Oldest => igmp::kind::V1_REPORT,
            OldKind::Report => igmp::kind::V2_REPORT,
            OldKind::Leave => igmp::kind::V2_LEAVE,
        };
        igmp::emit_v2(kind, 0, group, buf).ok()?;
        Some(igmp::V2_LEN)
    }

    fn fill_checksum(message: &mut [u8], _: Self, _: Self) {
        igmp::fill_checksum(message);
    }
}

impl Family for Ipv6Addr {
    const REPORTS: Self = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
    const ROUTERS: Self = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    const RECORD_LEN: usize = mld::RECORD_LEN;
    const ADDR_LEN: usize = 16;
    const REPORT: u8 = icmpv6::kind::MLDV2_REPORT;

    fn is_group(self) -> bool {
        self.is_multicast()
    }

    /// RFC 3810 §6: not of scopes 0 and 1, nor all nodes (ff02::1).
    fn is_reported(self) -> bool {
        let scope = self.octets()[1] & 0xf;
        self.is_multicast() && scope > 1 && self != Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)
    }

    fn put(self, to: &mut [u8]) {
        to[..16].copy_from_slice(&self.octets());
    }

    fn old_message(kind: OldKind, group: Self, buf: &mut [u8]) -> Option<usize> {
        let kind = match kind {
            OldKind::Oldest => return None,
            OldKind::Report => icmpv6::kind::MLDV1_REPORT,
            OldKind::Leave => icmpv6::kind::MLDV1_DONE,
        };
        let message = buf.get_mut(..mld::V1_LEN)?;
        message.fill(0);
        message[0] = kind;
        group.put(&mut message[8..]);
        Some(mld::V1_LEN)
    }

    fn fill_checksum(message: &mut [u8], src: Self, dst: Self) {
        let mut addresses = [0; 32];
        src.put(&mut addresses);
        dst.put(&mut addresses[16..]);
        icmpv6::fill_checksum(message, &addresses);
    }
}

impl From<IgmpQuery<'_>> for Query<Ipv4Addr> {
    fn from(query: IgmpQuery<'_>) -> Self {
        let version = match query.version {
            1 => Version::Oldest,
            2 => Version::Older,
            _ => Version::Newest,
        };
        Query {
            version,
            group: (!query.group.is_unspecified()).then_some(query.group),
            max_response: u64::from(query.max_response) * crate::MILLIS,
            robustness: query.robustness,
            interval: query.interval,
        }
    }
}

impl From<MldQuery<'_>> for Query<Ipv6Addr> {
    fn from(query: MldQuery<'_>) -> Self {
        Query {
            version: if query.version == 1 { Version::Older } else { Version::Newest },
            group: (!query.group.is_unspecified()).then_some(query.group),
            max_response: u64::from(query.max_response) * crate::MILLIS,
            robustness: query.robustness,
            interval: query.interval,
        }
    }
}
