#![doc = include_str!("README.md")]

mod error;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use atomic_refcell::AtomicRefCell;
use weever_net::demux::{PortRange, SocketTable};
use weever_net::stream::StreamPort;

pub use error::{ERROR, REFUSED};
pub use receive::{DELIVER, DEMUX};
pub use send::SEND;

/// The applications as the graph's nodes see them: the link that leads to them, and each worker's
/// table of sockets, which that worker's thread alone touches.
#[derive(Clone)]
pub struct Applications {
    /// The number of the applications' link.
    pub link: u16,
    /// By worker.
    pub tables: Vec<Arc<AtomicRefCell<SocketTable>>>,
    /// The ports of the host that their connections begin at.
    pub ephemeral: PortRange,
    /// The ports of applications' streams, by worker.
    pub streams: Vec<Arc<dyn StreamPort>>,
}
