//! Checks before anything is touched: the device, the rights and the cores of the process, and whether the
//! address is free.
//!
//! The kernel's own addresses are those of the network namespace that the calling thread is in.

mod probe;

use std::net::{IpAddr, Ipv4Addr};
use std::{fs, io};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::LinkAddr;
use weever_wire::MacAddr;

use crate::config::{Config, Interface, LinkKind, Prefix};

pub(crate) use weever_host::allowed_cores;

/// Why a stack cannot be started on a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreflightError {
    /// The process lacks rights that a stack needs.
    #[error(
        "no permission: {missing} missing; run as root, or give the program the capabilities: `setcap cap_net_admin,cap_net_raw,cap_bpf,cap_perfmon,cap_ipc_lock+ep $(command -v weever)` (cap_ipc_lock lifts the limit of locked memory, which packet buffers count against; a policy needs cap_perfmon, for the programs that sort packets)"
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
    /// The device is the loopback.
    #[error(
        "device {dev} is the loopback, whose packets never leave the kernel's own stack; use a network device, or a pair made by `ip link add a0 type veth peer name b0`"
    )]
    Loopback {
        /// The device.
        dev: String,
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
        address: IpAddr,
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
        /// The station that answered.
        owner: MacAddr,
    },
    /// The process may not run on a core of the configuration.
    #[error("cores = [{core}]: this process may not run there; use one of {allowed}")]
    Core {
        /// The core.
        core: usize,
        /// The cores on which it may.
        allowed: String,
    },
    /// The system could not be asked.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
}

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
    check_cores(&config.cores)?;
    match config.interfaces.iter().all(|interface| interface.link == LinkKind::Pcap) {
        true => Ok(()),
        false => check_rights(config.policy.is_some()),
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

/// ARPHRD_ETHER of `linux/if_arp.h`.
const ETHERNET: u16 = 1;

/// A network device.
#[derive(Clone, Debug)]
struct Device {
    name: String,
    up: bool,
    is_loopback: bool,
    /// Its packet-level address, for sending by it.
    link: LinkAddr,
    /// Its hardware address, if it is an Ethernet device.
    ethernet: Option<MacAddr>,
    /// The kernel's addresses on it.
    addresses: Vec<Prefix>,
}

/// The devices of the calling thread's network namespace.
fn devices() -> io::Result<Vec<Device>> {
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

fn check_cores(wanted: &[usize]) -> Result<(), PreflightError> {
    let what = "read the affinity of the process";
    let allowed = allowed_cores().map_err(|source| PreflightError::Io { what, source })?;
    match wanted.iter().find(|core| !allowed.contains(core)) {
        Some(core) => {
            let allowed: Vec<String> = allowed.iter().map(usize::to_string).collect();
            Err(PreflightError::Core { core: *core, allowed: allowed.join(", ") })
        }
        None => Ok(()),
    }
}

/// Numbers of `linux/capability.h`.
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Reports all missing rights at once; the system calls would each report one, later and in their
/// own way.
fn check_rights(has_policy: bool) -> Result<(), PreflightError> {
    // Where /proc is not mounted, the system calls have to report it.
    let Ok(status) = fs::read_to_string("/proc/thread-self/status") else { return Ok(()) };
    let missing = effective(&status).map(|have| missing(have, has_policy)).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    let verb = if missing.len() == 1 { "is" } else { "are" };
    Err(PreflightError::Permission { missing: format!("{} {verb}", missing.join(", ")) })
}

fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn missing(capabilities: u64, has_policy: bool) -> Vec<&'static str> {
    let has = |number: u32| capabilities >> number & 1 == 1;
    let mut missing = Vec::new();
    if !has(CAP_NET_ADMIN) {
        missing.push("CAP_NET_ADMIN");
    }
    if !has(CAP_NET_RAW) {
        missing.push("CAP_NET_RAW");
    }
    if !has(CAP_BPF) && !has(CAP_SYS_ADMIN) {
        missing.push("CAP_BPF");
    }
    // Without it the verifier refuses to add a header's length to a pointer.
    if has_policy && !has(CAP_PERFMON) && !has(CAP_SYS_ADMIN) {
        missing.push("CAP_PERFMON");
    }
    missing
}

#[cfg(test)]
mod tests {
    use nix::sched::CpuSet;

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

    #[test]
    fn cores_that_there_are_none_of_are_refused_with_those_that_there_are() {
        let mine = allowed_cores().unwrap();
        assert!(check_cores(&mine).is_ok() && check_cores(&[]).is_ok());
        for core in [CpuSet::count() - 1, CpuSet::count(), usize::MAX] {
            let error = check_cores(&[core]).unwrap_err().to_string();
            assert!(
                error.contains(&core.to_string())
                    && error.ends_with(&mine.last().unwrap().to_string()),
                "{error}"
            );
        }
    }

    #[test]
    fn capabilities_are_read_by_name_and_number() {
        let status = "Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n";
        assert_eq!(effective(status), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("CapEff:\tzz"), None);
        let of_both = |capabilities| [false, true].map(|policy| missing(capabilities, policy));
        assert!(of_both(u64::MAX).concat().is_empty());
        assert_eq!(missing(0, false), ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF"]);
        assert_eq!(missing(0, true), ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF", "CAP_PERFMON"]);
        assert!(of_both(1 << 12 | 1 << 13 | 1 << 21).concat().is_empty());
        assert_eq!(missing(1 << 12 | 1 << 39, false), ["CAP_NET_RAW"]);
    }
}
