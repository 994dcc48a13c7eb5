//! The kernel's network devices and their addresses.

use std::io;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::LinkAddr;
use weever_net::addr::Cidr;
use weever_wire::MacAddr;

/// ARPHRD_ETHER of `linux/if_arp.h`.
const ETHERNET: u16 = 1;

/// A network device.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) up: bool,
    /// Its packet-level address, for sending by it.
    pub(super) link: LinkAddr,
    /// Its hardware address, if it is an Ethernet device.
    pub(super) ethernet: Option<MacAddr>,
    /// The kernel's IPv4 addresses on it.
    pub(super) addresses: Vec<Cidr>,
}

/// The devices of the calling thread's network namespace.
pub(super) fn interfaces() -> io::Result<Vec<Interface>> {
    let entries: Vec<InterfaceAddress> = getifaddrs()?.collect();
    let mut all: Vec<Interface> = entries.iter().filter_map(device).collect();
    for entry in &entries {
        // A label such as `eth0:1` belongs to `eth0`.
        let name = entry.interface_name.split(':').next().unwrap_or_default();
        if let (Some(cidr), Some(of)) = (cidr(entry), all.iter_mut().find(|i| i.name == name)) {
            of.addresses.push(cidr);
        }
    }
    Ok(all)
}

/// Every device has one entry of the packet family.
fn device(entry: &InterfaceAddress) -> Option<Interface> {
    let link = *entry.address.as_ref()?.as_link_addr()?;
    let is_ethernet = link.hatype() == ETHERNET && link.halen() == 6;
    Some(Interface {
        name: entry.interface_name.clone(),
        up: entry.flags.contains(InterfaceFlags::IFF_UP),
        link,
        ethernet: link.addr().filter(|_| is_ethernet).map(MacAddr),
        addresses: Vec::new(),
    })
}

fn cidr(entry: &InterfaceAddress) -> Option<Cidr> {
    let address = entry.address.as_ref()?.as_sockaddr_in()?.ip();
    let mask = entry.netmask.as_ref().and_then(|m| m.as_sockaddr_in());
    let prefix = mask.map_or(32, |m| m.ip().to_bits().count_ones());
    Cidr::new(address, prefix as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_there_and_no_ethernet() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|i| i.name == "lo").unwrap();
        assert_eq!(lo.ethernet, None);
        for cidr in &lo.addresses {
            assert!(cidr.addr().is_loopback());
        }
    }
}
