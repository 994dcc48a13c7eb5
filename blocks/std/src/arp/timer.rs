//! What time does to neighbours, on every worker.

use weever_block::{BlockType, PortDoc, StateKind};
use weever_graph::Effects;

use crate::host::V4;
use crate::neighbour::timer;
use crate::periodic::period;

/// Has requests repeated, addresses announced, and those woken who wait for a neighbour.
pub static TIMER: BlockType = BlockType {
    spawns: &["again", "request", "announce"],
    notifies: &["resolved"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("10", "milliseconds between two looks at the neighbour cache")],
    counters: &["requests", "announcements"],
    ..BlockType::new(
        "TxL3ARPTimer",
        "Repeats ARP requests, asks neighbours in use, announces our addresses, and wakes packets \
         whose neighbour was resolved or given up.",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        timer::make::<V4>,
    )
};
