//! Policies and flows as text.
//!
//! The planner knows neither TOML nor pcap-filter, and the daemon and the commands must read the same
//! files the same way; so the files are read, and checked, here and nowhere else. [`flows::parse`] reads
//! a list of flows. [`policy::parse`] reads a policy into a [`policy::CheckedPolicy`]: a document whose
//! classes have predicates, with the classifier made from them. From then on no text is parsed again:
//! [`policy::CheckedPolicy::classify`] turns a flow of a file, a service or traffic into a planner's flow.
//!
//! Nothing here does input or output, and nothing panics on bad input: all mistakes of a file are
//! reported at once, each with its line and a remedy, up to a bound.
#![forbid(unsafe_code)]

pub mod flows;
pub mod policy;

mod filter;
mod problem;

pub use problem::{Position, Problem, Problems};
