//! Three blocks that weever does not know. A program adds them to the registry of its stack
//! (`src/main.rs`), and graphs use them by name (`sampler.unicorn`).
#![forbid(unsafe_code)]

mod gate;

use weever_block::{
    Block, BlockType, Burst, Cx, Mask, ParamDoc, PortDoc, Ports, READS, State, StateKind, bits,
    validator,
};
use weever_graph::Effects;

pub use gate::{GATE, Lever};

/// A validator: a test of each packet.
pub static LONG_FRAME: BlockType = BlockType {
    params: &[ParamDoc { name: "over", default: "128", doc: "bytes" }],
    ..BlockType::validator("LongFrame", "Has the frame more bytes than `over`?", |build| {
        let over: usize = build.param("over")?;
        validator(move |packet| packet.len() > over)
    })
};

/// A block with a state and a counter of its own.
pub static SAMPLER: BlockType = BlockType {
    effects: READS.union(Effects::STATEFUL),
    state: StateKind::Replicated,
    params: &[ParamDoc {
        name: "every",
        default: "100",
        doc: "packets, of which the first is sampled",
    }],
    counters: &["sampled"],
    ..BlockType::new(
        "Sampler",
        "Picks one packet of every N.",
        &[
            PortDoc { name: "sampled", doc: "one packet of every N" },
            PortDoc { name: "rest", doc: "the others" },
        ],
        |build| {
            let every: u64 = build.param("every")?;
            if every == 0 {
                return Err(build.bad_param("every", "0", "use 1 or more"));
            }
            Ok(Box::new(Sampler { every, seen: 0 }))
        },
    )
};

struct Sampler {
    every: u64,
    seen: u64,
}

impl Block for Sampler {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let mut sampled: Mask = 0;
        for task in bits(input) {
            if self.seen.is_multiple_of(self.every) {
                sampled |= 1 << task;
            }
            self.seen += 1;
        }
        cx.count(0, sampled.count_ones().into());
        ports.enable(0, sampled);
        ports.enable(1, input & !sampled);
    }

    /// When the node gets another `every`, the block that takes this one's place counts on.
    fn export_state(&mut self) -> Option<State> {
        Some(Box::new(self.seen))
    }

    fn import_state(&mut self, state: State) -> Result<(), State> {
        self.seen = *state.downcast::<u64>()?;
        Ok(())
    }
}
