//! Who the stack is on its network, as the blocks want to know it.

use std::sync::Arc;

use weever_blocks_api::Env;
use weever_blocks_std::host::{self, HostState, Neighbours};
use weever_link::LinkInfo;
use weever_net::addr::{Cidr, Locals};
use weever_packet::Nanos;
use weever_wire::MacAddr;

use super::StartError;
use crate::config::Config;

/// An environment that has the host's addresses, routes and fixed neighbours.
pub(super) fn environment(config: &Config, link: &LinkInfo, now: Nanos) -> Result<Env, StartError> {
    let env = Env::new();
    host::provide(&env, state(config, link)?, now);
    let neighbours: Arc<Neighbours> = env.get().expect("it was provided a line above");
    for (address, mac) in &config.neighbours {
        let full = neighbours.insert_static(*address, *mac, now);
        full.map_err(|e| StartError::Setting(format!("neighbour {address}: {e}")))?;
    }
    Ok(env)
}

fn state(config: &Config, link: &LinkInfo) -> Result<HostState, StartError> {
    let mut host = HostState::new(MacAddr(link.mac), Locals::new(&[config.address]));
    host.mtu = link.mtu;
    host.vlan = config.vlan;
    let default = config.gateway.map(|via| (Cidr::ALL, via));
    let others = config.routes.iter().map(|route| (route.to, route.via));
    for (to, via) in others.chain(default) {
        let added = host.routes.add(to, via);
        added.map_err(|e| StartError::Setting(format!("route to {to}: {e}")))?;
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::config::Route;

    fn link() -> LinkInfo {
        LinkInfo {
            name: "memory0".into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1400,
            queues: 1,
            partial_checksums: false,
            mode: "memory".into(),
        }
    }

    #[test]
    fn the_configuration_reaches_the_blocks() {
        let mut config = Config::new("memory0", "10.0.0.1/24".parse().unwrap());
        let router = Ipv4Addr::new(10, 0, 0, 254);
        config.gateway = Some(router);
        config.routes = vec![Route { to: "10.9.0.0/16".parse().unwrap(), via: router }];
        config.neighbours = vec![(router, MacAddr([2, 0, 0, 0, 0, 9]))];
        config.vlan = Some(7);
        let env = environment(&config, &link(), 0).unwrap();
        let host: Arc<HostState> = env.get().unwrap();
        assert_eq!((host.mtu, host.vlan, host.routes.iter().count()), (1400, Some(7), 3));
        let neighbours: Arc<Neighbours> = env.get().unwrap();
        assert_eq!(neighbours.entries().len(), 1);
    }

    #[test]
    fn a_router_that_cannot_be_reached_is_an_error_that_names_the_route() {
        let mut config = Config::new("memory0", "10.0.0.1/24".parse().unwrap());
        config.gateway = Some(Ipv4Addr::new(192, 0, 2, 1));
        let error = environment(&config, &link(), 0).unwrap_err().to_string();
        assert!(error.contains("0.0.0.0/0") && error.contains("192.0.2.1"), "{error}");
    }
}
