//! The two ends of a cut edge.

use weever_block::{Block, BlockType, Burst, Cx, Mask, PortDoc, Ports, StateKind};
use weever_graph::Effects;

/// How the end on the side of the sender is called, before the name of the node that it leads to.
pub(crate) const TO_QUEUE: &str = "ToQueue_";
/// How the end on the side of the receiver is called.
pub(crate) const FROM_QUEUE: &str = "FromQueue_";

/// Ends the task here and has its packet go on in a task of its own at the other end. That is all of
/// what is left of the task: it must be a cut vertex like a node that blocks.
pub(super) static TO: BlockType = BlockType {
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

/// Where they arrive.
pub(super) static FROM: BlockType = BlockType {
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
