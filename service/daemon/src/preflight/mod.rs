//! Checks before anything is touched: the device, the rights and the cores of the
//! process, and whether the address is free.
//!
//! The kernel's own addresses are those of the network namespace that the calling thread is in.

mod cores;
mod error;
mod interfaces;
mod probe;
mod rights;

use std::net::{IpAddr, Ipv4Addr};

use crate::config::{Config, Interface, LinkKind, Prefix};
pub use error::PreflightError;
use interfaces::{Device, devices};
pub(crate) use weever_host::allowed_cores;

/// Checks whether `config` can be started here, without sending anything.
///
/// # Errors
/// See [`PreflightError`].
pub fn check(config: &Config) -> Result<(), PreflightError> {
    let all = read_interfaces()?;
    for interface in &config.interfaces {
        if interface.link == LinkKind::AfXdp {
            usable(&all, &interface.dev)?;
        }
        // A capture file's network has no other stations.
        let is_file = interface.link == LinkKind::Pcap;
        for address in interface.addresses.iter().filter(|_| !is_file) {
            kernel_address(&all, address.addr())?;
        }
    }
    cores::check(&config.cores)?;
    match config.interfaces.iter().all(|interface| interface.link == LinkKind::Pcap) {
        true => Ok(()),
        false => rights::check(),
    }
}

fn usable(all: &[Device], dev: &str) -> Result<(), PreflightError> {
    let device = find(all, dev)?;
    if device.is_loopback {
        return Err(PreflightError::Loopback { dev: dev.into() });
    }
    if device.up { Ok(()) } else { Err(PreflightError::Down { dev: dev.into() }) }
}

/// Asks the devices' networks whether another station has an IPv4 address of the configuration (RFC
/// 5227 §2.1.1, with shorter waits). Blocks for a third of a second for each. Does nothing if the
/// configuration says so, for devices that are not Ethernet, and inside a VLAN. The stack itself
/// asks for IPv6 addresses (RFC 4862 §5.4).
///
/// # Errors
/// [`PreflightError::HostHas`], and [`PreflightError::Io`] if there is no way to ask.
pub fn probe(config: &Config) -> Result<(), PreflightError> {
    let all = read_interfaces()?;
    let on_devices = |i: &&Interface| i.link == LinkKind::AfXdp && i.vlan.is_none();
    for interface in config.interfaces.iter().filter(on_devices).filter(|_| config.probe) {
        let device = find(&all, &interface.dev)?;
        for address in interface.addresses.iter().filter_map(|address| address.v4()) {
            probe_for(device, address.addr())?;
        }
    }
    Ok(())
}

fn probe_for(device: &Device, address: Ipv4Addr) -> Result<(), PreflightError> {
    let Some(mac) = device.ethernet else { return Ok(()) };
    let failed = |source| PreflightError::Io { what: "ask for the address by ARP", source };
    match probe::ask(device.link, mac, address).map_err(failed)? {
        Some(owner) => Err(PreflightError::HostHas { address, dev: device.name.clone(), owner }),
        None => Ok(()),
    }
}

fn read_interfaces() -> Result<Vec<Device>, PreflightError> {
    devices().map_err(|source| PreflightError::Io { what: "list the devices", source })
}

fn find<'a>(all: &'a [Device], dev: &str) -> Result<&'a Device, PreflightError> {
    let found = all.iter().find(|i| i.name == dev);
    found.ok_or_else(|| {
        let near = weever_suggest::nearest(dev, all.iter().map(|i| i.name.as_str()));
        let hint = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        PreflightError::NoDevice { dev: dev.into(), hint }
    })
}

fn kernel_address(all: &[Device], address: IpAddr) -> Result<(), PreflightError> {
    for device in all {
        let own = |prefix: &&Prefix| prefix.addr() == address;
        if let Some(own) = device.addresses.iter().find(own) {
            let (dev, prefix) = (device.name.clone(), own.len());
            return Err(PreflightError::KernelHas { address, dev, prefix });
        }
    }
    Ok(())
}
