//! Addresses, routes and neighbours as control messages.

use std::net::Ipv4Addr;

use weever_blocks_std::host::Neighbours;
use weever_link::LinkInfo;
use weever_net::addr::Cidr;
use weever_net::iface::{IfaceId, Interface};
use weever_net::neighbour::State;
use weever_net::route::{Origin, Way};
use weever_net::state::NetConfig;
use weever_service_api::{InterfaceStatus, NeighbourStatus, RouteStatus};

pub(super) fn interfaces(network: &NetConfig, links: &[LinkInfo]) -> Vec<InterfaceStatus> {
    let status = |interface: &Interface| InterfaceStatus {
        name: interface.name.clone(),
        link: links.get(usize::from(interface.link)).map(|l| l.name.clone()).unwrap_or_default(),
        vlan: interface.vlan,
        mac: interface.mac.to_string(),
        mtu: interface.mtu,
        up: interface.up,
        addresses: interface.v4.iter().map(|cidr| cidr.to_string()).collect(),
        tentative: interface.tentative.iter().map(|cidr| cidr.to_string()).collect(),
        groups: interface.groups.iter().map(ToString::to_string).collect(),
    };
    network.interfaces().iter().map(status).collect()
}

pub(super) fn routes(network: &NetConfig) -> Vec<RouteStatus> {
    let routes = network.routes4().iter().map(|route| RouteStatus {
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
    });
    connected(network).chain(routes).collect()
}

/// The router of the default route, whoever set it.
pub(super) fn gateway(network: &NetConfig) -> Option<Ipv4Addr> {
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
        interface.v4.iter().map(|cidr| RouteStatus {
            to: cidr.network().to_string(),
            way: "on link".into(),
            interface: Some(interface.name.clone()),
            origin: origin(Origin::Connected).into(),
            metric: 0,
        })
    })
}

pub(super) fn neighbours(network: &NetConfig, neighbours: &Neighbours) -> Vec<NeighbourStatus> {
    let entries = neighbours.entries().into_iter();
    let status = entries.map(|(interface, entry)| NeighbourStatus {
        address: entry.ip.to_string(),
        interface: name(network, interface),
        mac: entry.mac.map(|mac| mac.to_string()),
        state: state(entry.state).into(),
    });
    status.collect()
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
