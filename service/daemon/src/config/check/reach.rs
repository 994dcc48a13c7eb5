//! Checks of destinations: a host's own addresses, routes, and neighbours with fixed addresses.

use std::net::IpAddr;

use weever_net::addr::Cidr;
use weever_suggest::nearest;
use weever_wire::MacAddr;

use super::super::error::Problems;
use super::super::settings::Table;
use super::super::{ConfigError, Interface, Prefix, Route, Settings, Share};

/// The stack's own networks, as far as they are known before it starts.
pub(crate) struct Own {
    prefixes: Vec<Prefix>,
    names: Vec<String>,
    /// Whether others may be added by DHCP, router advertisements or the kernel.
    open: bool,
}

impl Own {
    /// The networks of these interfaces.
    pub(crate) fn of(interfaces: &[Interface]) -> Own {
        Own {
            prefixes: interfaces.iter().flat_map(|i| i.addresses.iter().copied()).collect(),
            names: interfaces.iter().map(|i| i.name.clone()).collect(),
            open: interfaces.iter().any(|i| i.dhcp || i.slaac || i.share == Share::Ports),
        }
    }

    /// A neighbour must be another host of one of the networks.
    pub(crate) fn neighbour(&self, key: &str, neighbour: IpAddr) -> Result<(), ConfigError> {
        let near = self.prefixes.iter().filter(|own| own.contains(neighbour));
        let Some(own) = near.max_by_key(|own| own.len()) else {
            return self.stranger(key, neighbour);
        };
        let fail = |problem: &str| {
            let remedy = format!("give the address of another host of {}", own.network());
            Err(ConfigError::invalid(key, neighbour, problem, &remedy))
        };
        if self.prefixes.iter().any(|own| own.addr() == neighbour) {
            return fail("it is the stack's own address");
        }
        match Prefix::new(neighbour, own.len()).and_then(unfit_for_host) {
            Some(problem) => fail(problem),
            None => Ok(()),
        }
    }

    fn stranger(&self, key: &str, neighbour: IpAddr) -> Result<(), ConfigError> {
        let is_link_local = matches!(neighbour, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if self.open || is_link_local {
            return Ok(());
        }
        let known = self.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "there is none yet".into() } else { known };
        let problem = format!("it is not in the network of addr = {known}");
        let remedy = "give the address of a host of an own network";
        Err(ConfigError::invalid(key, neighbour, &problem, remedy))
    }

    fn interface(&self, name: &str) -> Result<(), ConfigError> {
        if self.names.iter().any(|known| known == name) {
            return Ok(());
        }
        let remedy = match nearest(name, self.names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("use one of {}", self.names.join(", ")),
        };
        let problem = "there is no such interface";
        Err(ConfigError::invalid("route.interface", name, problem, &remedy))
    }
}

/// The default routes through `gateways`, then the others.
pub(super) fn routes(settings: &Settings, own: &Own, problems: &mut Problems) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    for via in settings.top.list("gateway") {
        problems.note(own.neighbour("gateway", via));
        let to = Prefix::all_like(via);
        if routes.iter().any(|route| route.to == to) {
            let problem = "there is another gateway of its family";
            problems.add("gateway", via, problem, "keep one of each family");
        } else {
            routes.push(Route { to, via: Some(via), interface: None });
        }
    }
    for table in settings.tables("route") {
        route(table, own, &mut routes, problems);
    }
    routes
}

