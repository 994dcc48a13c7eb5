//! A route to be added.

use std::net::IpAddr;

use weever_net::iface::IfaceId;
use weever_net::route::{Route as Entry, Way};
use weever_net::state::{NetConfig, StateError};

use crate::{HostError, Prefix};

/// A way to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub to: Prefix,
    /// The router; `None`: its hosts are neighbours on the interface.
    pub via: Option<IpAddr>,
    /// The interface's name; `None`: the one whose network the router is in.
    pub interface: Option<String>,
}

impl Route {
    /// A route through a router.
    pub fn via(to: Prefix, router: IpAddr) -> Route {
        Route { to, via: Some(router), interface: None }
    }

    /// Adds it to a network.
    ///
    /// # Errors
    /// [`HostError::Route`], [`HostError::RouteFamily`]; nothing has changed then.
    pub(crate) fn add_to(&self, network: &mut NetConfig) -> Result<(), HostError> {
        let failed = |source| HostError::Route { to: self.to, source };
        let iface = self.interface.as_deref().map(|name| find(network, name)).transpose();
        let iface = iface.map_err(failed)?;
        let added = match (self.to, self.via) {
            (Prefix::V4(to), None) => {
                network.add_route(Entry { iface, ..Entry::new(to, Way::OnLink) })
            }
            (Prefix::V6(to), None) => {
                network.add_route6(Entry { iface, ..Entry::new(to, Way::OnLink) })
            }
            (Prefix::V4(to), Some(IpAddr::V4(via))) => {
                network.add_route(Entry { iface, ..Entry::via(to, via) })
            }
            (Prefix::V6(to), Some(IpAddr::V6(via))) => {
                network.add_route6(Entry { iface, ..Entry::via(to, via) })
            }
            (to, Some(via)) => return Err(HostError::RouteFamily { to, via }),
        };
        added.map_err(failed)
    }
}

fn find(network: &NetConfig, name: &str) -> Result<IfaceId, StateError> {
    let found = network.interface_named(name).map(|iface| iface.id);
    found.ok_or_else(|| StateError::NoInterface(name.into()))
}
