//! The graphs that ship with weever: `.unicorn` files, embedded, and the code that makes them runnable.
//!
//! [`nic`] is the PRG of a NIC; [`host`] is a whole host; [`counters`] holds small graphs to measure
//! with. The resulting graphs have every value they need, but not the effects of their blocks: have a
//! registry annotate them, then verify them. Models are data: adding one needs no code, only a line in
//! [`ALL`].
#![forbid(unsafe_code)]

pub mod counters;
mod host;
mod nic;

pub use host::{HostConfig, ModelError, Service, Socket, host, with_sockets};
pub use nic::{NICS, NicModelError, nic, nic_of_driver, nics};

/// A shipped model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Its path in this folder.
    pub file: &'static str,
    /// Its text.
    pub source: &'static str,
}

/// A host on one Ethernet link: ARP, IPv4, ICMP echo and UDP.
pub const HOST: Model =
    Model { file: "proto/host.unicorn", source: include_str!("../proto/host.unicorn") };

/// Every model of a protocol; those of NICs are [`NICS`].
pub const ALL: &[Model] = &[HOST];
