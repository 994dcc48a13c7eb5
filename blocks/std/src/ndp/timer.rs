//! What time does to neighbours, addresses and routers.

use weever_block::{BlockType, PortDoc, StateKind};
use weever_graph::Effects;

use crate::host::V6;
use crate::neighbour::timer;
use crate::periodic::period;

/// Has solicitations repeated, addresses asked for, routers asked, and those woken who wait.
pub static TIMER: BlockType = BlockType {
    spawns: &["again", "send"],
    notifies: &["resolved"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[period("10", "milliseconds between two looks at the IPv6 neighbours")],
    counters: &["solicitations"],
    ..BlockType::new(
        "TxL3NDTimer",
        "Asks for neighbours in use, for our own addresses before we use them, and for routers; \
         ages what they said, and wakes packets whose neighbour was resolved or given up.",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        timer::make::<V6>,
    )
};
