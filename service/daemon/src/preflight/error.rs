//! Why a stack cannot be started here.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use weever_wire::MacAddr;

/// Why a stack cannot be started on a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreflightError {
    /// The process lacks rights that a stack needs.
    #[error(
        "no permission: {missing} missing; run as root, or give the program the capabilities: `setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep $(command -v weever)` (cap_ipc_lock lifts the limit of locked memory, which packet buffers count against)"
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
