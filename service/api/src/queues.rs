//! Method `queues`: the traffic of each worker.

use serde::{Deserialize, Serialize};

use crate::Method;

/// Parameters of `queues`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueuesRequest {
    /// The most filters of each worker to list, up to [`MAX_FLOWS`](crate::MAX_FLOWS).
    pub filters: usize,
}

impl Method for QueuesRequest {
    const NAME: &'static str = "queues";
    type Answer = Queues;
}

/// Answer to `queues`: the traffic of each worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queues {
    /// Nanoseconds since the stack was started.
    pub uptime_ns: u64,
    /// A row for each link and worker that receives from it.
    pub queues: Vec<QueueStatus>,
    /// The reasons why devices are not as the policy wants them, a line each; empty if they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A worker's share of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueStatus {
    /// The link.
    pub link: String,
    /// The number of the worker, which is that of the queue in policies and plans.
    pub queue: u32,
    /// The worker's name.
    pub worker: String,
    /// The core it is bound to.
    pub core: Option<usize>,
    /// The link's queues that it serves.
    pub sockets: Vec<u16>,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost because the worker did not receive them in time.
    pub dropped: u64,
    /// Turns of the worker's loop. A worker that never sleeps is fully loaded, unless it is told to
    /// spin.
    pub turns: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// The nodes of the graph that the worker runs.
    pub nodes: u64,
    /// The nodes of the graph of all, of which workers run parts.
    pub nodes_of_all: u64,
    /// The classes whose flows arrive here, with the number of their flows. Empty without a policy.
    pub classes: Vec<ClassShare>,
    /// Whether traffic that nobody registered arrives here.
    pub other: bool,
    /// The filters that lead here, the busiest in front.
    pub filters: Vec<FilterStatus>,
    /// The number of filters; at most as many as requested are listed.
    pub filters_total: u64,
}

/// The number of a class's flows that arrive at a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassShare {
    /// The class.
    pub name: String,
    /// Its flows.
    pub flows: u64,
}

/// A filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilterStatus {
    /// The packets that it matches.
    pub filter: String,
    /// Its flow; none if that has gone and the filter does no harm.
    pub flow: Option<String>,
    /// Packets that it has matched; none if the device does not report them.
    pub hits: Option<u64>,
}
