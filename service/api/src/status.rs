//! Method `status`: the state of the stack.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::{Method, PoolCounters, PoolShare};

/// Parameters of `status`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusRequest {}

impl Method for StatusRequest {
    const NAME: &'static str = "status";
    type Answer = Status;
}

/// Answer to `status`: devices, addresses, services and workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The stack's process.
    pub pid: u32,
    /// The version of the program.
    pub program: String,
    /// Nanoseconds since the stack was started.
    pub uptime_ns: u64,
    /// The link's name: the network device's current one, if it is one.
    pub link: String,
    /// The link's MAC address, as six pairs of hexadecimal digits joined by colons.
    pub mac: String,
    /// Largest packet behind the link header, in bytes.
    pub mtu: u16,
    /// The number of the link's queues.
    pub queues: u16,
    /// How the link was opened, in words: `AF_XDP native, copy mode`.
    pub mode: String,
    /// The packets that weever takes from the device: `address` or `none` (the whole device).
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
    /// The stack's interfaces, with their addresses as they are now.
    #[serde(default)]
    pub interfaces: Vec<InterfaceStatus>,
    /// Routes, as they are now.
    #[serde(default)]
    pub routes: Vec<RouteStatus>,
    /// Neighbours, as far as they are known.
    #[serde(default)]
    pub neighbours: Vec<NeighbourStatus>,
    /// The buffer pools: the workers' first, then those with one use.
    #[serde(default)]
    pub pools: Vec<PoolCounters>,
    /// Frames in memory that applications brought, or were given for themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub application_frames: Vec<PoolShare>,
}

/// An interface of the stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// The link that it sends by.
    pub link: String,
    /// The VLAN of the link that it is.
    pub vlan: Option<u16>,
    /// Its MAC address.
    pub mac: String,
    /// Longest IP packet to send, in bytes.
    pub mtu: u16,
    /// Whether it is used.
    pub up: bool,
    /// Its addresses with their networks' prefixes.
    pub addresses: Vec<String>,
    /// Addresses that are being probed before they are used.
    pub tentative: Vec<String>,
    /// Addresses that are not used, because another station has them.
    pub duplicate: Vec<String>,
    /// The multicast groups it is in.
    pub groups: Vec<String>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteStatus {
    /// The destinations.
    pub to: String,
    /// `on link`, `via ADDRESS`, `unreachable`, `prohibited` or `blackhole`.
    pub way: String,
    /// The interface, if the route names one.
    pub interface: Option<String>,
    /// Its origin: `connected`, `static`, `kernel`, `dhcp` or `ra`.
    pub origin: String,
    /// Of several routes to the same destinations, the lowest counts.
    pub metric: u32,
}

/// A neighbour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NeighbourStatus {
    /// Its address.
    pub address: String,
    /// The interface it is behind.
    pub interface: String,
    /// Its MAC address, if it is known.
    pub mac: Option<String>,
    /// `incomplete`, `reachable`, `stale`, `delay`, `probe`, `failed` or `static`.
    pub state: String,
}

/// A built-in service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// The service: `echo`, `discard`, `tcp-echo` or `tcp-discard`.
    pub name: String,
    /// The protocol: `udp` or `tcp`.
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
    /// Its wait mode: `busy`, `adaptive` or `interrupt`.
    pub mode: String,
    /// The device queues it serves.
    #[serde(default)]
    pub queues: Vec<u16>,
    /// `running`, or the reason why it ended.
    pub state: String,
    /// Turns of its loop.
    #[serde(default)]
    pub turns: u64,
    /// Times it went to sleep.
    #[serde(default)]
    pub sleeps: u64,
    /// Packets it received.
    #[serde(default)]
    pub received: u64,
    /// Packets it gave to devices.
    #[serde(default)]
    pub sent: u64,
    /// Tasks, wake-ups and packets it handed to other workers.
    #[serde(default)]
    pub handed_over: u64,
    /// The same, handed to it.
    #[serde(default)]
    pub taken_over: u64,
}
