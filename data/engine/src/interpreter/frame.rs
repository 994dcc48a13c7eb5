//! What one batch needs while it walks the graph. Reused from batch to batch.

use weever_block::{Priority, Requests};
use weever_packet::Mask;

use crate::counters::Counter;
use crate::schedule::{Board, Entry, Program};

/// Where claimed buffers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Spawn {
        entry: Entry,
        priority: Priority,
    },
    /// A spawn edge to a node that is at home on another worker.
    Elsewhere {
        entry: Entry,
        priority: Priority,
    },
    Transmit {
        link: u16,
    },
    Collect {
        node: u32,
    },
    Block {
        node: u32,
        key: u64,
    },
}

/// The disposition of some tasks, recorded until the batch's last node has run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    pub(crate) to: Destination,
    pub(crate) tasks: Mask,
    /// Counts those that go there.
    pub(crate) taken: Option<Counter>,
    /// Counts those that find no room.
    pub(crate) full: Counter,
}

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) board: Board,
    pub(crate) requests: Requests,
    /// At most one per task, since later dispositions of a task are ignored.
    pub(crate) claims: Vec<Claimed>,
    /// Where the tasks are blocked, and key.
    pub(crate) notifies: Vec<(Entry, Option<u64>)>,
    /// The tasks that have a disposition.
    pub(crate) settled: Mask,
}

impl Frame {
    pub(crate) fn new(program: &Program) -> Frame {
        Frame {
            board: Board::new(program),
            requests: Requests::new(),
            claims: Vec::with_capacity(64),
            notifies: Vec::with_capacity(64),
            settled: 0,
        }
    }
}
