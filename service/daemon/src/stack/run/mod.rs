//! Running: the configuration as a host, its shared state, changes, and reactions to
//! the state of the network.

pub(super) mod applications;
mod change;
pub(super) mod host;
pub(super) mod secret;
pub(super) mod shared;
pub(super) mod wait_modes;
pub(super) mod watch;
