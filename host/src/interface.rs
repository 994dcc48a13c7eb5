//! An interface to be added.

use std::net::IpAddr;

use weever_link::LinkInfo;
use weever_net::addr::{Cidr, Locals};
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::{AddrOrigin, AddrState, Locals6, OwnAddr};
use weever_wire::MacAddr;

use crate::Prefix;

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
                IpAddr::V4(v4) => iface.groups.push(*v4),
                IpAddr::V6(v6) => iface.groups6.push(*v6),
            }
        }
        iface.groups.sort_unstable();
        iface.groups6.sort_unstable();
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
