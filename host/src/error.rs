//! Why a host cannot be assembled or started.

use std::net::IpAddr;

use weever_app_server::ServerError;
use weever_engine::TeamError;
use weever_models::ModelError;
use weever_net::state::StateError;

use crate::{FrameBudget, Prefix};

/// Why a host cannot be built. The builder is as it was before the step that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// An interface is on a link that was not added.
    #[error("interface {interface}: there is no link {link}; add the link first")]
    NoLink {
        /// The interface.
        interface: String,
        /// The link's number.
        link: u16,
    },
    /// An interface or one of its addresses is impossible, or clashes with others.
    #[error(transparent)]
    Network(#[from] StateError),
    /// A route cannot be added.
    #[error("route to {to}: {source}")]
    Route {
        /// The destinations.
        to: Prefix,
        /// The reason.
        source: StateError,
    },
    /// The router of a route is of another family than the destinations.
    #[error("route to {to}: the router {via} is of the other family")]
    RouteFamily {
        /// The destinations.
        to: Prefix,
        /// The router.
        via: IpAddr,
    },
    /// A fixed neighbour is in none of the interfaces' networks.
    #[error("neighbour {address}: no interface leads there")]
    NeighbourOffLink {
        /// The neighbour.
        address: IpAddr,
    },
    /// There are too many fixed neighbours.
    #[error("neighbour {address}: {why}")]
    NeighbourTable {
        /// The neighbour.
        address: IpAddr,
        /// The cache's error.
        why: String,
    },
    /// The sockets clash, or the graph has no place for them.
    #[error("the host graph cannot be configured: {0}")]
    Model(#[from] ModelError),
    /// The graph cannot run.
    #[error("the host graph cannot run: {0}")]
    Graph(#[from] TeamError),
    /// The applications' link cannot be made.
    #[error("application queues: {0}")]
    Applications(#[from] ServerError),
    /// A pool has too few frames for those who hold some.
    #[error("there are too few frames: {0}")]
    Frames(FrameBudget),
    /// A worker's thread could not be started.
    #[error("{worker}: its thread cannot be started: {source}")]
    Thread {
        /// The worker.
        worker: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// A worker cannot run on its core.
    #[error("{worker} cannot be bound to core {core} ({source}); this process may use {allowed}")]
    Core {
        /// The worker.
        worker: String,
        /// The core.
        core: usize,
        /// The system's word.
        source: std::io::Error,
        /// The cores that it may be bound to.
        allowed: String,
    },
}
