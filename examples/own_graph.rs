//! Embed the engine with a graph of one's own: no device, no host, no policy.
//!
//! A graph is text, a block is a type with one method, and an engine runs bursts of up to 64 packets
//! through them. This one counts frames that are long, and sends all of them back to link 0.
//!
//! ```sh
//! cargo run --example own_graph
//! ```
#![forbid(unsafe_code)]

use std::error::Error;

use weever_block::{Block, BlockType, Cx, Env, PortDoc, Ports, Registry, StateKind, bits};
use weever_engine::{CounterKind, Engine, Limits, Schedule};
use weever_graph::{Effects, verify};
use weever_packet::{Burst, Mask, Pool, PoolConfig, first_n};

/// The nodes that packets go through. `implementation` names the block, square brackets name a
/// port's target.
const GRAPH: &str = r#"
    graph own {
        node In {
            implementation Length
            attr "source"
            port long[Count]
            port short[Out]
        }

        node Count {
            implementation Counter
            port out[Out]
        }

        node Out {
            implementation Send
        }
    }
"#;

/// The block's type: its name, and the facts that the verifier needs.
static LENGTH: BlockType = BlockType {
    name: "Length",
    summary: "Tells long frames from short ones.",
    ports: &[
        PortDoc { name: "long", doc: "128 bytes and more" },
        PortDoc { name: "short", doc: "all others" },
    ],
    spawns: &[],
    notifies: &[],
    effects: Effects::READS,
    state: StateKind::None,
    params: &[],
    counters: &[],
    make: |_| Ok(Box::new(Length)),
};

struct Length;

impl Block for Length {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        // A bit of the mask is a packet. Every bit of the input leaves by exactly one port.
        let is_long = |i: &usize| burst.get(*i).is_some_and(|buffer| buffer.len() >= 128);
        let long = bits(input).filter(is_long).fold(0, |mask, i| mask | 1 << i);
        ports.enable(0, long);
        ports.enable(1, input & !long);
    }
}

static SEND: BlockType = BlockType {
    name: "Send",
    summary: "Sends to link 0.",
    ports: &[],
    effects: Effects::READS,
    make: |_| Ok(Box::new(Send)),
    ..LENGTH
};

struct Send;

impl Block for Send {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.transmit(0, input);
    }
}

/// Sends two short frames and a long one through the graph; returns how many came out, and how many
/// were counted.
fn run() -> Result<(usize, u64), Box<dyn Error>> {
    // Blocks of one's own beside those that ship (`Counter`).
    let registry: Registry = weever_blocks_std::registry().with(&[&LENGTH, &SEND]);
    let mut graph = weever_unicorn::load(GRAPH, "own_graph.rs")?.graph;
    registry.annotate(&mut graph)?;
    let graph = verify(graph).map_err(|errors| errors[0].clone())?;

    let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() })?;
    let schedule = Schedule::compile(&graph, &registry, &Env::new())?;
    let mut engine = Engine::new(schedule, pool.cache(), Limits::default());

    let mut burst = Burst::new();
    for (i, length) in [60, 200, 60].into_iter().enumerate() {
        let mut buffer = engine.pool().alloc().ok_or("the pool is empty")?;
        buffer.append(&vec![0; length]);
        burst.put(i, buffer);
    }
    let entry = engine.entry("In").ok_or("the graph has no node `In`")?;
    // The time is an argument: a simulation can choose it.
    engine.inject(entry, &mut burst, first_n(3), 0);

    let sent = engine.outbox(0).len();
    let counted = engine.counters().get("Count", CounterKind::Port, "out").unwrap_or_default();
    Ok((sent, counted))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (sent, counted) = run()?;
    println!("{sent} frames came out, {counted} of them long");
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn three_frames_come_out_and_one_is_long() {
        assert_eq!(super::run().unwrap(), (3, 1));
    }
}
