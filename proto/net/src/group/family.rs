//! The differences between IGMP and MLD: addresses, numbers, and where the fields are.

use core::net::{Ipv4Addr, Ipv6Addr};

use weever_wire::icmpv6;
use weever_wire::listener::{self, Address};
use weever_wire::{igmp, mld};

use crate::addr;

/// The protocol version that is spoken, after the oldest querier heard of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// IGMPv1.
    Oldest,
    /// IGMPv2 or MLDv1.
    Older,
    /// IGMPv3 or MLDv2.
    Newest,
}

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
pub trait Family: Address + addr::Address {
    /// Where reports of the newest version go.
    const REPORTS: Self;
    /// Where "I leave" of the version before goes.
    const ROUTERS: Self;
    /// The newest version of its protocol.
    const NEWEST: u8;

    /// Whether it is a group.
    fn is_group(self) -> bool;
    /// Whether membership is reported at all: not for the group of all hosts, nor for groups of the
    /// machine itself.
    fn is_reported(self) -> bool;
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
    const NEWEST: u8 = 3;

    fn is_group(self) -> bool {
        self.is_multicast()
    }

    /// RFC 3376 §6: "all-systems" (224.0.0.1) is never reported.
    fn is_reported(self) -> bool {
        self.is_multicast() && self != Ipv4Addr::new(224, 0, 0, 1)
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
    const NEWEST: u8 = 2;

    fn is_group(self) -> bool {
        self.is_multicast()
    }

    /// RFC 3810 §6: not of scopes 0 and 1, nor all nodes (ff02::1).
    fn is_reported(self) -> bool {
        let scope = self.octets()[1] & 0xf;
        self.is_multicast() && scope > 1 && self != Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)
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

impl<A: Family> From<listener::Query<'_, A>> for Query<A> {
    fn from(query: listener::Query<'_, A>) -> Self {
        let version = match A::NEWEST.saturating_sub(query.version) {
            0 => Version::Newest,
            1 => Version::Older,
            _ => Version::Oldest,
        };
        Query {
            version,
            group: Some(query.group).filter(|group| *group != A::UNSPECIFIED),
            max_response: u64::from(query.max_response) * crate::MILLIS,
            robustness: query.robustness,
            interval: query.interval,
        }
    }
}
