//! From what is wanted to what the NIC is told: flows, NIC model and policy in, plan out.
//!
//! A plan is a deterministic function of its arguments: no clock, no threads, no operating system.
#![forbid(unsafe_code)]

pub mod flow;
pub mod nic;
