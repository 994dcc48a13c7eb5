//! Why there is no stack inside the application.

use weever_app_sockets::Error;
use weever_host::HostError;
use weever_link_sys::af_xdp::OpenError;
use weever_packet::PoolError;

/// Why a stack inside the application cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The text that describes the stack cannot be read.
    #[error("{text:?} does not describe a stack: {why}; write library:dev=eth0,addr=192.0.2.10/24")]
    Settings {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// There is no memory for frames.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Addresses, routes or the graph.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A keeper's thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// The queue cannot be opened.
    #[error(transparent)]
    Queue(#[from] Error),
}
