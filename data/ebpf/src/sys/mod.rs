//! The `bpf(2)` layer: maps, programs, links and test runs, each an owned descriptor.
//!
//! Everything here is a system call that may take the kernel's mutexes but does not wait for
//! events, except [`XdpProgram::run_live`], which runs for as long as it has frames to send.

mod error;
mod link;
mod map;
mod pin;
mod program;
mod run;

pub use error::{AttachMode, BpfError, Rejection};
pub use link::XdpLink;
pub use map::{Map, MapKind, possible_cpus};
pub use program::XdpProgram;
pub use run::{LiveFrames, LiveOutcome, RunOutcome, XdpAction};
