//! Methods `queues` and `flows`: the traffic of each worker, and the worker of each flow.

use serde::{Deserialize, Serialize};

use crate::Method;

/// Parameters of `queues`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueuesRequest {
    /// The most filters of each worker to list, up to [`MAX_FLOWS`].
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
    /// How many workers receive from each queue of the link now; none if that cannot be changed.
    pub threads: Option<u16>,
    /// How often workers that share the queues of the link's device gave up the order in which packets came, because one of them
    /// was late: a sum of all its queues; none if order is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_given_up: Option<u64>,
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
    /// The applications to whose sockets packets arrive here. Empty without a policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<String>,
    /// The sum of the rates with which flows that arrive here were registered; `None` if there are
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered_rate: Option<u64>,
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

/// The most flows, or filters of a queue, that one answer has.
pub const MAX_FLOWS: usize = 2000;

/// Parameters of `flows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowsRequest {
    /// The most flows to list, up to [`MAX_FLOWS`].
    pub most: usize,
}

impl Default for FlowsRequest {
    fn default() -> FlowsRequest {
        FlowsRequest { most: MAX_FLOWS }
    }
}

impl Method for FlowsRequest {
    const NAME: &'static str = "flows";
    type Answer = Flows;
}

/// Answer to `flows`: the workers of the flows, the busiest flow first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flows {
    /// Nanoseconds since the stack was started.
    pub uptime_ns: u64,
    /// The number of flows; at most as many as requested are listed.
    pub total: u64,
    /// The flows.
    pub flows: Vec<FlowStatus>,
    /// Flows that were seen and have no place in the policy.
    pub unplaced: u64,
    /// Flows that were seen when too many were known already.
    pub refused: u64,
    /// The number of plans made or changed.
    pub searches: u64,
    /// The longest time from the start of one of these until the device had it, in nanoseconds.
    pub slowest_ns: u64,
    /// Searches that applications have asked for and got.
    pub asked_for: u64,
    /// Searches that applications have asked for too soon.
    pub too_soon: u64,
}

/// A flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowStatus {
    /// The link on which it arrives.
    pub link: String,
    /// Its name: as in the file of flows, `service:NAME`, or its five-tuple.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its source: `file`, `service`, `application` or `traffic`.
    pub origin: String,
    /// The numbers of the workers that its packets arrive at; several if it has no filter.
    pub queues: Vec<u32>,
    /// The packets that its filters match; none if it goes where unregistered traffic goes.
    pub filters: Vec<String>,
    /// Its packets: those that its filters have matched; an estimate for five-tuples without one.
    /// None if they are not counted: a NIC's own filters do not count.
    pub packets: Option<u64>,
    /// Packets per second, lately; none for flows that are no five-tuples.
    pub rate: Option<u64>,
    /// Packets per second that the file of flows or the application expects, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered_rate: Option<u64>,
}
