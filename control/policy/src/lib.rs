//! Policies and flows as text.
//!
//! The planner knows neither TOML nor pcap-filter, and the daemon and the tools must read the same
//! files the same way; so what people write is read here. [`flows::parse`] takes a list of flows,
//! [`policy::parse`] a page of TOML, and [`assign`] brings the two together.
//!
//! Nothing here does input or output, and nothing panics on what it is given: every mistake of a
//! file is reported at once, with its line, up to a bound.
#![forbid(unsafe_code)]

pub mod flows;
pub mod policy;

mod assign;
mod filter;
mod problem;
mod suggest;

pub use assign::{Assigned, assign, assign_on};
pub use problem::{Place, Problem, Problems};
