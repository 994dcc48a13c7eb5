//! Method `counters`: the stack's counters.

use serde::{Deserialize, Serialize};

use crate::Method;

/// Parameters of `counters`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountersRequest {}

impl Method for CountersRequest {
    const NAME: &'static str = "counters";
    type Answer = Counters;
}

/// Answer to `counters`: everything counted since the stack was started, summed over workers.
/// Counters are read while the workers run, so that sums over several of them may be a few packets
/// apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Nanoseconds since the stack was started.
    pub uptime_ns: u64,
    /// The graph's nodes, in the order in which they run.
    pub nodes: Vec<NodeCounters>,
    /// Packets that were dropped, by node (or link and queue) and reason.
    pub drops: Vec<DropCounter>,
    /// The links' queues, up to a tenth of a second old.
    pub links: Vec<LinkCounters>,
    /// The buffer pools.
    pub pools: Vec<PoolCounters>,
    /// Counters of the engine as a whole, such as `batches` and `blocked_now`.
    pub totals: Vec<NamedCounter>,
}

/// The counters of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeCounters {
    /// The node's full name in the graph.
    pub name: String,
    /// Tasks that reached it.
    pub packets: u64,
    /// Tasks that left it, by port.
    pub ports: Vec<PortCounter>,
    /// Tasks that it started, by spawn edge.
    pub spawned: Vec<PortCounter>,
    /// The block's own counters.
    pub own: Vec<NamedCounter>,
}

/// How many tasks left by one port, or were started along one spawn edge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortCounter {
    /// The port's name, or the edge's label.
    pub name: String,
    /// Tasks that took it.
    pub packets: u64,
}

/// A counter that a block keeps for itself, or one of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedCounter {
    /// The counter's name, as in the documentation.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// Packets dropped at one place for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DropCounter {
    /// The node at which the packets ended, or the link (`eth0`) or its queue (`eth0 queue 2`).
    pub node: String,
    /// The port or edge by which they would have left, if they left the node at all.
    pub port: Option<String>,
    /// The reason, in words.
    pub reason: String,
    /// The number of packets.
    pub packets: u64,
}

/// The traffic of one queue of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkCounters {
    /// The link's name.
    pub link: String,
    /// The queue's number.
    pub queue: u16,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets given to the device.
    pub tx_packets: u64,
    /// Bytes given to the device.
    pub tx_bytes: u64,
    /// Packets that the device dropped because its queue was full.
    pub rx_dropped: u64,
    /// Receive descriptors that were invalid.
    pub rx_invalid: u64,
    /// Packets of a capture file that cannot be replayed.
    pub rx_unusable: u64,
    /// Packets that could not be sent.
    pub tx_dropped: u64,
    /// Times that the device found no free frame for a packet.
    pub fill_empty: u64,
    /// Packets copied into a frame of the device's pool on their way out.
    pub tx_copied: u64,
    /// Frames that the device gave back although it did not have them. They were ignored.
    pub bad_returns: u64,
}

/// How full a buffer pool is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolCounters {
    /// The use of its frames; empty: packets of any kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub holder: String,
    /// Frames it has.
    pub frames: u64,
    /// Frames in its depot: neither in a worker's cache, a packet nor a device's ring.
    pub available: u64,
    /// In `status`: the holders of frames, with the most that each may have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<PoolShare>,
}

/// Holders of a pool's frames, of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolShare {
    /// The holder's purpose: `receiving on eth0`.
    pub holder: String,
    /// The number of these holders.
    pub count: u64,
    /// The most frames that each has.
    pub each: u64,
}
