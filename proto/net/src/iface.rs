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
use crate::group::{self, Filter};
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
    /// Its IPv4 groups, without that of all hosts (224.0.0.1), which every host is in.
    pub groups4: Groups<Ipv4Addr>,
    /// Its IPv6 groups, without those of all nodes and of its own addresses.
    pub groups6: Groups<Ipv6Addr>,
}

/// The groups of one family that an interface is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups<A> {
    /// Joined for all sources, ascending.
    pub joined: Vec<A>,
    /// Groups, ascending, that users of the host want to hear beside the joined ones, and which of their
    /// sources; the owner of the interface's [`Memberships`](crate::group::Memberships) keeps them.
    pub filters: Vec<(A, Filter<A>)>,
}

impl<A> Default for Groups<A> {
    fn default() -> Self {
        Self { joined: Vec::new(), filters: Vec::new() }
    }
}

impl<A: Copy + Ord> Groups<A> {
    /// Whether packets of any source to the group are wanted.
    #[inline]
    fn is_joined(&self, group: A) -> bool {
        self.joined.binary_search(&group).is_ok()
    }

    /// The filter of a group that users of the host want to hear.
    #[inline]
    fn filter(&self, group: A) -> Option<&Filter<A>> {
        let at = self.filters.binary_search_by_key(&group, |(group, _)| *group).ok()?;
        self.filters.get(at).map(|(_, filter)| filter)
    }

    /// All groups, be it for some sources only.
    pub fn iter(&self) -> impl Iterator<Item = A> {
        let filtered = self.filters.iter().map(|(group, _)| *group);
        self.joined.iter().copied().chain(filtered)
    }
}

/// An address family whose groups an interface can be in.
pub trait Family: group::Family {
    /// The interface's groups of this family.
    fn groups(iface: &Interface) -> &Groups<Self>;
    /// The same, to be changed.
    fn groups_mut(iface: &mut Interface) -> &mut Groups<Self>;
    /// Whether the interface is in a group without having joined it.
    fn is_in_by_itself(iface: &Interface, group: Self) -> bool;
}

impl Family for Ipv4Addr {
    #[inline]
    fn groups(iface: &Interface) -> &Groups<Self> {
        &iface.groups4
    }

    fn groups_mut(iface: &mut Interface) -> &mut Groups<Self> {
        &mut iface.groups4
    }

    #[inline]
    fn is_in_by_itself(_: &Interface, group: Self) -> bool {
        group == ALL_HOSTS
    }
}

impl Family for Ipv6Addr {
    #[inline]
    fn groups(iface: &Interface) -> &Groups<Self> {
        &iface.groups6
    }

    fn groups_mut(iface: &mut Interface) -> &mut Groups<Self> {
        &mut iface.groups6
    }

    #[inline]
    fn is_in_by_itself(iface: &Interface, group: Self) -> bool {
        group == ALL_NODES || iface.v6.in_solicited_node(group)
    }
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
            groups4: Groups::default(),
            groups6: Groups::default(),
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

    /// Whether it is in a group, be it for some sources only: those that every station or its addresses
    /// are in, and those it has joined.
    #[inline]
    pub fn is_member<A: Family>(&self, group: A) -> bool {
        let groups = A::groups(self);
        A::is_in_by_itself(self, group) || groups.is_joined(group) || groups.filter(group).is_some()
    }

    /// Whether it wants packets of `source` to a group (RFC 3376 §3.2, RFC 3810 §4.2).
    #[inline]
    pub fn accepts<A: Family>(&self, group: A, source: A) -> bool {
        let groups = A::groups(self);
        A::is_in_by_itself(self, group)
            || groups.is_joined(group)
            || groups.filter(group).is_some_and(|filter| filter.accepts(source))
    }

    /// Whether frames to this group of stations are for it: one that a joined group is mapped to.
    #[inline]
    pub fn hears(&self, group: MacAddr) -> bool {
        if group.0[..2] == [0x33, 0x33] {
            let own = self.v6.iter().map(|own| solicited_node(own.cidr.addr()));
            let mut groups = own.chain(self.groups6.iter()).chain([ALL_NODES]);
            return self.v6_settings.enabled && groups.any(|joined| multicast_mac(joined) == group);
        }
        let mut groups = self.groups4.iter().chain([ALL_HOSTS]);
        groups.any(|joined| ipv4::multicast_mac(joined) == group)
    }
}

/// The group of all hosts of a link: RFC 1112 §4, "permanently assigned".
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
