//! The blocks at the two ends of an edge between workers.

use weever_block::{Block, BlockType, Burst, Cx, Mask, PortDoc, Ports, StateKind};
use weever_graph::Effects;

/// The name prefix of the sending end; the target node's name follows.
pub(crate) const TO_QUEUE: &str = "ToQueue_";
/// The name prefix of the receiving end.
pub(crate) const FROM_QUEUE: &str = "FromQueue_";

/// Ends the task; its packet continues in a new task at the other end. Nothing else of the task may
/// remain, so the node must be a cut vertex, like one that blocks.
pub(crate) static TO: BlockType = BlockType {
    name: "ToQueue",
    summary: "Hands packets over to the worker where the next node is at home.",
    ports: &[],
    spawns: &["queue"],
    notifies: &[],
    effects: Effects::CONSUMES.union(Effects::BLOCKS),
    state: StateKind::None,
    params: &[],
    counters: &[],
    make: |_| Ok(Box::new(To)),
};

/// The receiving end.
pub(crate) static FROM: BlockType = BlockType {
    name: "FromQueue",
    summary: "Where packets arrive that other workers have handed over.",
    ports: &[PortDoc { name: "out", doc: "every packet" }],
    spawns: &[],
    effects: Effects::NONE,
    make: |_| Ok(Box::new(From)),
    ..TO
};

struct To;

impl Block for To {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.spawn(0, input);
    }
}

struct From;

impl Block for From {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.enable(0, input);
    }
}
