//! The stack as a service: the one crate that joins everything (DESIGN §3).
//!
//! [`config::Config`] says what a stack is to be. [`Stack::start`] opens a device over AF_XDP,
//! makes a graph of the configuration, and has a worker execute it on a core of its own;
//! [`Stack::start_on`] does the same over any link. A running stack answers on a Unix socket
//! ([`control`]), and [`UpArgs`] is the `weever up` command around it.
#![forbid(unsafe_code)]

pub mod config;
pub mod control;
pub mod preflight;
mod stack;
mod up;

pub use stack::{Report, Stack, StartError, Stopper};
pub use up::{UpArgs, UpError};
