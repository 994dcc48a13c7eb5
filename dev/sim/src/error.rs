//! Why a simulation cannot start or go on.

use std::net::IpAddr;

/// Why a network cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A part of the topology makes no sense.
    #[error("host {host}: {problem}")]
    Host {
        /// The host.
        host: String,
        /// The mistake.
        problem: String,
    },
    /// A host does not know the way to where it is to send.
    #[error("host {host} has no route to {to}: add one to the topology")]
    NoRoute {
        /// The host.
        host: String,
        /// The destination.
        to: IpAddr,
    },
    /// A host has no buffer left to send with, or the datagram is longer than one.
    #[error("host {host} has no buffer for a datagram of {len} bytes")]
    NoBuffer {
        /// The host.
        host: String,
        /// The payload's length.
        len: usize,
    },
}
