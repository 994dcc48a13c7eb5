//! The differences between IPv4 and IPv6 in a host's configuration and its lookup tables.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::addr::Prefix;
use crate::fib::Fib;
use crate::iface::{self, IfaceId, Interface};
use crate::ipv6::Locals6;
use crate::ipv6::addr::{Scope, is_link_local};
use crate::route::{Hop, Route};

/// The configured routes of both families, in the order in which they were added; without the connected ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    pub(super) v4: Vec<Route<Ipv4Addr>>,
    pub(super) v6: Vec<Route<Ipv6Addr>>,
}

/// The forwarding tables of both families.
#[derive(Clone, Debug)]
pub struct Fibs {
    pub(super) v4: Arc<Fib<Ipv4Addr, Hop<Ipv4Addr>>>,
    pub(super) v6: Arc<Fib<Ipv6Addr, Hop<Ipv6Addr>>>,
}

/// An address family of a host's network.
pub trait Family: iface::Family + Into<IpAddr> {
    /// Which groups can be joined, for messages.
    const JOINABLE: &'static str;

    /// Whether it is a group of a link or wider.
    fn can_be_joined(self) -> bool;
    /// The routes of this family.
    fn routes(all: &mut Routes) -> &mut Vec<Route<Self>>;
    /// The forwarding table of this family.
    fn fib(all: &Fibs) -> &Fib<Self, Hop<Self>>;
    /// Whether every link has such addresses of its own, so that no route says by which one they come.
    fn is_local_to_a_link(self) -> bool;
    /// Whether there can be only one of both.
    fn same_route(a: &Route<Self>, b: &Route<Self>) -> bool;
    /// The interface on whose subnet an address is: that with the longest prefix.
    fn subnet_of(interfaces: &[Interface], addr: Self) -> Option<IfaceId>;
}

impl Family for Ipv4Addr {
    const JOINABLE: &'static str = "groups are 224.0.0.0 to 239.255.255.255";

    fn can_be_joined(self) -> bool {
        self.is_multicast()
    }

    fn routes(all: &mut Routes) -> &mut Vec<Route<Self>> {
        &mut all.v4
    }

    #[inline]
    fn fib(all: &Fibs) -> &Fib<Self, Hop<Self>> {
        &all.v4
    }

    #[inline]
    fn is_local_to_a_link(self) -> bool {
        false
    }

    fn same_route(a: &Route<Self>, b: &Route<Self>) -> bool {
        (a.to, a.metric) == (b.to, b.metric)
    }

    fn subnet_of(interfaces: &[Interface], addr: Self) -> Option<IfaceId> {
        let near = |iface: &Interface| {
            let subnets = iface.v4.iter().filter(|cidr| cidr.contains(addr));
            subnets.map(|cidr| (cidr.prefix_len(), iface.id)).max_by_key(|(len, _)| *len)
        };
        longest(interfaces.iter().filter_map(near))
    }
}

impl Family for Ipv6Addr {
    const JOINABLE: &'static str = "groups of a link and wider begin with ff02 to ff0e";

    fn can_be_joined(self) -> bool {
        self.is_multicast() && Scope::of(self) >= Scope::LINK
    }

    fn routes(all: &mut Routes) -> &mut Vec<Route<Self>> {
        &mut all.v6
    }

    #[inline]
    fn fib(all: &Fibs) -> &Fib<Self, Hop<Self>> {
        &all.v6
    }

    #[inline]
    fn is_local_to_a_link(self) -> bool {
        is_link_local(self)
    }

    /// Several routers may advertise the same.
    fn same_route(a: &Route<Self>, b: &Route<Self>) -> bool {
        let key = |route: &Route<Self>| (route.to, route.metric, route.origin, route.iface);
        key(a) == key(b)
    }

    fn subnet_of(interfaces: &[Interface], addr: Self) -> Option<IfaceId> {
        let near = |prefix: &Prefix<Ipv6Addr>| prefix.contains(addr) && !is_link_local(addr);
        let on_link = |id, locals: &Locals6| {
            locals.on_link().filter(near).map(|prefix| (prefix.prefix_len(), id)).max()
        };
        longest(interfaces.iter().filter_map(|iface| on_link(iface.id, &iface.v6)))
    }
}

fn longest(subnets: impl Iterator<Item = (u8, IfaceId)>) -> Option<IfaceId> {
    subnets.max_by_key(|(len, _)| *len).map(|(_, id)| id)
}
