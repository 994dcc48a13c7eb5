//! Where a datagram goes next (RFC 1122 §3.3.1): connected subnets, static routes and a default
//! gateway, by longest prefix.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use crate::addr::{Cidr, Locals};

/// A way to a set of destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The destinations; [`Cidr::ALL`] makes it the default route.
    pub destinations: Cidr,
    /// The router to hand datagrams to; `None` if the destinations are neighbours.
    pub gateway: Option<Ipv4Addr>,
    /// Our address to speak from.
    pub source: Ipv4Addr,
}

/// Where one datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// The neighbour whose link address is needed.
    pub neighbour: Ipv4Addr,
    /// Our address to speak from.
    pub source: Ipv4Addr,
}

/// A route that cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// RFC 1122 §3.3.1.1: a first-hop gateway is on a connected network.
    #[error("gateway {gateway} is on no connected subnet: add an address on its subnet first")]
    GatewayOffLink {
        /// The gateway.
        gateway: Ipv4Addr,
    },
    /// There is one for exactly these destinations.
    #[error("there is already a route to {destinations}: remove it first")]
    Exists {
        /// The destinations.
        destinations: Cidr,
    },
    /// There is none for exactly these destinations.
    #[error("there is no route to {destinations}")]
    Missing {
        /// The destinations.
        destinations: Cidr,
    },
}

/// A routing table for a host: few routes, looked through from the longest prefix to the shortest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// By descending prefix length, so that the first match is the longest.
    routes: Vec<Route>,
}

impl Routes {
    /// The routes to the subnets that our addresses are on.
    pub fn connected(locals: &Locals) -> Self {
        let mut routes = Self::default();
        for cidr in locals.iter() {
            // Two addresses on one subnet: the first one stays the source.
            let route = Route { destinations: cidr.network(), gateway: None, source: cidr.addr() };
            let _ = routes.insert(route);
        }
        routes
    }

    /// Adds a route through a gateway; its source is that of the gateway's subnet.
    ///
    /// # Errors
    /// [`RouteError::GatewayOffLink`], [`RouteError::Exists`].
    pub fn add(&mut self, destinations: Cidr, gateway: Ipv4Addr) -> Result<(), RouteError> {
        let near = self.routes.iter().find(|r| r.gateway.is_none() && covers(r, gateway));
        let source = near.ok_or(RouteError::GatewayOffLink { gateway })?.source;
        let destinations = destinations.network();
        self.insert(Route { destinations, gateway: Some(gateway), source })
    }

    /// Removes the route to exactly these destinations.
    ///
    /// # Errors
    /// [`RouteError::Missing`].
    pub fn remove(&mut self, destinations: Cidr) -> Result<Route, RouteError> {
        let destinations = destinations.network();
        let at = self.routes.iter().position(|r| r.destinations == destinations);
        Ok(self.routes.remove(at.ok_or(RouteError::Missing { destinations })?))
    }

    /// Where a datagram to the unicast address `dst` goes; `None` if there is no route.
    ///
    /// RFC 1122 §3.3.1.1: "If the destination is on a connected network, the datagram is sent
    /// directly to the destination host; otherwise, it has to be routed to a gateway on a
    /// connected network." Broadcasts and groups have no neighbour: they go by
    /// [`crate::addr::Locals::classify`] and [`crate::ethernet::multicast_mac`].
    #[inline]
    pub fn next_hop(&self, dst: Ipv4Addr) -> Option<NextHop> {
        let route = self.routes.iter().find(|route| covers(route, dst))?;
        Some(NextHop { neighbour: route.gateway.unwrap_or(dst), source: route.source })
    }

    /// All routes, longest prefix first.
    pub fn iter(&self) -> impl Iterator<Item = Route> + '_ {
        self.routes.iter().copied()
    }

    fn insert(&mut self, route: Route) -> Result<(), RouteError> {
        let destinations = route.destinations;
        if self.routes.iter().any(|r| r.destinations == destinations) {
            return Err(RouteError::Exists { destinations });
        }
        let len = destinations.prefix_len();
        let at = self.routes.partition_point(|r| r.destinations.prefix_len() >= len);
        self.routes.insert(at, route);
        Ok(())
    }
}

#[inline]
fn covers(route: &Route, ip: Ipv4Addr) -> bool {
    route.destinations.contains(ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn ip(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    fn table() -> Routes {
        let ours = ["10.0.0.1/24", "192.168.7.5/16"].map(|text| text.parse().unwrap());
        Routes::connected(&Locals::new(&ours))
    }

    #[test]
    fn neighbours_gateways_and_nowhere() {
        let mut routes = table();
        assert_eq!(routes.next_hop(ip("8.8.8.8")), None);
        routes.add(Cidr::ALL, ip("10.0.0.254")).unwrap();
        routes.add("172.16.0.0/12".parse().unwrap(), ip("192.168.0.1")).unwrap();
        for (dst, neighbour, source) in [
            ("10.0.0.9", "10.0.0.9", "10.0.0.1"),
            ("192.168.200.1", "192.168.200.1", "192.168.7.5"),
            ("172.31.0.1", "192.168.0.1", "192.168.7.5"),
            ("8.8.8.8", "10.0.0.254", "10.0.0.1"),
        ] {
            let wanted = NextHop { neighbour: ip(neighbour), source: ip(source) };
            assert_eq!(routes.next_hop(ip(dst)), Some(wanted), "{dst}");
        }
        routes.remove(Cidr::ALL).unwrap();
        assert_eq!(routes.next_hop(ip("8.8.8.8")), None);
    }

    #[test]
    fn impossible_changes_are_refused() {
        let (mut routes, gateway) = (table(), ip("172.16.0.1"));
        assert_eq!(routes.add(Cidr::ALL, gateway), Err(RouteError::GatewayOffLink { gateway }));
        let destinations = "10.0.0.0/24".parse().unwrap();
        let host_bits = "10.0.0.77/24".parse().unwrap();
        let exists = RouteError::Exists { destinations };
        assert_eq!(routes.add(host_bits, ip("10.0.0.254")), Err(exists));
        let missing = RouteError::Missing { destinations: Cidr::ALL };
        assert_eq!(routes.remove(Cidr::ALL), Err(missing));
    }

    proptest! {
        #[test]
        fn the_longest_prefix_wins(
            prefixes in vec((any::<u32>(), 0u8..33), 0..20), dst: u32, copies in 0usize..20,
        ) {
            let mut routes = table();
            for (at, (addr, len)) in prefixes.into_iter().enumerate() {
                let addr = if at < copies { dst } else { addr };
                let cidr = Cidr::new(Ipv4Addr::from_bits(addr), len).unwrap();
                let gateway = Ipv4Addr::from_bits(0x0a00_0002 + at as u32);
                // A second route to the same prefix is refused, which changes nothing.
                let _ = routes.add(cidr, gateway);
            }
            let dst = Ipv4Addr::from_bits(dst);
            let best = routes
                .iter()
                .filter(|r| r.destinations.contains(dst))
                .max_by_key(|r| r.destinations.prefix_len());
            let wanted = best.map(|r| r.gateway.unwrap_or(dst));
            prop_assert_eq!(routes.next_hop(dst).map(|hop| hop.neighbour), wanted);
        }
    }
}
