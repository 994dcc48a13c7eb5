//! `weever steer`: a policy for the flows of the kernel's stack, on any device.
//!
//! [`SteerArgs`] is the command line. `setup` reads the files, plans, and opens the device as a target
//! of the steward that the daemon runs too: the NIC's filters, or a program that sends frames to CPUs.
//! `session` runs the steward until a signal comes, and undoes everything. `verify` holds a plan against
//! where frames of a peer arrive. `output` prints, for people or
//! as JSON.
#![forbid(unsafe_code)]

mod args;
mod error;
mod output;
mod session;
mod setup;
mod verify;

pub use args::SteerArgs;
pub use error::SteerError;
pub use session::run;
