//! Network interfaces: where a host is attached, and as whom.
//!
//! An interface is a link, or one VLAN of a link (IEEE 802.1Q): several may share a link. Its
//! number stays while it exists; it is what packets carry in their metadata.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;

use weever_wire::MacAddr;

use crate::addr::Locals;
use crate::ethernet::multicast_mac;

/// The number of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IfaceId(pub u16);

impl IfaceId {
    /// No interface.
    pub const NONE: IfaceId = IfaceId(u16::MAX);

    /// The number, to look something up by.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for IfaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes of the longest IP packet of an Ethernet (RFC 894).
pub const ETHERNET_MTU: u16 = 1500;

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub id: IfaceId,
    /// Its name; no other has it.
    pub name: String,
    /// The link that it sends by, as the worker counts links.
    pub link: u16,
    /// The VLAN of the link that it is; `None`: what is untagged.
    pub vlan: Option<u16>,
    /// Its link address.
    pub mac: MacAddr,
    /// Longest IP packet that it sends, in bytes.
    pub mtu: u16,
    /// Whether its link completes the transport checksums of what it sends.
    pub tx_checksum: bool,
    /// Whether it is used: an interface that is down neither receives nor sends, and has no routes.
    pub up: bool,
    /// Whether what it receives may be forwarded, if forwarding is on.
    pub forwarding: bool,
    /// Its IPv4 addresses.
    pub v4: Locals,
    /// IPv4 addresses that wait for the probes of RFC 5227 §2.1.1 before they are used.
    pub tentative: Locals,
    /// IPv4 addresses that were to be used, and somebody else has.
    pub duplicate: Locals,
    /// IPv4 groups that it has joined, ascending; that of all hosts (224.0.0.1) is not among them,
    /// for every host is in it.
    pub groups: Vec<Ipv4Addr>,
}

impl Interface {
    /// An interface on all that is untagged on `link`: up, without addresses, of an Ethernet's MTU.
    pub fn new(id: IfaceId, name: impl Into<String>, link: u16, mac: MacAddr) -> Self {
        Self {
            id,
            name: name.into(),
            link,
            vlan: None,
            mac,
            mtu: ETHERNET_MTU,
            tx_checksum: false,
            up: true,
            forwarding: true,
            v4: Locals::default(),
            tentative: Locals::default(),
            duplicate: Locals::default(),
            groups: Vec::new(),
        }
    }

    /// The same with these IPv4 addresses.
    #[must_use]
    pub fn with_v4(mut self, v4: Locals) -> Self {
        self.v4 = v4;
        self
    }

    /// The same in a VLAN.
    #[must_use]
    pub fn in_vlan(mut self, vlan: u16) -> Self {
        self.vlan = Some(vlan);
        self
    }

    /// The same with this MTU.
    #[must_use]
    pub fn with_mtu(mut self, mtu: u16) -> Self {
        self.mtu = mtu;
        self
    }

    /// Whether it is in an IPv4 group.
    #[inline]
    pub fn is_member(&self, group: Ipv4Addr) -> bool {
        group == ALL_HOSTS || self.groups.binary_search(&group).is_ok()
    }

    /// Whether frames to this group of stations are for it: one that a joined group is mapped to.
    #[inline]
    pub fn hears(&self, group: MacAddr) -> bool {
        let mut groups = self.groups.iter().chain([&ALL_HOSTS]);
        groups.any(|joined| multicast_mac(*joined) == group)
    }
}

/// The group of all hosts of a link: RFC 1112 §4, "permanently assigned".
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
