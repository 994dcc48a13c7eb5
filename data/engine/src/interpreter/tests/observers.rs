//! Nodes that only look at packets, on the ways of runs: they see every packet once, and their faults are
//! contained as everywhere.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, BuildError, Burst, CompiledRun, Cx, Env, Mask, PortDoc, Ports, Registry,
    RunCompiler, RunProgram, RunStart, Shortcut, Ways, bits,
};
use weever_graph::{Attr, Effects, Graph, Node, NodeId, NodeKind, Port, verify};
use weever_packet::Pool;

use super::script::inject;
use crate::testkit::pool;
use crate::{BLOCK_PANICKED, BLOCK_QUARANTINED, CounterKind, Engine, Limits, Schedule};

/// A packet that the run takes, one that it leaves to the nodes, and one at which the observer panics.
const FAST: u8 = 1;
const SLOW: u8 = 2;
const BROKEN: u8 = 3;

const OUT: &[PortDoc] = &[PortDoc { name: "out", doc: "" }];
static START: BlockType = BlockType::new("Start", "", OUT, |_| Ok(Box::new(Pass)));
static WATCH: BlockType = BlockType {
    effects: Effects::READS.union(Effects::STATEFUL),
    counters: &["seen"],
    ..BlockType::new("Watch", "", OUT, |_| Ok(Box::new(Watch)))
};
static SEND: BlockType = BlockType {
    effects: Effects::READS.union(Effects::CONSUMES),
    ..BlockType::new("Send", "", &[], |_| Ok(Box::new(Send)))
};
struct Pass;

impl Block for Pass {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.enable(0, input);
    }
}

struct Watch;

impl Block for Watch {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        assert!(bits(input).all(|i| kind(burst, i) != BROKEN), "a packet of the wrong kind");
        cx.count(0, input.count_ones().into());
        ports.enable(0, input);
    }
}

struct Send;

impl Block for Send {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.transmit(0, input);
    }
}

/// The run from Start past Watch.
#[derive(Clone, Copy, Debug)]
struct Past;

impl RunCompiler for Past {
    fn compile(&self, start: &RunStart<'_>) -> Option<CompiledRun> {
        let begins = start.node == NodeId(0);
        let ways = vec![vec![(NodeId(0), 0), (NodeId(1), 0)]];
        begins.then(|| CompiledRun { ways, counters: Vec::new(), program: Arc::new(*self) })
    }

    fn before(&self, _: &RunStart<'_>) -> u64 {
        0
    }
}

impl RunProgram for Past {
    fn executor(&self, _: &Env) -> Result<Box<dyn Shortcut>, BuildError> {
        Ok(Box::new(*self))
    }
}

impl Shortcut for Past {
    fn run(&mut self, _: &Cx<'_>, burst: &mut Burst, input: Mask, ways: &mut Ways) {
        bits(input).filter(|i| kind(burst, *i) != SLOW).for_each(|i| ways.take(0, i));
    }
}

fn kind(burst: &Burst, i: usize) -> u8 {
    burst.get(i).map_or(0, |packet| packet.data()[0])
}

fn engine() -> (Engine, Pool) {
    let mut graph = Graph::new("g");
    for (name, target) in [("Start", Some(1)), ("Watch", Some(2)), ("Send", None)] {
        let mut node = Node::new(name, NodeKind::Function);
        let lead = |to| Port { name: "out".into(), targets: vec![NodeId(to)], ..Port::default() };
        node.ports.extend(target.map(lead));
        if name == "Start" {
            node.attrs.push(Attr::Source);
        }
        graph.add(node);
    }
    let registry = Registry::new().with(&[&START, &WATCH, &SEND]).with_compiler(&Past);
    registry.annotate(&mut graph).expect("every node has a type");
    let graph = verify(graph).expect("the test's graph is sound");
    let schedule = Schedule::compile(&graph, &registry, &Env::new()).expect("compiles");
    let pool = pool(256);
    (Engine::new(schedule, pool.cache(), Limits::default()), pool)
}

fn at_watch(engine: &Engine, kind: CounterKind, label: &str) -> u64 {
    engine.counters().get("Watch", kind, label).unwrap_or(0)
}

#[test]
fn an_observer_sees_packets_of_ways_and_others_once() {
    let (mut engine, pool) = engine();
    inject(&mut engine, "Start", &[FAST], 0);
    inject(&mut engine, "Start", &[FAST, SLOW, FAST], 1);
    inject(&mut engine, "Start", &[SLOW, SLOW], 2);
    assert_eq!(at_watch(&engine, CounterKind::Own, "seen"), 6);
    assert_eq!(at_watch(&engine, CounterKind::Packets, ""), 6);
    assert_eq!(engine.outbox(0).len(), 6);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn an_observer_that_panics_costs_its_batch_and_then_closes_the_ways_past_it() {
    let (mut engine, pool) = engine();
    for now in 0..5 {
        inject(&mut engine, "Start", &[FAST, BROKEN], now);
        inject(&mut engine, "Start", &[FAST], now);
    }
    assert_eq!(at_watch(&engine, CounterKind::Panics, ""), 3);
    assert_eq!(at_watch(&engine, CounterKind::Drop, BLOCK_PANICKED), 6);
    // One packet of each of the first two rounds passed; all others met no observer.
    assert_eq!(engine.outbox(0).len(), 2);
    assert_eq!(at_watch(&engine, CounterKind::Drop, BLOCK_QUARANTINED), 15 - 6 - 2);
    assert_eq!(engine.counters().total("unclaimed"), 0);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}
