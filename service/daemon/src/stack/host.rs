//! Who the stack is on its network, as the blocks want to know it.

use std::sync::Arc;

use weever_blocks_api::Env;
use weever_blocks_std::host::{self, Neighbours};
use weever_link::LinkInfo;
use weever_net::addr::{Cidr, Locals};
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetConfig;
use weever_packet::Nanos;
use weever_wire::MacAddr;

use super::StartError;
use crate::config::Config;

/// The one interface.
const LINK: IfaceId = IfaceId(0);

/// An environment that has the host's addresses, routes and fixed neighbours.
pub(super) fn environment(config: &Config, link: &LinkInfo, now: Nanos) -> Result<Env, StartError> {
    let env = Env::new();
    host::provide(&env, state(config, link)?, now);
    let neighbours: Arc<Neighbours> = env.get().expect("it was provided a line above");
    for (address, mac) in &config.neighbours {
        let std::net::IpAddr::V4(address) = address else { continue };
        let full = neighbours.insert_static(LINK, *address, *mac, now);
        full.map_err(|e| StartError::Setting(format!("neighbour {address}: {e}")))?;
    }
    Ok(env)
}

fn state(config: &Config, link: &LinkInfo) -> Result<NetConfig, StartError> {
    let interface = &config.interfaces[0];
    let own: Vec<Cidr> = interface.addresses.iter().filter_map(|address| address.v4()).collect();
    let mut iface = Interface::new(LINK, link.name.as_str(), 0, MacAddr(link.mac));
    iface.v4 = Locals::new(&own);
    (iface.mtu, iface.vlan) = (link.mtu, interface.vlan);
    let mut host = NetConfig::new();
    host.add_interface(iface).map_err(|e| StartError::Setting(e.to_string()))?;
    for route in &config.routes {
        let (Some(to), Some(std::net::IpAddr::V4(via))) = (route.to.v4(), route.via) else {
            continue;
        };
        let added = host.add_route(weever_net::route::Route::via(to, via));
        added.map_err(|e| StartError::Setting(format!("route to {to}: {e}")))?;
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use weever_blocks_std::host::Host;

    use super::*;
    use crate::config::{Prefix, Route};

    fn link() -> LinkInfo {
        LinkInfo {
            name: "memory0".into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1400,
            queues: 1,
            partial_checksums: false,
            offload: weever_link::Offload::default(),
            mode: "memory".into(),
        }
    }

    #[test]
    fn the_configuration_reaches_the_blocks() {
        let mut config = Config::new("memory0", "10.0.0.1/24".parse().unwrap());
        let router = IpAddr::from([10, 0, 0, 254]);
        let via = |to: &str| Route { to: to.parse().unwrap(), via: Some(router), interface: None };
        config.routes = vec![via("0.0.0.0/0"), via("10.9.0.0/16")];
        config.neighbours = vec![(router, MacAddr([2, 0, 0, 0, 0, 9]))];
        config.interfaces[0].vlan = Some(7);
        let env = environment(&config, &link(), 0).unwrap();
        let state = env.get::<Host>().unwrap().state();
        let iface = state.interface(LINK).unwrap();
        assert_eq!((iface.mtu, iface.vlan, state.config().routes4().len()), (1400, Some(7), 2));
        let neighbours: Arc<Neighbours> = env.get().unwrap();
        assert_eq!(neighbours.entries().len(), 1);
    }

    #[test]
    fn a_router_that_cannot_be_reached_is_an_error_that_names_the_route() {
        let mut config = Config::new("memory0", "10.0.0.1/24".parse().unwrap());
        let via = Some(IpAddr::from([192, 0, 2, 1]));
        config.routes = vec![Route { to: Prefix::ALL_V4, via, interface: None }];
        let error = environment(&config, &link(), 0).unwrap_err().to_string();
        assert!(error.contains("0.0.0.0/0") && error.contains("192.0.2.1"), "{error}");
    }
}
