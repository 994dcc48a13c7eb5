//! What a block asks of the engine, as data.

use weever_packet::{Buffer, Mask, Nanos};

/// The queue that a new task joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// First in, first out, before every LOW task.
    #[default]
    High,
    /// When nothing HIGH is left: polling and housekeeping.
    Low,
}

/// Where a task's buffer goes when its last node has run: its disposition (DESIGN §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A new task along the spawn edge gets it.
    Spawn {
        /// The edge, numbered as in [`BlockType::spawns`](crate::BlockType::spawns).
        edge: u32,
        /// The new task's priority.
        priority: Priority,
    },
    /// The link sends it, on the queue in its metadata.
    Transmit {
        /// The link, numbered by the worker.
        link: u16,
    },
    /// The block that claimed it, by [`Block::collect`](crate::Block::collect).
    Collect,
    /// The task waits at this node for a notify with `key`, and then starts here again.
    Block {
        /// What it waits for.
        key: u64,
    },
}

/// A new task that does not take over the current task's buffer.
#[derive(Debug)]
pub struct SpawnRequest {
    /// The spawn edge, numbered as in [`BlockType::spawns`](crate::BlockType::spawns).
    pub edge: u32,
    /// The new task's buffer, if it has one.
    pub buffer: Option<Buffer>,
    /// Start so many nanoseconds later; 0: now.
    pub delay: Nanos,
    /// The new task's priority.
    pub priority: Priority,
}

/// Everything a block asked for during one call. The engine empties it after each node.
#[derive(Debug, Default)]
pub struct Requests {
    /// Dispositions, with the tasks that they are for.
    pub claims: Vec<(Claim, Mask)>,
    /// New tasks.
    pub spawns: Vec<SpawnRequest>,
    /// Wake-ups: notify edge and key; without a key, of all that wait there.
    pub notifies: Vec<(u32, Option<u64>)>,
    /// Increments of the block's own counters.
    pub counts: Vec<(u32, u64)>,
}

impl Requests {
    /// Room enough that a burst of 64 never allocates.
    pub fn new() -> Requests {
        Requests {
            claims: Vec::with_capacity(64),
            spawns: Vec::with_capacity(128),
            notifies: Vec::with_capacity(64),
            counts: Vec::with_capacity(64),
        }
    }

    /// Whether nothing was asked for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
            && self.spawns.is_empty()
            && self.notifies.is_empty()
            && self.counts.is_empty()
    }
}
