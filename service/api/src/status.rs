//! What the stack is.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Answer to `status`: what is running, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The stack's process.
    pub pid: u32,
    /// The version of the program.
    pub program: String,
    /// Nanoseconds since the stack was started.
    pub uptime_ns: u64,
    /// The link's name: the interface's, for a device.
    pub link: String,
    /// The link's MAC address, as six pairs of hexadecimal digits joined by colons.
    pub mac: String,
    /// Largest packet behind the link header, in bytes.
    pub mtu: u16,
    /// How many queues the link has.
    pub queues: u16,
    /// How the link was opened, in words: `AF_XDP native, copy mode`.
    pub mode: String,
    /// What weever takes from the device: `address` or `none` (the whole device).
    pub share: String,
    /// The stack's address.
    pub address: Ipv4Addr,
    /// The length of its network's prefix.
    pub prefix: u8,
    /// The router for other networks.
    #[serde(default)]
    pub gateway: Option<Ipv4Addr>,
    /// The built-in services.
    #[serde(default)]
    pub services: Vec<ServiceStatus>,
    /// The threads that run the graph.
    #[serde(default)]
    pub workers: Vec<WorkerStatus>,
}

/// A built-in service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// What it does: `echo` or `discard`.
    pub name: String,
    /// The protocol: `udp`.
    pub protocol: String,
    /// The port it answers on.
    pub port: u16,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// The thread's name.
    pub name: String,
    /// The core it is bound to, if it is bound to one.
    #[serde(default)]
    pub core: Option<usize>,
    /// How it waits: `busy`, `adaptive` or `interrupt`.
    pub mode: String,
    /// The device queues it serves.
    #[serde(default)]
    pub queues: Vec<u16>,
    /// `running`, or what ended it.
    pub state: String,
}
