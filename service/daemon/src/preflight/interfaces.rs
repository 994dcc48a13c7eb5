//! The kernel's network devices and their addresses.

use std::io;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::LinkAddr;
use weever_wire::MacAddr;

use crate::config::Prefix;

/// ARPHRD_ETHER of `linux/if_arp.h`.
const ETHERNET: u16 = 1;

/// A network device.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) is_loopback: bool,
    /// Its packet-level address, for sending by it.
    pub(super) link: LinkAddr,
    /// Its hardware address, if it is an Ethernet device.
    pub(super) ethernet: Option<MacAddr>,
    /// The kernel's addresses on it.
    pub(super) addresses: Vec<Prefix>,
}

/// The devices of the calling thread's network namespace.
pub(super) fn devices() -> io::Result<Vec<Device>> {
    let entries: Vec<InterfaceAddress> = getifaddrs()?.collect();
    let mut all: Vec<Device> = entries.iter().filter_map(device).collect();
    for entry in &entries {
        // A label such as `eth0:1` belongs to `eth0`.
        let name = entry.interface_name.split(':').next().unwrap_or_default();
        if let (Some(prefix), Some(of)) = (prefix(entry), all.iter_mut().find(|i| i.name == name)) {
            of.addresses.push(prefix);
        }
    }
    Ok(all)
}

/// Every device has one entry of the packet family.
fn device(entry: &InterfaceAddress) -> Option<Device> {
    let link = *entry.address.as_ref()?.as_link_addr()?;
    let is_ethernet = link.hatype() == ETHERNET && link.halen() == 6;
    Some(Device {
        name: entry.interface_name.clone(),
        up: entry.flags.contains(InterfaceFlags::IFF_UP),
        is_loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
        link,
        ethernet: link.addr().filter(|_| is_ethernet).map(MacAddr),
        addresses: Vec::new(),
    })
}

fn prefix(entry: &InterfaceAddress) -> Option<Prefix> {
    let address = entry.address.as_ref()?;
    let mask = entry.netmask.as_ref();
    if let Some(v4) = address.as_sockaddr_in() {
        let len = mask.and_then(|m| m.as_sockaddr_in()).map_or(32, |m| ones(m.ip().to_bits()));
        return Prefix::new(v4.ip().into(), len);
    }
    let len = mask.and_then(|m| m.as_sockaddr_in6()).map_or(128, |m| ones(m.ip().to_bits()));
    Prefix::new(address.as_sockaddr_in6()?.ip().into(), len)
}

fn ones(mask: impl Into<u128>) -> u8 {
    mask.into().count_ones() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_there_and_no_ethernet() {
        let all = devices().unwrap();
        let lo = all.iter().find(|i| i.name == "lo").unwrap();
        assert!(lo.ethernet.is_none() && lo.is_loopback);
        for prefix in &lo.addresses {
            assert!(prefix.addr().is_loopback());
        }
    }
}
