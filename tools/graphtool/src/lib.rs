//! `weever graph`: check, format, draw and show Unicorn files.
//!
//! [`GraphCommand`] is the command line, [`run`] executes it.
#![forbid(unsafe_code)]

mod command;
mod error;
mod file;
mod show;

pub use command::{GraphCommand, run};
pub use error::GraphToolError;
pub use show::show;
