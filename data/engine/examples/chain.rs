//! The cost of the interpreter itself: chains of blocks that count packets and read their length.
//!
//! `cargo run --release -p weever-engine --example chain [NODES [BATCH [ROUNDS]]]` prints, per
//! chain length and batch size, ns per packet and per node and batch. One combination alone is
//! for callgrind.

use std::time::Instant;

use weever_block::{
    Block, BlockType, Burst, Cx, Env, Mask, PortDoc, Ports, Registry, StateKind, bits,
};
use weever_engine::{Engine, Limits, Schedule};
use weever_graph::{Attr, Effects, Graph, Node, NodeId, NodeKind, Port, verify};
use weever_packet::{Pool, PoolConfig, first_n};

static COUNTER: BlockType = BlockType {
    name: "Counter",
    summary: "Counts packets and bytes.",
    ports: &[PortDoc { name: "out", doc: "all" }],
    spawns: &[],
    notifies: &[],
    effects: Effects::READS,
    state: StateKind::None,
    params: &[],
    counters: &["bytes"],
    make: |_| Ok(Box::new(Counter)),
};

struct Counter;

impl Block for Counter {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let length = |i| burst.get(i).map_or(0, |b| b.len() as u64);
        cx.count(0, bits(input).map(length).sum());
        ports.enable(0, input);
    }
}

/// Does nothing: the remaining cost is the engine's.
static PASS: BlockType =
    BlockType { name: "Pass", counters: &[], make: |_| Ok(Box::new(Pass)), ..COUNTER };

struct Pass;

impl Block for Pass {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.enable(0, input);
    }
}

/// Gives its packets to link 0.
static SEND: BlockType =
    BlockType { name: "Send", ports: &[], counters: &[], make: |_| Ok(Box::new(Send)), ..COUNTER };

struct Send;

impl Block for Send {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.transmit(0, input);
    }
}

fn chain(nodes: usize, implementation: &str) -> Result<Engine, Box<dyn std::error::Error>> {
    let mut graph = Graph::new("chain");
    for i in 0..nodes {
        let mut node = Node::new(format!("n{i}"), NodeKind::Function);
        node.implementation = Some(implementation.into());
        let targets = vec![NodeId(i as u32 + 1)];
        node.ports.push(Port { name: "out".into(), targets, ..Port::default() });
        graph.add(node);
    }
    let mut last = Node::new("last", NodeKind::Function);
    last.implementation = Some("Send".into());
    graph.add(last);
    graph.node_mut(NodeId(0)).attrs.push(Attr::Source);
    let graph = verify(graph).map_err(|errors| errors[0].clone())?;
    let registry = Registry::new().with(&[&COUNTER, &PASS, &SEND]);
    let schedule = Schedule::compile(&graph, &registry, &Env::new())?;
    let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() })?;
    Ok(Engine::new(schedule, pool.cache(), Limits::default()))
}

/// How often each measurement is repeated; the least disturbed one counts.
const REPEATS: usize = 20;

/// ns per packet.
fn measure(engine: &mut Engine, batch: usize, rounds: usize) -> f64 {
    let rounds = rounds.div_ceil(REPEATS);
    (0..REPEATS).map(|_| measure_once(engine, batch, rounds)).fold(f64::INFINITY, f64::min)
}

fn measure_once(engine: &mut Engine, batch: usize, rounds: usize) -> f64 {
    let Some(entry) = engine.entry(if engine.entry("n0").is_some() { "n0" } else { "last" }) else {
        return f64::NAN;
    };
    let mut burst = Burst::new();
    for i in 0..batch {
        if let Some(mut buffer) = engine.pool().alloc() {
            buffer.append(&[0; 60]);
            burst.put(i, buffer);
        }
    }
    let start = Instant::now();
    for round in 0..rounds {
        engine.inject(entry, &mut burst, first_n(batch), round as u64);
        for (i, buffer) in engine.outbox(0).drain(..).enumerate() {
            burst.put(i, buffer);
        }
    }
    start.elapsed().as_nanos() as f64 / (rounds * batch) as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let chains = args.first().map_or(vec![0, 1, 5, 10, 25, 50], |n| vec![*n]);
    let batches = args.get(1).map_or(vec![1, 4, 64], |n| vec![*n]);
    for implementation in ["Pass", "Counter"] {
        for batch in &batches {
            let rounds = args.get(2).copied().unwrap_or(2_000_000 / batch.max(&1));
            let base = measure(&mut chain(0, implementation)?, *batch, rounds);
            for nodes in &chains {
                let ns = measure(&mut chain(*nodes, implementation)?, *batch, rounds);
                let per_node = (ns - base) * *batch as f64 / (*nodes).max(1) as f64;
                println!(
                    "{implementation:8} batch {batch:2} nodes {nodes:2}: {ns:7.2} ns/packet, \
                     {per_node:6.2} ns/node/batch"
                );
            }
        }
    }
    Ok(())
}
