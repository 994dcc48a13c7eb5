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
#![forbid(unsafe_code)]

mod error;
mod host;
mod run;
mod sockets;
mod topology;

pub use error::SimError;
pub use host::{CableId, HostId};
pub use run::Sim;
pub use sockets::Datagram;
pub use topology::Topology;

/// Nanoseconds in a millisecond of the virtual clock.
pub const MILLIS: u64 = 1_000_000;
/// Nanoseconds in a second of the virtual clock.
pub const SECOND: u64 = 1_000 * MILLIS;
