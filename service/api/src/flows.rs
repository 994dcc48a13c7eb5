//! What a policy does: flows and queues, as they are now.

use serde::{Deserialize, Serialize};

/// The most flows, or filters of a queue, that one answer has.
pub const MAX_FLOWS: usize = 2000;

/// Answer to `flows`: which flow goes where, the busiest in front.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flows {
    /// Nanoseconds since the stack was started.
    pub uptime_ns: u64,
    /// How many flows there are, of which no more than was asked for are listed.
    pub total: u64,
    /// The flows.
    pub flows: Vec<FlowStatus>,
    /// Flows that were seen and that the policy has no place for.
    pub unplaced: u64,
    /// Flows that were seen when too many were known already.
    pub refused: u64,
    /// How often a plan was made or changed.
    pub searches: u64,
    /// How long the longest of these took until the device had it, in nanoseconds.
    pub slowest_ns: u64,
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
    /// Who told of it: `file`, `service` or `traffic`.
    pub origin: String,
    /// The workers' numbers that its packets arrive at; several if it has no filter.
    pub queues: Vec<u32>,
    /// What its filters match; none if it goes where unregistered traffic goes.
    pub filters: Vec<String>,
    /// Its packets: those that its filters have matched; an estimate for five-tuples without one.
    /// Nothing if nobody counts them: a NIC's own filters do not.
    pub packets: Option<u64>,
    /// Packets per second, lately; flows that are no five-tuples have none.
    pub rate: Option<u64>,
}

/// Answer to `queues`: what each worker gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queues {
    /// Nanoseconds since the stack was started.
    pub uptime_ns: u64,
    /// A row for each link and worker that receives from it.
    pub queues: Vec<QueueStatus>,
    /// Why devices are not as the policy wants them, a line each; none if they are.
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
    /// Packets lost because the worker left no room.
    pub dropped: u64,
    /// Turns of the worker's loop, and how often it slept: one that never sleeps has no time left,
    /// unless it is told to spin.
    pub turns: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// The nodes of the graph that the worker runs.
    pub nodes: u64,
    /// The nodes of the graph of all, of which workers run parts.
    pub nodes_of_all: u64,
    /// The classes whose flows arrive here, with how many they are. Empty without a policy.
    pub classes: Vec<ClassShare>,
    /// Whether traffic that nobody registered arrives here.
    pub other: bool,
    /// The filters that lead here, the busiest in front.
    pub filters: Vec<FilterStatus>,
    /// How many filters there are, of which no more than was asked for are listed.
    pub filters_total: u64,
}

/// How many flows of a class arrive at a queue.
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
    /// What it matches.
    pub filter: String,
    /// The flow that it is for; none if that has gone and the filter is not in the way.
    pub flow: Option<String>,
    /// Packets that it has matched; nothing if the device does not say.
    pub hits: Option<u64>,
}
