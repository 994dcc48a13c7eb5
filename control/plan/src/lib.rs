//! The planner: flows, NIC model and policy in, NIC configuration and graphs out.
//!
//! A plan is a deterministic function of its arguments: no clock, no threads, no operating system.
#![forbid(unsafe_code)]

pub mod config;
pub mod embed;
pub mod ethtool;
pub mod expanded;
mod features;
pub mod flow;
pub mod map;
pub mod nic;
mod oracle;
pub mod policy;
#[cfg(test)]
mod reference;
pub mod search;
pub mod simplify;
#[cfg(test)]
mod testkit;
pub mod watch;

pub use oracle::Refusal;
