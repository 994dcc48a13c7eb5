//! `weever graph`: check, format, draw and show Unicorn files.
//!
//! [`GraphCommand`] is the command line, [`run`] executes it.
#![forbid(unsafe_code)]

mod blocks;
mod command;
mod error;
mod file;
mod setting;
mod show;
mod streams;

pub use command::{Check, Fmt, GraphCommand, Input, run, run_with};
pub use error::GraphToolError;
pub use show::show;
pub use streams::Streams;
