//! The control socket of a running stack.
//!
//! [`ControlSocket::bind`] takes the place on the file system, before anything else is touched;
//! [`ControlServer::serve`] answers on it once there is something to tell. Threads: one that
//! accepts, and one per connection, all of them off the packet path.

mod server;
mod socket;

pub use server::ControlServer;
pub use socket::{ControlError, ControlSocket};
