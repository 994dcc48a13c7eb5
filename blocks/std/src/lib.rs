//! The blocks that ship with weever: one folder per family, with a README that lists ports,
//! parameters and counters.
//!
//! An engine builds graphs with the [`registry`]. The protocol blocks of a host share state, which
//! [`host::provide`] puts into the environment. Blocks are adapters: the protocols are in
//! `weever-net` and `weever-wire`, and the order of blocks is in the graph.
#![forbid(unsafe_code)]

pub mod arp;
pub mod by_predicate;
pub mod capture;
pub mod counter;
pub mod dhcp;
pub mod discard;
pub mod esp;
pub mod ethernet;
pub mod foreign;
pub mod fragment;
pub mod host;
pub mod icmp;
pub mod icmp6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod loopback;
pub mod mld;
pub mod ndp;
pub mod queue;
pub mod run;
pub mod socket;
pub mod table;
pub mod tcp;
pub mod tee;
pub mod udp;

mod allocate;
#[cfg(test)]
mod bench;
mod groups;
mod headers;
mod kinds;
mod neighbour;
mod redirect;
mod registry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use registry::registry;
