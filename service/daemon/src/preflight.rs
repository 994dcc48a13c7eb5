//! What is looked at before anything is touched: the device, the rights and the cores of the
//! process, and whether the address is free.
//!
//! The kernel's own addresses are those of the network namespace that the calling thread is in.

mod cores;
mod interfaces;
mod probe;
mod rights;

use std::io;
use std::net::Ipv4Addr;

use weever_net::addr::Cidr;
use weever_wire::MacAddr;

use crate::config::Config;
pub(crate) use cores::allowed as allowed_cores;
use interfaces::{Interface, interfaces};

/// Why a stack cannot be started on a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreflightError {
    /// The process may not do what a stack has to.
    #[error(
        "no permission: {missing} missing; run as root, or `setcap cap_net_admin,cap_net_raw,cap_bpf+ep` the program"
    )]
    Permission {
        /// The capabilities that are missing.
        missing: String,
    },
    /// There is no such device.
    #[error("there is no device {dev}{hint}; `ip link` lists those of this network namespace")]
    NoDevice {
        /// The name.
        dev: String,
        /// A suggestion, or nothing.
        hint: String,
    },
    /// The device is set down.
    #[error("device {dev} is down; set it up with `ip link set {dev} up`")]
    Down {
        /// The device.
        dev: String,
    },
    /// The kernel has the address.
    #[error(
        "address {address} is in use: the kernel has it on {dev}; remove it with `ip addr del {address}/{prefix} dev {dev}`, or choose another"
    )]
    KernelHas {
        /// The address.
        address: Ipv4Addr,
        /// The device on which the kernel has it.
        dev: String,
        /// Its prefix there.
        prefix: u8,
    },
    /// Another host has the address.
    #[error(
        "address {address} is in use: {owner} answers for it on {dev}; choose another, or start with --no-probe if that is meant"
    )]
    HostHas {
        /// The address.
        address: Ipv4Addr,
        /// The device on which it was asked for.
        dev: String,
        /// Who answered.
        owner: MacAddr,
    },
    /// The process may not run on a core of the configuration.
    #[error("cores = [{core}]: this process may not run there; use one of {allowed}")]
    Core {
        /// The core.
        core: usize,
        /// Those on which it may.
        allowed: String,
    },
    /// The system could not be asked.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
}

/// Looks whether `config` can be started here, without sending anything.
///
/// # Errors
/// See [`PreflightError`].
pub fn check(config: &Config) -> Result<(), PreflightError> {
    let all = read_interfaces()?;
    let device = find(&all, &config.dev)?;
    if !device.up {
        return Err(PreflightError::Down { dev: config.dev.clone() });
    }
    kernel_address(&all, config.address.addr())?;
    cores::check(&config.cores)?;
    rights::check()
}

/// Asks the device's network whether somebody has the address (RFC 5227 §2.1.1, with shorter
/// waits). Blocks for a third of a second. Does nothing if the configuration says so, for a
/// device that is not Ethernet, and inside a VLAN.
///
/// # Errors
/// [`PreflightError::HostHas`], and [`PreflightError::Io`] if there is no way to ask.
pub fn probe(config: &Config) -> Result<(), PreflightError> {
    let all = read_interfaces()?;
    let device = find(&all, &config.dev)?;
    let Some(mac) = device.ethernet.filter(|_| config.probe && config.vlan.is_none()) else {
        return Ok(());
    };
    let address = config.address.addr();
    let failed = |source| PreflightError::Io { what: "ask for the address by ARP", source };
    match probe::ask(device.link, mac, address).map_err(failed)? {
        Some(owner) => Err(PreflightError::HostHas { address, dev: config.dev.clone(), owner }),
        None => Ok(()),
    }
}

fn read_interfaces() -> Result<Vec<Interface>, PreflightError> {
    interfaces().map_err(|source| PreflightError::Io { what: "list the devices", source })
}

fn find<'a>(all: &'a [Interface], dev: &str) -> Result<&'a Interface, PreflightError> {
    let found = all.iter().find(|i| i.name == dev);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
        let near = crate::config::nearest(dev, &names);
        let hint = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        PreflightError::NoDevice { dev: dev.into(), hint }
    })
}

fn kernel_address(all: &[Interface], address: Ipv4Addr) -> Result<(), PreflightError> {
    for interface in all {
        let own = |cidr: &&Cidr| cidr.addr() == address;
        if let Some(cidr) = interface.addresses.iter().find(own) {
            let (dev, prefix) = (interface.name.clone(), cidr.prefix_len());
            return Err(PreflightError::KernelHas { address, dev, prefix });
        }
    }
    Ok(())
}
