//! The workers of one stack, and changing what they run while they run.
//!
//! [`Team::build`] makes one worker per member, all with the same graph. Each is then run by a thread
//! of its own, while the [`Publisher`] stays with whoever controls the stack: it holds the graph, and
//! gives all workers the next one, or none of them. With [`Publisher::fit`], each but the first runs a
//! part of the graph that is made for what it receives. The graph as a whole stays what changes are
//! relative to; names, numbers of entries and dispatch points mean the same on every worker.

mod build;
mod connect;
mod error;
mod next;
mod part;
mod partition;
mod publisher;
mod queues;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use weever_link::LinkQueue;
use weever_packet::PoolCache;

use crate::{Limits, Worker};

pub use error::TeamError;
pub use part::Fit;
pub use publisher::{Published, Publisher};
pub(crate) use queues::FROM_QUEUE;

/// A queue that a member serves.
pub struct MemberQueue {
    /// The link's number, below [`Limits::links`](crate::Limits::links).
    pub link: u16,
    /// The name of the node where its packets start.
    pub source: String,
    /// The queue.
    pub queue: Box<dyn LinkQueue>,
}

/// What a worker is made of.
pub struct Member {
    /// What errors call it.
    pub name: String,
    /// Its frames.
    pub pool: PoolCache,
    /// Its bounds.
    pub limits: Limits,
    /// Its queues. The first member is the default worker: what has to be in one place is there.
    pub queues: Vec<MemberQueue>,
}

/// Workers that run one graph, or parts of it.
#[derive(Debug)]
pub struct Team {
    /// In the order of the members. Move each to a thread of its own.
    pub workers: Vec<Worker>,
    /// Changes what they run.
    pub publisher: Arc<Publisher>,
}
