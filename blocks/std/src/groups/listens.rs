//! A family's part of an interface: its groups, and the source address of their reports.

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_net::group::{Family, Filter};
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::{NetConfig, StateError};

/// A family whose groups an interface may be in.
pub(crate) trait InterfaceGroups: Family {
    /// The groups that the network has joined for all sources.
    fn wanted(iface: &Interface) -> Vec<Self>;
    /// Whether a group is one of them.
    fn is_joined(iface: &Interface, group: Self) -> bool;
    /// The users' own filters beside that.
    fn filters(iface: &Interface) -> &[(Self, Filter<Self>)];
    /// Sets the filters.
    fn set(
        network: &mut NetConfig,
        iface: IfaceId,
        filters: Vec<(Self, Filter<Self>)>,
    ) -> Result<(), StateError>;
    /// The address that reports come from.
    fn source(iface: &Interface) -> Self;
}

impl InterfaceGroups for Ipv4Addr {
    fn wanted(iface: &Interface) -> Vec<Ipv4Addr> {
        iface.groups.clone()
    }

    fn is_joined(iface: &Interface, group: Self) -> bool {
        iface.groups.binary_search(&group).is_ok()
    }

    fn filters(iface: &Interface) -> &[(Self, Filter<Self>)] {
        &iface.filters
    }

    fn set(
        network: &mut NetConfig,
        iface: IfaceId,
        filters: Vec<(Self, Filter<Self>)>,
    ) -> Result<(), StateError> {
        network.set_filters(iface, filters)
    }

    /// RFC 3376 §4.2.13: 0.0.0.0 while there is no address yet.
    fn source(iface: &Interface) -> Ipv4Addr {
        iface.v4.iter().next().map_or(Ipv4Addr::UNSPECIFIED, |cidr| cidr.addr())
    }
}

impl InterfaceGroups for Ipv6Addr {
    /// The joined groups, and those in which neighbours ask for our addresses, tentative ones too
    /// (RFC 4862 §5.4.2). Borrowed addresses are the kernel's to report.
    fn wanted(iface: &Interface) -> Vec<Ipv6Addr> {
        if !iface.v6_settings.enabled || iface.borrowed {
            return Vec::new();
        }
        let mut all = iface.v6.groups();
        all.extend(&iface.groups6);
        all.sort_unstable();
        all.dedup();
        all
    }

    fn is_joined(iface: &Interface, group: Self) -> bool {
        iface.groups6.binary_search(&group).is_ok() || iface.v6.in_solicited_node(group)
    }

    fn filters(iface: &Interface) -> &[(Self, Filter<Self>)] {
        &iface.filters6
    }

    fn set(
        network: &mut NetConfig,
        iface: IfaceId,
        filters: Vec<(Self, Filter<Self>)>,
    ) -> Result<(), StateError> {
        network.set_filters6(iface, filters)
    }

    /// RFC 3810 §5.2.13: the unspecified address while there is no link-local one yet.
    fn source(iface: &Interface) -> Ipv6Addr {
        iface.v6.link_local().unwrap_or(Ipv6Addr::UNSPECIFIED)
    }
}
