//! One representation for three graphs (design/0000 §4.1): the work to be done (LPG), the capabilities
//! of a NIC (PRG), and the running graph.
//!
//! A [`Graph`] is an arena of [`Node`]s. Dataflow edges start at a [`Port`] and are acyclic; spawn
//! and notify edges start at a node and may form cycles. The path that data takes through this
//! crate is: build or lower into a [`Graph`] → give every config node a value ([`configure()`]) →
//! [`verify()`] → hand the [`Verified`] graph to an engine. A [`ChangeSet`] leads from a
//! graph that runs to the next one. [`svg`] and [`dot`] draw any graph.
#![forbid(unsafe_code)]

pub mod attr;
pub mod change;
pub mod config;
pub mod configure;
pub mod dot;
pub mod effects;
pub mod finding;
pub mod nic;
pub mod node;
pub mod predicate;
pub mod stats;
pub mod svg;
pub mod verify;

mod expand;
mod field;
mod graph;
#[cfg(test)]
mod testkit;

pub use attr::Attr;
pub use change::{Change, ChangeError, ChangeSet, apply, diff};
pub use config::{ConfigType, Value};
pub use configure::{ConfigError, ConfigValue, configure};
pub use effects::Effects;
pub use expand::expand;
pub use field::{Field, Set};
pub use finding::{Finding, GraphError, Kind, Severity};
pub use graph::Graph;
pub use node::{
    ConfigSpec, ENDS, Edge, Entry, Key, Node, NodeId, NodeKind, Op, Port, PortId, Span, TableSpec,
};
pub use predicate::{OpenTest, Predicate, Relation};
pub use stats::{Stats, stats};
pub use verify::{Verified, verify, verify_unconfigured};
