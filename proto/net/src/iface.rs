//! Network interfaces: links or VLANs, with their addresses, groups and settings.
//!
//! An interface is a link, or one VLAN of a link (IEEE 802.1Q): several may share a link. Its
//! number stays while it exists; packets carry it in their metadata.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use weever_wire::MacAddr;

use crate::addr::Locals;
use crate::group::Filter;
use crate::ipv4;
use crate::ipv6::addr::{ALL_NODES, multicast_mac, solicited_node};
use crate::ipv6::{Locals6, V6Settings};

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
    /// Its VLAN on the link; `None`: untagged frames.
    pub vlan: Option<u16>,
    /// Its link address.
    pub mac: MacAddr,
    /// Longest IP packet that it sends, in bytes.
    pub mtu: u16,
    /// Whether its link completes the transport checksums of the packets it sends.
    pub tx_checksum: bool,
    /// Whether it is used: an interface that is down neither receives nor sends, and has no routes.
    pub up: bool,
    /// How often it has gone down. A reader that polls sees by it that it was down in between.
    pub downs: u32,
    /// Whether packets that it receives may be forwarded, if forwarding is on.
    pub forwarding: bool,
    /// Whether its addresses are borrowed from another stack on the same station, the kernel's:
    /// that one asks for neighbours, answers those that ask, and announces and defends the
    /// addresses. Nothing of the kind is done here.
    pub borrowed: bool,
    /// Its IPv4 addresses.
    pub v4: Locals,
    /// IPv4 addresses that wait for the probes of RFC 5227 §2.1.1 before they are used.
    pub tentative: Locals,
    /// IPv4 addresses that were to be used and belong to another station.
    pub duplicate: Locals,
    /// Its IPv6 addresses, in any state. The owner of its [`ndp::Node`](crate::ndp::Node) keeps the
    /// states.
    pub v6: Locals6,
    /// Whether and how it speaks IPv6.
    pub v6_settings: V6Settings,
    /// IPv6 groups that it has joined, ascending; those of all nodes and of its own addresses are
    /// not among them.
    pub groups6: Vec<Ipv6Addr>,
    /// IPv4 groups that it has joined, ascending; that of all hosts (224.0.0.1) is not among them,
    /// for every host is in it.
    pub groups: Vec<Ipv4Addr>,
    /// IPv4 groups, ascending, that users of the host want to hear beside [`groups`](Self::groups),
    /// and which of their sources; the owner of its
    /// [`Memberships`](crate::group::Memberships) keeps them.
    pub filters: Vec<(Ipv4Addr, Filter<Ipv4Addr>)>,
    /// The same of IPv6, beside [`groups6`](Self::groups6).
    pub filters6: Vec<(Ipv6Addr, Filter<Ipv6Addr>)>,
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
            downs: 0,
            forwarding: true,
            borrowed: false,
            v4: Locals::default(),
            tentative: Locals::default(),
            duplicate: Locals::default(),
            v6: Locals6::default(),
            v6_settings: V6Settings::default(),
            groups6: Vec::new(),
            groups: Vec::new(),
            filters: Vec::new(),
            filters6: Vec::new(),
        }
    }

    /// The same with these IPv4 addresses.
    #[must_use]
    pub fn with_v4(mut self, v4: Locals) -> Self {
        self.v4 = v4;
        self
    }

    /// The same speaking IPv6, with these addresses and a link-local one.
    #[must_use]
    pub fn with_v6(mut self, v6: Locals6) -> Self {
        self.v6 = v6;
        self.v6_settings.enabled = true;
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

    /// Whether it is in an IPv6 group, be it for some sources only: all nodes, the solicited-node
    /// groups of its addresses, and the groups it has joined.
    #[inline]
    pub fn is_member6(&self, group: Ipv6Addr) -> bool {
        self.hears_all6(group) || find(&self.filters6, group).is_some()
    }

    /// Whether it wants packets of `source` to an IPv6 group (RFC 3810 §4.2).
    #[inline]
    pub fn accepts6(&self, group: Ipv6Addr, source: Ipv6Addr) -> bool {
        self.hears_all6(group)
            || find(&self.filters6, group).is_some_and(|filter| filter.accepts(source))
    }

    #[inline]
    fn hears_all6(&self, group: Ipv6Addr) -> bool {
        group == ALL_NODES
            || self.v6.in_solicited_node(group)
            || self.groups6.binary_search(&group).is_ok()
    }

    fn is_member6_mac(&self, mac: MacAddr) -> bool {
        let own = self.v6.iter().map(|own| solicited_node(own.cidr.addr()));
        let filtered = self.filters6.iter().map(|(group, _)| *group);
        let joined = self.groups6.iter().copied().chain(filtered);
        let mut groups = own.chain(joined).chain([ALL_NODES]);
        groups.any(|group| multicast_mac(group) == mac)
    }

    /// Whether it is in an IPv4 group, be it for some sources only.
    #[inline]
    pub fn is_member(&self, group: Ipv4Addr) -> bool {
        group == ALL_HOSTS
            || self.groups.binary_search(&group).is_ok()
            || find(&self.filters, group).is_some()
    }

    /// Whether it wants packets of `source` to an IPv4 group (RFC 3376 §3.2).
    #[inline]
    pub fn accepts(&self, group: Ipv4Addr, source: Ipv4Addr) -> bool {
        group == ALL_HOSTS
            || self.groups.binary_search(&group).is_ok()
            || find(&self.filters, group).is_some_and(|filter| filter.accepts(source))
    }

    /// Whether frames to this group of stations are for it: one that a joined group is mapped to.
    #[inline]
    pub fn hears(&self, group: MacAddr) -> bool {
        if group.0[..2] == [0x33, 0x33] {
            return self.v6_settings.enabled && self.is_member6_mac(group);
        }
        let filtered = self.filters.iter().map(|(group, _)| group);
        let mut groups = self.groups.iter().chain(filtered).chain([&ALL_HOSTS]);
        groups.any(|joined| ipv4::multicast_mac(*joined) == group)
    }
}

/// The filter of a group, of those that are sorted by their groups.
#[inline]
fn find<A: Copy + Ord>(filters: &[(A, Filter<A>)], group: A) -> Option<&Filter<A>> {
    let at = filters.binary_search_by_key(&group, |(group, _)| *group).ok()?;
    filters.get(at).map(|(_, filter)| filter)
}

/// The group of all hosts of a link: RFC 1112 §4, "permanently assigned".
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
