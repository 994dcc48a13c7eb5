//! The stack as a service: the one crate that joins everything (design/0000 §3).
//!
//! A [`config::Config`] describes a stack. [`Stack::start`] opens a device over AF_XDP, makes a
//! graph of the configuration, and has a worker execute it on a core of its own;
//! [`Stack::start_on`] does the same over any link. A running stack answers on a Unix socket
//! ([`control`]), and [`UpArgs`] is the `weever up` command around it.
//!
//! A stack in memory, without privileges:
//!
//! ```
//! use weever_daemon::{Stack, config::Config};
//! use weever_link::memory::{MemoryConfig, pair};
//! use weever_packet::{Pool, PoolConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::new(PoolConfig { frames: 1024, ..PoolConfig::default() })?;
//! let (ours, _peers) = pair(&MemoryConfig::default())?;
//! let mut config = Config::new("memory0", "10.0.0.1/24".parse()?);
//! config.services.echo = Some(7);
//! let stack = Stack::start_on(vec![Box::new(ours)], pool, config)?;
//! assert_eq!(stack.status().services.len(), 1);
//! assert_eq!(stack.stop().failure, None);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod control;
pub mod metrics;
pub mod preflight;
mod privileges;
mod release;
mod stack;
mod up;

pub use privileges::PrivilegeError;
pub use release::{ReleaseArgs, ReleaseError};
pub use stack::{PolicyError, PolicyReloader, Stack, StackTotals, StartError, Stopper};
pub use up::{LogFormat, UpArgs, UpError};
