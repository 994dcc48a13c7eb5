//! Addresses, routes and neighbours as control messages.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::Ipv4Addr;

use weever_blocks_std::host::{Neighbours, Neighbours6};
use weever_net::addr::{Address, Cidr, Cidr6};
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::{AddrState, OwnAddr};
use weever_net::neighbour::{Neighbour, State};
use weever_net::route::{Origin, Route, Way};
use weever_net::state::NetConfig;
use weever_service_api::{InterfaceStatus, NeighbourStatus, RouteStatus};

/// `links` are the links' names, by their number.
pub(in crate::stack) fn interfaces(network: &NetConfig, links: &[String]) -> Vec<InterfaceStatus> {
    let status = |interface: &Interface| InterfaceStatus {
        name: interface.name.clone(),
        link: links.get(usize::from(interface.link)).cloned().unwrap_or_default(),
        vlan: interface.vlan,
        mac: interface.mac.to_string(),
        mtu: interface.mtu,
        up: interface.up,
        addresses: texts(interface.v4.iter(), six(interface, OwnAddr::is_used)),
        tentative: texts(interface.tentative.iter(), six(interface, is_tentative)),
        duplicate: texts(interface.duplicate.iter(), six(interface, is_duplicate)),
        groups: texts(&interface.groups4.joined, &interface.groups6.joined),
    };
    network.interfaces().iter().map(status).collect()
}

fn texts<A: Display, B: Display>(
    v4: impl IntoIterator<Item = A>,
    v6: impl IntoIterator<Item = B>,
) -> Vec<String> {
    let v6 = v6.into_iter().map(|one| one.to_string());
    v4.into_iter().map(|one| one.to_string()).chain(v6).collect()
}

fn six(iface: &Interface, which: fn(&OwnAddr) -> bool) -> impl Iterator<Item = Cidr6> + '_ {
    iface.v6.iter().filter(which).map(|own| own.cidr)
}

fn is_tentative(own: &OwnAddr) -> bool {
    own.state == AddrState::Tentative
}

fn is_duplicate(own: &OwnAddr) -> bool {
    own.state == AddrState::Duplicate
}

pub(in crate::stack) fn routes(network: &NetConfig) -> Vec<RouteStatus> {
    let v4 = network.routes4().iter().map(|it| route(network, it));
    let v6 = network.routes6().iter().map(|it| route(network, it));
    connected(network).chain(v4).chain(v6).collect()
}

fn route<A: Address>(network: &NetConfig, route: &Route<A>) -> RouteStatus {
    RouteStatus {
        to: route.to.to_string(),
        way: match route.way {
            Way::OnLink => "on link".into(),
            Way::Via(gateway) => format!("via {gateway}"),
            Way::Unreachable => "unreachable".into(),
            Way::Prohibited => "prohibited".into(),
            Way::Blackhole => "blackhole".into(),
        },
        interface: route.iface.map(|id| name(network, id)),
        origin: origin(route.origin).into(),
        metric: route.metric,
    }
}

/// The router of the default route, of any origin.
pub(in crate::stack) fn gateway(network: &NetConfig) -> Option<Ipv4Addr> {
    let default = network.routes4().iter().filter(|route| route.to == Cidr::ALL);
    match default.min_by_key(|route| (route.metric, route.origin))?.way {
        Way::Via(gateway) => Some(gateway),
        _ => None,
    }
}

/// The networks of the addresses, which are routes without being listed as such.
fn connected(network: &NetConfig) -> impl Iterator<Item = RouteStatus> {
    let interfaces = network.interfaces().iter().filter(|interface| interface.up);
    interfaces.flat_map(|interface| {
        let v6: BTreeSet<Cidr6> = interface.v6.on_link().collect();
        texts(interface.v4.iter().map(|cidr| cidr.network()), v6).into_iter().map(|to| {
            RouteStatus {
                to,
                way: "on link".into(),
                interface: Some(interface.name.clone()),
                origin: origin(Origin::Connected).into(),
                metric: 0,
            }
        })
    })
}

pub(in crate::stack) fn neighbours(
    network: &NetConfig,
    v4: &Neighbours,
    v6: &Neighbours6,
) -> Vec<NeighbourStatus> {
    let mut all = listed(network, v4.entries());
    all.extend(listed(network, v6.entries()));
    all
}

fn listed<A: Display>(
    network: &NetConfig,
    entries: Vec<(IfaceId, Neighbour<A>)>,
) -> Vec<NeighbourStatus> {
    let status = |(iface, entry): (IfaceId, Neighbour<A>)| NeighbourStatus {
        address: entry.ip.to_string(),
        interface: name(network, iface),
        mac: entry.mac.map(|mac| mac.to_string()),
        state: state(entry.state).into(),
    };
    entries.into_iter().map(status).collect()
}

fn name(network: &NetConfig, id: IfaceId) -> String {
    network.interface(id).map_or_else(|| format!("interface {}", id.0), |i| i.name.clone())
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Connected => "connected",
        Origin::Static => "static",
        Origin::Kernel => "kernel",
        Origin::Dhcp => "dhcp",
        Origin::Ra => "ra",
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Incomplete => "incomplete",
        State::Reachable => "reachable",
        State::Stale => "stale",
        State::Delay => "delay",
        State::Probe => "probe",
        State::Failed => "failed",
        State::Static => "static",
    }
}
