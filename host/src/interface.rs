//! An interface to be added.

use std::net::IpAddr;

use weever_link::LinkInfo;
use weever_net::addr::{Cidr, Locals};
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::{AddrOrigin, AddrState, Locals6, OwnAddr};
use weever_net::route::{Route as Entry, Way};
use weever_net::state::{NetConfig, StateError};
use weever_wire::MacAddr;

use crate::{HostError, Prefix};

/// An interface: a link, or one VLAN of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Its name; no other has it.
    pub name: String,
    /// The number of its link.
    pub link: u16,
    /// The VLAN of the link, 1 to 4094; `None`: untagged frames.
    pub vlan: Option<u16>,
    /// Its addresses. IPv4 ones are used at once, IPv6 ones when nobody has objected (RFC 4862 §5.4).
    pub addresses: Vec<Prefix>,
    /// Longest IP packet to send; `None`, or more than the link takes: the link's limit.
    pub mtu: Option<u16>,
    /// The multicast groups it is in.
    pub groups: Vec<IpAddr>,
    /// Whether it gets an IPv4 address and routes from a DHCP server.
    pub dhcp: bool,
    /// Whether it makes IPv6 addresses from router advertisements (RFC 4862 §5.5).
    pub slaac: bool,
    /// Whether its addresses are the kernel's, which resolves neighbours and defends the addresses.
    pub borrowed: bool,
}

impl InterfaceConfig {
    /// An interface on all that is untagged on a link, without addresses.
    pub fn new(name: impl Into<String>, link: u16) -> InterfaceConfig {
        InterfaceConfig {
            name: name.into(),
            link,
            vlan: None,
            addresses: Vec::new(),
            mtu: None,
            groups: Vec::new(),
            dhcp: false,
            slaac: false,
            borrowed: false,
        }
    }

    /// The same with one more address.
    #[must_use]
    pub fn address(mut self, address: Prefix) -> InterfaceConfig {
        self.addresses.push(address);
        self
    }

    fn speaks_v6(&self) -> bool {
        self.slaac || self.addresses.iter().any(|address| address.addr().is_ipv6())
    }

    /// The interface in the network's terms, on a link of this kind.
    pub(crate) fn on(&self, id: IfaceId, link: &LinkInfo) -> Interface {
        let v4: Vec<Cidr> = self.addresses.iter().filter_map(|address| address.v4()).collect();
        let mtu = self.mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu));
        let iface = Interface::new(id, self.name.as_str(), self.link, MacAddr(link.mac));
        let mut iface = iface.with_v4(Locals::new(&v4)).with_mtu(mtu);
        if let Some(vlan) = self.vlan {
            iface = iface.in_vlan(vlan);
        }
        iface.borrowed = self.borrowed;
        iface.tx_checksum = link.offload.tx_checksum;
        for group in &self.groups {
            match group {
                IpAddr::V4(v4) => iface.groups4.joined.push(*v4),
                IpAddr::V6(v6) => iface.groups6.joined.push(*v6),
            }
        }
        iface.groups4.joined.sort_unstable();
        iface.groups6.joined.sort_unstable();
        if self.speaks_v6() {
            iface = iface.with_v6(Locals6::default());
            iface.v6_settings.accept_ra = self.slaac;
        }
        for cidr in self.addresses.iter().filter_map(|address| address.v6()) {
            let (state, origin) = (AddrState::Tentative, AddrOrigin::Static);
            iface.v6.set(OwnAddr { cidr, state, origin });
        }
        iface
    }
}

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
                network.add_route(Entry { iface, ..Entry::new(to, Way::OnLink) })
            }
            (Prefix::V4(to), Some(IpAddr::V4(via))) => {
                network.add_route(Entry { iface, ..Entry::via(to, via) })
            }
            (Prefix::V6(to), Some(IpAddr::V6(via))) => {
                network.add_route(Entry { iface, ..Entry::via(to, via) })
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
