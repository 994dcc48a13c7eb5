//! The requests of `ethtool` to the kernel, typed: channels, steering rules, spreading, and the switch
//! for rules.
//!
//! A [`Driver`] answers for one device. [`KernelDriver`] makes the system calls; [`Simulated`] is a
//! device in memory, with the limits and failures of real ones. A rule travels as a
//! [`RuleSpec`], which is the kernel's structure: it is compared byte by byte, so that a rule that
//! another process changed is noticed. [`Match`] is the part that it matches.
//!
//! There is no netlink form of steering rules, so all of it goes through the older `SIOCETHTOOL`
//! (`<linux/ethtool.h>`), which the kernel serves in the network namespace of the socket.

mod behaviour;
mod driver;
mod error;
mod kernel;
mod layout;
mod matching;
mod profile;
mod received;
mod shared;
mod simulated;
mod spec;
#[cfg(test)]
mod tests;

pub use crate::netlink::events::Announced;
pub use driver::{Channels, Driver, HashFields, Hashing, Identity, Rings, Spreading, TableSize};
pub use error::EthtoolError;
pub use kernel::KernelDriver;
pub use matching::Match;
pub use profile::{Packet, Profile};
pub use shared::SharedDevice;
pub use simulated::{InjectedFailure, Simulated};
pub use spec::{Action, RuleSpec};

/// A location that lets the driver choose (`RX_CLS_LOC_ANY`).
pub const ANY_LOCATION: u32 = 0xffff_ffff;
