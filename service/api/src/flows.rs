//! Method `flows`: the worker of each flow.

use serde::{Deserialize, Serialize};

use crate::Method;

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
    /// Its source: `file`, `service` or `traffic`.
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
}
