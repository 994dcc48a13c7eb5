//! `weever capture`: packets of a running stack as they pass, as lines for people or as a capture
//! file.
//!
//! The stack copies them on request and knows nothing of files; [`CaptureArgs::run`] asks for them
//! over the control socket, and [`line`](line()) describes one in words.
#![forbid(unsafe_code)]

mod command;
mod file;
mod line;

pub use command::{CaptureArgs, CaptureError};
pub use line::line;
