//! Who the stack is on its networks, as the blocks want to know it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weever_block::Env;
use weever_blocks_std::dhcp::Dhcp;
use weever_blocks_std::host::{self, Neighbours, Neighbours6, Network};
use weever_link::LinkInfo;
use weever_net::addr::{Cidr, Locals};
use weever_net::dhcp4::Probing;
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::{AddrOrigin, AddrState, OwnAddr, V6Settings};
use weever_net::route::{Route, Way};
use weever_net::state::{NetConfig, ReversePath};
use weever_packet::Nanos;
use weever_wire::MacAddr;

use super::kernel::Kernel;
use super::{StartError, devices, secret};
use crate::config::{self, Config};

/// An environment that has the host's addresses, routes and fixed neighbours. `links` are those of
/// the configuration's devices, in their order.
pub(super) fn environment(
    config: &Config,
    links: &[LinkInfo],
    kernel: Option<&mut Kernel>,
    now: Nanos,
) -> Result<Arc<Env>, StartError> {
    let env = Env::new();
    let mut network = state(config, links, kernel)?;
    stable_identifiers(&mut network, secret::of(config));
    let host = host::provide(&env, network, now);
    let neighbours: Arc<Neighbours> = env.get().expect("it was provided a line above");
    let six: Arc<Neighbours6> = env.get().expect("it was provided with the others");
    for (address, mac) in &config.neighbours {
        match address {
            IpAddr::V4(v4) => fix_neighbour(&host, &neighbours, *v4, *mac, now)?,
            IpAddr::V6(v6) => fix_neighbour6(&host, &six, *v6, *mac, now)?,
        }
    }
    let clients = env.get_or_default::<Dhcp>();
    for (number, _) in config.interfaces.iter().enumerate().filter(|(_, i)| i.dhcp) {
        clients.start(IfaceId(number as u16), Probing::RFC5227);
    }
    Ok(Arc::new(env))
}

/// Interfaces that do not speak IPv6 yet may do so later.
fn stable_identifiers(network: &mut NetConfig, secret: Option<[u64; 2]>) {
    let all: Vec<_> = network.interfaces().iter().map(|i| (i.id, i.v6_settings)).collect();
    for (id, settings) in all {
        network.set_v6(id, V6Settings { secret, ..settings }).expect("it is one of the interfaces");
    }
}

fn fix_neighbour(
    host: &Network,
    neighbours: &Neighbours,
    v4: Ipv4Addr,
    mac: MacAddr,
    now: Nanos,
) -> Result<(), StartError> {
    let failed = |e: &dyn std::fmt::Display| StartError::Setting(format!("neighbour {v4}: {e}"));
    let state = host.state();
    let hop = state.route4(v4).ok_or_else(|| failed(&"no interface leads there"))?;
    neighbours.insert_static(hop.iface, v4, mac, now).map(drop).map_err(|e| failed(&e))
}

/// A link-local neighbour is taken to be at the first interface that speaks IPv6.
fn fix_neighbour6(
    host: &Network,
    neighbours: &Neighbours6,
    v6: Ipv6Addr,
    mac: MacAddr,
    now: Nanos,
) -> Result<(), StartError> {
    let failed = |e: &dyn std::fmt::Display| StartError::Setting(format!("neighbour {v6}: {e}"));
    let state = host.state();
    let first = state.config().interfaces().iter().find(|i| i.v6_settings.enabled).map(|i| i.id);
    let hop = first.and_then(|first| state.hop6(first, v6));
    let hop = hop.ok_or_else(|| failed(&"no interface leads there"))?;
    neighbours.insert_static(hop.iface, v6, mac, now).map(drop).map_err(|e| failed(&e))
}

/// The network that a configuration describes, with what is the kernel's. An interface has the
/// number of its place there.
pub(super) fn state(
    config: &Config,
    links: &[LinkInfo],
    kernel: Option<&mut Kernel>,
) -> Result<NetConfig, StartError> {
    let mut host = NetConfig::new();
    let setting = |e: weever_net::state::StateError| StartError::Setting(e.to_string());
    for (number, interface) in config.interfaces.iter().enumerate() {
        let link = devices::number_of(config, &interface.dev);
        let info = &links[usize::from(link)];
        let iface = of_interface(IfaceId(number as u16), interface, link, info);
        host.add_interface(iface).map_err(setting)?;
    }
    host.settings.forwarding = config.forwarding;
    host.settings.redirects = config.redirects;
    host.settings.reverse_path = match config.reverse_path {
        config::ReversePath::None => ReversePath::None,
        config::ReversePath::Loose => ReversePath::Loose,
        config::ReversePath::Strict => ReversePath::Strict,
    };
    // Before the routes, whose routers may be in its networks.
    if let Some(kernel) = kernel {
        kernel.shape(&mut host);
    }
    for route in &config.routes {
        add_route(&mut host, route)?;
    }
    Ok(host)
}

fn of_interface(
    id: IfaceId,
    interface: &config::Interface,
    link: u16,
    info: &LinkInfo,
) -> Interface {
    let own: Vec<Cidr> = interface.addresses.iter().filter_map(|address| address.v4()).collect();
    let mut iface = Interface::new(id, interface.name.as_str(), link, MacAddr(info.mac));
    iface.v4 = Locals::new(&own);
    iface.vlan = interface.vlan;
    iface.borrowed = interface.share == config::Share::Ports;
    iface.tx_checksum = info.offload.tx_checksum;
    iface.mtu = interface.mtu.map_or(info.mtu, |mtu| mtu.min(info.mtu));
    let groups = interface.groups.iter().filter_map(|group| match group {
        IpAddr::V4(v4) => Some(*v4),
        IpAddr::V6(_) => None,
    });
    iface.groups = groups.collect();
    iface.groups.sort_unstable();
    if interface.has_v6() {
        speak_v6(&mut iface, interface);
    }
    iface
}

/// Addresses are asked for before they are used (RFC 4862 §5.4).
fn speak_v6(iface: &mut Interface, interface: &config::Interface) {
    iface.v6_settings.enabled = true;
    iface.v6_settings.accept_ra = interface.slaac;
    for cidr in interface.addresses.iter().filter_map(|address| address.v6()) {
        let (state, origin) = (AddrState::Tentative, AddrOrigin::Static);
        iface.v6.set(OwnAddr { cidr, state, origin });
    }
    let groups = interface.groups.iter().filter_map(|group| match group {
        IpAddr::V6(v6) => Some(*v6),
        IpAddr::V4(_) => None,
    });
    iface.groups6 = groups.collect();
    iface.groups6.sort_unstable();
}

/// Adds a route of the configuration's to the network.
pub(super) fn add_route(host: &mut NetConfig, route: &config::Route) -> Result<(), StartError> {
    let failed =
        |e: &dyn std::fmt::Display| StartError::Setting(format!("route to {}: {e}", route.to));
    let iface = match &route.interface {
        None => None,
        Some(name) => {
            let found = host.interface_named(name);
            Some(found.ok_or_else(|| failed(&format!("there is no interface {name}")))?.id)
        }
    };
    if let Some(to) = route.to.v6() {
        let way = match route.via {
            Some(IpAddr::V6(via)) => Way::Via(via),
            _ => Way::OnLink,
        };
        return host.add_route6(Route { iface, ..Route::new(to, way) }).map_err(|e| failed(&e));
    }
    let Some(to) = route.to.v4() else { return Ok(()) };
    let way = match route.via {
        Some(IpAddr::V4(via)) => Way::Via(via),
        _ => Way::OnLink,
    };
    host.add_route(Route { iface, ..Route::new(to, way) }).map_err(|e| failed(&e))
}
