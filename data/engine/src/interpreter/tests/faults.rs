//! Blocks that panic: the damage ends with their batch.

use weever_block::{
    Block, BlockType, Burst, Cx, Env, Mask, PortDoc, Ports, Priority, Registry, StateKind, bits,
};
use weever_graph::change::{Change, ChangeSet, Handover};
use weever_graph::{Attr, Edge, Effects, Graph, Node, NodeId, NodeKind, Port, verify};
use weever_packet::Pool;

use super::change::{Assigned, change};
use super::script::inject;
use crate::testkit::pool;
use crate::{BLOCK_PANICKED, BLOCK_QUARANTINED, CounterKind, Engine, Limits, Schedule};

/// The first byte of a packet that is sent, in spite of faults at the other node.
const SENT: u8 = 1;
/// One that the `Bomb` takes.
const TAKEN: u8 = 100;
/// One at which it panics in `run`.
const IN_RUN: u8 = 200;
/// One at which it panics in `collect`.
const IN_COLLECT: u8 = 201;

const fn port(name: &'static str) -> PortDoc {
    PortDoc { name, doc: "" }
}

static SPLIT: BlockType = BlockType {
    name: "Split",
    summary: "",
    ports: &[port("send"), port("bomb")],
    spawns: &[],
    notifies: &[],
    effects: Effects::READS.union(Effects::NEEDS_BUFFER),
    state: StateKind::None,
    params: &[],
    counters: &[],
    make: |_| Ok(Box::new(Split)),
};
static SEND: BlockType =
    BlockType { name: "Send", ports: &[], make: |_| Ok(Box::new(Send)), ..SPLIT };
static BOMB: BlockType = BlockType {
    name: "Bomb",
    ports: &[],
    spawns: &["again"],
    effects: Effects::READS.union(Effects::CONSUMES),
    counters: &["seen"],
    make: |_| Ok(Box::new(Bomb { seen: 0 })),
    ..SPLIT
};

struct Split;

impl Block for Split {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for i in bits(input) {
            ports.enable(usize::from(kind(burst, i) >= TAKEN), 1 << i);
        }
    }
}

struct Send;

impl Block for Send {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.transmit(0, input);
    }
}

/// Counts the packets that it has seen since it was made.
struct Bomb {
    seen: u64,
}

impl Block for Bomb {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        let panics = bits(input).any(|i| kind(burst, i) == IN_RUN);
        if panics {
            // Frames where only unwinding finds them: taken out of the burst, requested, allocated.
            let _taken = bits(input).next().and_then(|i| burst.take(i));
            let spare = cx.alloc();
            cx.spawn_new(0, spare, 1_000_000, Priority::High);
            cx.consume(input);
            let _made = cx.alloc();
            panic!("a packet of the wrong kind");
        }
        cx.consume(input);
    }

    fn collect(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, claimed: Mask) {
        for i in bits(claimed) {
            assert!(kind(burst, i) != IN_COLLECT, "a packet of the wrong kind");
            self.seen += 1;
        }
        cx.count(0, self.seen);
    }

    fn export_state(&mut self) -> Option<weever_block::State> {
        panic!("nor can it say what it knows");
    }
}

fn kind(burst: &Burst, i: usize) -> u8 {
    burst.get(i).map_or(0, |packet| packet.data()[0])
}

fn engine() -> (Engine, Pool) {
    let mut graph = Graph::new("g");
    let mut split = Node::new("Split", NodeKind::Function);
    let lead = |name: &str, to| Port { name: name.into(), targets: vec![to], ..Port::default() };
    split.ports = vec![lead("send", NodeId(1)), lead("bomb", NodeId(2))];
    split.attrs = vec![Attr::Source];
    graph.add(split);
    graph.add(Node::new("Send", NodeKind::Function));
    let mut bomb = Node::new("Bomb", NodeKind::Function);
    bomb.spawns = vec![Edge { label: "again".into(), target: NodeId(2), predicates: Vec::new() }];
    graph.add(bomb);
    let registry = Registry::new().with(&[&SPLIT, &SEND, &BOMB]);
    registry.annotate(&mut graph).expect("every node has a type");
    let graph = verify(graph).expect("the test's graph is sound");
    let schedule = Schedule::compile(&graph, &registry, &Env::new()).expect("compiles");
    let pool = pool(256);
    (Engine::new(schedule, pool.cache(), Limits::default()), pool)
}

