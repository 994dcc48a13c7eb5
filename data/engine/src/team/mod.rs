//! The workers of one stack, and changing their graph while they run.
//!
//! [`Team::build`] makes one worker per member, all with the same graph. Each is run by its own
//! thread. The [`Publisher`] stays with the thread that controls the stack: it holds the graph and
//! publishes the next one to all workers or to none. With [`Publisher::fit`], every worker but the
//! first runs only the part of the graph that its packets need. Changes refer to the whole graph;
//! node names, entry numbers and dispatch points mean the same on every worker.

mod build;
mod error;
mod flows;
mod next;
mod part;
mod partition;
mod publisher;
mod running;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use weever_link::LinkQueue;
use weever_packet::PoolCache;

use crate::{Limits, Worker};

pub use error::TeamError;
pub use flows::FlowMoves;
pub use part::Fit;
pub use publisher::{Published, Publisher};

/// A queue that a member serves.
pub struct MemberQueue {
    /// The link's number, below [`Limits::links`](crate::Limits::links).
    pub link: u16,
    /// The name of the node where its packets start.
    pub source: String,
    /// The queue.
    pub queue: Box<dyn LinkQueue>,
}

/// The description of a worker.
pub struct Member {
    /// Its name in errors.
    pub name: String,
    /// The cache that it takes frames from.
    pub pool: PoolCache,
    /// Its bounds.
    pub limits: Limits,
    /// Its queues. The first member is the default worker, which runs single-homed nodes.
    pub queues: Vec<MemberQueue>,
}

/// Workers that run one graph, or parts of it.
#[derive(Debug)]
pub struct Team {
    /// In the order of the members. Move each to a thread of its own.
    pub workers: Vec<Worker>,
    /// Changes the graphs that they run.
    pub publisher: Arc<Publisher>,
}
