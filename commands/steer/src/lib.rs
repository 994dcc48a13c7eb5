//! `weever steer`: a policy for the flows of the kernel's stack, on any device.
//!
//! [`SteerArgs`] is the command line. A `Planner` holds the search with the flows of a file
//! and those that traffic shows; a `Backend` brings its changes onto the device, by
//! `ethtool` or by a program; a `session` joins the two until a signal comes, and undoes it all.
#![forbid(unsafe_code)]

mod args;
mod backend;
mod cpus;
mod error;
mod nic;
mod planner;
mod program;
mod session;
mod signals;

pub use args::SteerArgs;
pub use error::SteerError;
pub use session::run;