fn get(engine: &Engine, kind: CounterKind, label: &str) -> u64 {
    engine.counters().get("Bomb", kind, label).unwrap_or(0)
}

#[test]
fn a_panic_costs_the_packets_that_no_other_node_has_taken() {
    let (mut engine, pool) = engine();
    inject(&mut engine, "Split", &[TAKEN, TAKEN], 0);
    inject(&mut engine, "Split", &[SENT, IN_RUN, SENT, TAKEN], 1);
    assert_eq!(engine.outbox(0).len(), 2, "the other node's packets are sent");
    assert_eq!(get(&engine, CounterKind::Drop, BLOCK_PANICKED), 2);
    assert_eq!(get(&engine, CounterKind::Panics, ""), 1);
    assert_eq!(engine.counters().total("unclaimed"), 0);
    assert_eq!(engine.next_deadline(), None, "the call's requests are forgotten");
    // The fresh block starts from nothing: 2 packets before, then 1.
    inject(&mut engine, "Split", &[TAKEN, SENT], 2);
    assert_eq!(get(&engine, CounterKind::Own, "seen"), 2 + 1);
    assert_eq!(engine.outbox(0).len(), 3);
    let fault = engine.counters().faults().remove(0);
    assert_eq!((&*fault.node, fault.message.as_str()), ("Bomb", "a packet of the wrong kind"));
    assert_eq!((fault.lost, fault.quarantined), (2, false));
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn a_panic_while_collecting_costs_what_was_collected() {
    let (mut engine, pool) = engine();
    inject(&mut engine, "Split", &[IN_COLLECT, SENT, TAKEN, TAKEN], 0);
    assert_eq!(engine.outbox(0).len(), 1);
    assert_eq!(get(&engine, CounterKind::Drop, BLOCK_PANICKED), 3);
    inject(&mut engine, "Split", &[TAKEN], 0);
    assert_eq!(get(&engine, CounterKind::Own, "seen"), 1);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn a_node_that_panics_again_and_again_is_quarantined_until_it_is_replaced() {
    let (mut engine, pool) = engine();
    for now in 0..5 {
        inject(&mut engine, "Split", &[SENT, IN_RUN], now);
    }
    assert_eq!(get(&engine, CounterKind::Panics, ""), 3);
    assert_eq!(get(&engine, CounterKind::Drop, BLOCK_PANICKED), 3);
    assert_eq!(get(&engine, CounterKind::Drop, BLOCK_QUARANTINED), 2);
    assert!(engine.counters().faults()[0].quarantined);
    assert_eq!(engine.outbox(0).len(), 5, "the other node is not concerned");
    assert_eq!(engine.counters().total("unclaimed"), 0);

    // A change elsewhere does not let it run again, a change of the node does.
    let mut assigned = Assigned::default();
    let node = |engine: &Engine, name| {
        let graph = &engine.plan.graph;
        Box::new(graph.node(graph.find(name).expect("it is there")).clone())
    };
    let replace =
        |node| ChangeSet { changes: vec![Change::Replace { node, state: Handover::Drop }] };
    let other = replace(node(&engine, "Send"));
    change(&mut engine, &mut assigned, &other);
    inject(&mut engine, "Split", &[TAKEN], 9);
    assert_eq!(get(&engine, CounterKind::Drop, BLOCK_QUARANTINED), 3);
    let bomb = replace(node(&engine, "Bomb"));
    change(&mut engine, &mut assigned, &bomb);
    inject(&mut engine, "Split", &[TAKEN], 10);
    assert_eq!(get(&engine, CounterKind::Drop, BLOCK_QUARANTINED), 3);
    assert_eq!(get(&engine, CounterKind::Own, "seen"), 1);
    assert!(!engine.counters().faults()[0].quarantined);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn a_block_that_panics_when_its_state_is_asked_for_is_replaced_all_the_same() {
    let (mut engine, pool) = engine();
    let graph = &engine.plan.graph;
    let mut node = graph.node(graph.find("Bomb").expect("it is there")).clone();
    node.attrs.push(Attr::Param { key: weever_graph::ENDS.into(), value: "none".into() });
    let changes = vec![Change::Replace { node: Box::new(node), state: Handover::Keep }];
    change(&mut engine, &mut Assigned::default(), &ChangeSet { changes });
    inject(&mut engine, "Split", &[TAKEN, SENT], 0);
    assert_eq!(get(&engine, CounterKind::Panics, ""), 1);
    assert_eq!(get(&engine, CounterKind::Own, "seen"), 1);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}
