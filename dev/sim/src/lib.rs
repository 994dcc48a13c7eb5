//! Networks of whole stacks on a virtual clock.
//!
//! A [`Topology`] says which hosts there are, how they are joined and which faults the cables have.
//! It is [started](Topology::start) as a [`Sim`], in which every host runs the graph that it would
//! run on a device, over memory links. Time passes only in [`Sim::run_for`], from event to event: a
//! minute of a protocol's timers takes milliseconds, and a run is the same each time for a seed.
//!
//! ```
//! use weever_sim::{SECOND, Topology};
//!
//! let mut net = Topology::new(7);
//! let (a, b) = (net.host("a"), net.host("b"));
//! net.cable(a, "10.0.0.1/24", b, "10.0.0.2/24");
//! net.listen(a, 5000);
//! net.echo(b, 7);
//! let mut sim = net.start()?;
//! sim.send(a, 5000, "10.0.0.2:7".parse()?, b"hello")?;
//! sim.run_for(SECOND);
//! assert_eq!(sim.received(a)[0].payload, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A host may have several [workers](Topology::workers), at different speeds. Its listening ports have state for
//! each flow, which goes to another worker while datagrams arrive ([`Sim::move_flow`]), as do sets of flows that a filter
//! takes ([`Sim::move_flows`]), those of a worker whose queues fail ([`Sim::cut_off`]), and those of one that gets
//! another part of the graph ([`Sim::fit`]).
#![forbid(unsafe_code)]

mod host;
mod run;
mod sockets;
mod sorter;
mod topology;
mod workers;

use std::net::IpAddr;

pub use host::{CableId, HostId};
pub use run::Sim;
pub use sockets::Datagram;
pub use topology::Topology;
pub use workers::idle_part;

/// Nanoseconds in a millisecond of the virtual clock.
pub const MILLIS: u64 = 1_000_000;
/// Nanoseconds in a second of the virtual clock.
pub const SECOND: u64 = 1_000 * MILLIS;

/// Why a network cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A part of the topology makes no sense.
    #[error("host {host}: {problem}")]
    Host {
        /// The host.
        host: String,
        /// The mistake.
        problem: String,
    },
    /// A host does not know the way to where it is to send.
    #[error("host {host} has no route to {to}: add one to the topology")]
    NoRoute {
        /// The host.
        host: String,
        /// The destination.
        to: IpAddr,
    },
    /// A host has no buffer left to send with, or the datagram is longer than one.
    #[error("host {host} has no buffer for a datagram of {len} bytes")]
    NoBuffer {
        /// The host.
        host: String,
        /// The payload's length.
        len: usize,
    },
}
