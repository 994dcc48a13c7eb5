//! `weever graph`: check, format, draw and show Unicorn files, and draw and show the running graph.
//!
//! [`GraphCommand`] is the command line, [`run`] executes it.
#![forbid(unsafe_code)]

mod command;
mod file;
mod nodes;

pub use command::{Check, Fmt, GraphCommand, Input, Picture, Wanted, run, run_with};
pub use file::{GraphToolError, Streams};
