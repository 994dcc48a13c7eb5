//! Running: the configuration as a host, its shared state, changes, and reactions to
//! the state of the network.

mod change;
mod events;
pub(super) mod host;
pub(super) mod secret;
pub(super) mod shared;
pub(super) mod watch;