fn route(table: &Table, own: &Own, routes: &mut Vec<Route>, problems: &mut Problems) {
    // The reader of the file has refused a table without it.
    let Some(to) = table.find::<Prefix>("route.to").map(Prefix::network) else { return };
    let via = table.find::<IpAddr>("route.via");
    let interface: Option<String> = table.find("route.interface");
    if let Some(name) = &interface {
        problems.note(own.interface(name));
    }
    match via {
        Some(via) if via.is_ipv4() != to.addr().is_ipv4() => {
            problems.add("route.via", via, "it is of the other family", "give a router of `to`'s");
        }
        Some(via) => problems.note(own.neighbour("route.via", via)),
        None if interface.is_none() => {
            let problem = "it says neither `via` nor `interface`";
            problems.add("route.to", to, problem, "say which router or interface leads there");
        }
        None => {}
    }
    if routes.iter().any(|route| route.to == to) {
        let is_default = to.is_empty();
        let twice = "there are two routes to it";
        let problem = if is_default { "that is what gateway is for" } else { twice };
        problems.add("route.to", to, problem, "remove this route");
    } else if own.prefixes.iter().any(|own| own.network() == to) {
        problems.add("route.to", to, "it is the stack's own network", "remove this route");
    } else {
        routes.push(Route { to, via, interface });
    }
}

pub(super) fn neighbours(
    settings: &Settings,
    own: &Own,
    problems: &mut Problems,
) -> Vec<(IpAddr, MacAddr)> {
    let mut neighbours: Vec<(IpAddr, MacAddr)> = Vec::new();
    for table in settings.tables("neighbour") {
        let (addr, mac) = (table.find("neighbour.addr"), table.find::<MacAddr>("neighbour.mac"));
        // The reader of the file has refused a table without one of them.
        let Some((addr, mac)) = addr.zip(mac) else { continue };
        problems.note(own.neighbour("neighbour.addr", addr));
        if !mac.is_unicast() {
            let (problem, remedy) = ("it is not the address of one station", "`ip neigh` shows it");
            problems.add("neighbour.mac", mac, problem, remedy);
        }
        if neighbours.iter().any(|(other, _)| *other == addr) {
            problems.add("neighbour.addr", addr, "it is there twice", "keep one of the two");
        }
        neighbours.push((addr, mac));
    }
    neighbours
}

/// Why the address of `prefix` cannot be a host's, if it cannot: it is a group's, loopback,
/// unspecified, the network itself or its broadcast address.
pub(super) fn unfit_for_host(prefix: Prefix) -> Option<&'static str> {
    let address = prefix.addr();
    if address.is_unspecified() {
        Some("it is the unspecified address")
    } else if address.is_multicast() {
        Some("it is a group's address")
    } else if address.is_loopback() {
        Some("it is a loopback address")
    } else {
        match (address, prefix.v4()) {
            (_, Some(v4)) => unfit_v4(v4),
            (IpAddr::V6(v6), _) if v6.to_ipv4_mapped().is_some() => {
                Some("it is an IPv4 address in IPv6's clothes")
            }
            // RFC 4291 §2.6.1; RFC 6164 exempts links between two routers.
            _ if prefix.network() == prefix && prefix.len() < 127 => {
                Some("it is the routers' anycast address of the network")
            }
            _ => None,
        }
    }
}

fn unfit_v4(cidr: Cidr) -> Option<&'static str> {
    if cidr.addr().is_broadcast() {
        Some("it is the broadcast address")
    } else if cidr.broadcast() == Some(cidr.addr()) {
        Some("it is the network's broadcast address")
    } else if cidr.broadcast().is_some() && cidr.network() == cidr {
        Some("it is the network's address")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_no_host_has_and_some_that_one_has() {
        let unfit = |text: &str| unfit_for_host(text.parse().unwrap());
        for text in [
            "0.0.0.0/8",
            "224.0.0.1/4",
            "127.0.0.1/8",
            "10.0.0.0/24",
            "10.0.0.255/24",
            "255.255.255.255/32",
            "::/64",
            "::1/128",
            "ff02::1/64",
            "2001:db8::/64",
            "::ffff:10.0.0.1/128",
        ] {
            assert!(unfit(text).is_some(), "{text}");
        }
        for text in [
            "10.0.0.1/24",
            "10.0.0.0/31",
            "10.0.0.1/31",
            "10.0.0.0/32",
            "2001:db8::1/64",
            "2001:db8::/127",
            "fe80::1/64",
        ] {
            assert_eq!(unfit(text), None, "{text}");
        }
    }
}
