//! The engine as blocks see it: deadlines of their own, tasks that wait for a buffer or a descriptor, and
//! the room behind them.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Burst, Cx, Env, Mask, Ports, Priority, Registry, StateKind, bits,
};
use weever_graph::{Attr, Edge, Effects, Graph, Node, NodeId, NodeKind, verify};

use super::script::inject;
use crate::testkit::pool;
use crate::{CounterKind, Engine, Limits, Schedule, Worker};

/// A packet's first byte is how many milliseconds from now it is due; 0 takes the deadline back. When it
/// comes, a burst of two hundred tasks starts, and the next poll is a millisecond later, three times.
static CLOCK: BlockType = BlockType {
    name: "Clock",
    summary: "",
    ports: &[],
    spawns: &["burst"],
    notifies: &[],
    effects: Effects::READS.union(Effects::CONSUMES),
    state: StateKind::None,
    params: &[],
    counters: &["polls", "late", "burst"],
    make: |_| Ok(Box::new(Clock { due: None, left: 3 })),
};

const MS: u64 = 1_000_000;

struct Clock {
    due: Option<u64>,
    left: u32,
}

impl Block for Clock {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        for i in bits(input) {
            match burst.get(i).map(|packet| packet.data()[0]) {
                Some(ms) => {
                    self.due = (ms > 0).then(|| cx.now + u64::from(ms) * MS);
                    cx.set_deadline(self.due);
                }
                None => cx.count(2, 1),
            }
        }
        cx.consume(input);
    }

    fn poll(&mut self, cx: &mut Cx<'_>) {
        cx.count(0, 1);
        cx.count(1, u64::from(self.due.is_none_or(|due| cx.now < due)));
        for _ in 0..200 {
            cx.spawn_new(0, None, 0, Priority::High);
        }
        self.left -= 1;
        self.due = (self.left > 0).then_some(cx.now + MS);
        cx.set_deadline(self.due);
    }
}

fn clock() -> Engine {
    let mut graph = Graph::new("g");
    let mut node = Node::new("Clock", NodeKind::Function);
    node.attrs = vec![Attr::Source];
    node.spawns = vec![Edge { label: "burst".into(), target: NodeId(0), predicates: Vec::new() }];
    graph.add(node);
    let registry = Registry::new().with(&[&CLOCK]);
    registry.annotate(&mut graph).expect("its type is known");
    let graph = verify(graph).expect("it is sound");
    let schedule = Schedule::compile(&graph, &registry, &Env::new()).expect("compiles");
    Engine::new(schedule, pool(64).cache(), Limits { tick: 1000, ..Limits::default() })
}

fn count(engine: &Engine, label: &str) -> u64 {
    engine.counters().get("Clock", CounterKind::Own, label).expect("it counts")
}

#[test]
fn a_block_is_polled_at_its_deadline_and_sends_a_burst_each_time() {
    let mut engine = clock();
    inject(&mut engine, "Clock", &[5], 0);
    assert!(engine.next_deadline().is_some_and(|at| at <= 5 * MS), "it looks again by then");
    engine.run(5 * MS - 1, 10_000);
    assert_eq!(count(&engine, "polls"), 0);
    for now in 5..20 {
        engine.run(now * MS, 10_000);
    }
    assert_eq!(["polls", "late", "burst"].map(|label| count(&engine, label)), [3, 0, 600]);
    assert_eq!(engine.next_deadline(), None);
}

#[test]
fn a_deadline_is_replaced_and_taken_back() {
    let mut engine = clock();
    inject(&mut engine, "Clock", &[5], 0);
    inject(&mut engine, "Clock", &[50], 0);
    engine.run(49 * MS, 10_000);
    assert_eq!(count(&engine, "polls"), 0, "the first one is gone");
    inject(&mut engine, "Clock", &[0], 49 * MS);
    assert_eq!(engine.next_deadline(), None);
    engine.run(1000 * MS, 10_000);
    assert_eq!(count(&engine, "polls"), 0);
}

/// Sends its packets to link 0, and counts the room that it sees there and behind a link that does not
/// exist.
static SENDER: BlockType = BlockType {
    name: "Sender",
    spawns: &[],
    counters: &["room", "nowhere"],
    make: |_| Ok(Box::new(Sender)),
    ..CLOCK
};

struct Sender;

impl Block for Sender {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.count(0, cx.link_room(0) as u64);
        cx.count(1, cx.link_room(9) as u64);
        cx.transmit(0, input);
    }
}

#[test]
fn a_block_sees_the_room_of_a_link() {
    let mut graph = Graph::new("g");
    let mut node = Node::new("Sender", NodeKind::Function);
    node.attrs = vec![Attr::Source];
    graph.add(node);
    let registry = Registry::new().with(&[&SENDER]);
    registry.annotate(&mut graph).expect("its type is known");
    let graph = verify(graph).expect("it is sound");
    let schedule = Schedule::compile(&graph, &registry, &Env::new()).expect("compiles");
    let limits = Limits { outbox: 8, ..Limits::default() };
    let mut engine = Engine::new(schedule, pool(64).cache(), limits);
    let room = |engine: &Engine| {
        let counters = engine.counters();
        ["room", "nowhere"].map(|label| counters.get("Sender", CounterKind::Own, label))
    };
    inject(&mut engine, "Sender", &[1, 2, 3], 0);
    assert_eq!(room(&engine), [Some(8), Some(0)]);
    inject(&mut engine, "Sender", &[1, 2, 3], 0);
    assert_eq!(room(&engine), [Some(8 + 5), Some(0)]);
    inject(&mut engine, "Sender", &[1, 2, 3], 0);
    assert_eq!(room(&engine), [Some(8 + 5 + 2), Some(0)]);
    assert_eq!(engine.outbox(0).len(), 8, "the last one found no room");
}

/// A packet asks for a task with a buffer (1) or for one when the descriptor can be read (2). Counts those
/// that start with a buffer and without, and requests that were refused.
static WAITER: BlockType = BlockType {
    name: "Waiter",
    spawns: &["start"],
    counters: &["with", "without", "refused"],
    make: |build| Ok(Box::new(Waiter(build.env.get_or_default::<Input>()))),
    ..CLOCK
};

#[derive(Default)]
struct Input(Option<Arc<OwnedFd>>);

struct Waiter(Arc<Input>);

impl Block for Waiter {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        for i in bits(input) {
            match (burst.get(i).and_then(|packet| packet.data().first().copied()), &self.0.0) {
                (Some(1), _) => {
                    let is_refused = !cx.spawn_with_buffer(0, Priority::High);
                    cx.count(2, is_refused.into());
                }
                (Some(2), Some(fd)) => cx.spawn_when_readable(0, fd.clone(), Priority::Low),
                _ => cx.count(usize::from(burst.get(i).is_none()), 1),
            }
        }
        cx.consume(input);
    }
}

fn waiter(fd: Option<OwnedFd>) -> Engine {
    let mut graph = Graph::new("g");
    let mut node = Node::new("Waiter", NodeKind::Function);
    node.attrs = vec![Attr::Source];
    node.spawns = vec![Edge { label: "start".into(), target: NodeId(0), predicates: Vec::new() }];
    graph.add(node);
    let registry = Registry::new().with(&[&WAITER]);
    registry.annotate(&mut graph).expect("its type is known");
    let graph = verify(graph).expect("it is sound");
    let env = Env::new();
    env.provide(Arc::new(Input(fd.map(Arc::new))));
    let schedule = Schedule::compile(&graph, &registry, &env).expect("compiles");
    Engine::new(schedule, pool(64).cache(), Limits { delayed: 3, ..Limits::default() })
}

fn started(engine: &Engine) -> [u64; 2] {
    let counters = engine.counters();
    let value = |label| counters.get("Waiter", CounterKind::Own, label).expect("it counts");
    ["with", "without"].map(value)
}

#[test]
fn a_task_waits_for_a_free_buffer() {
    let mut engine = waiter(None);
    inject(&mut engine, "Waiter", &[1, 1], 0);
    let mut held: Vec<_> = std::iter::from_fn(|| engine.pool().alloc()).collect();
    engine.run(0, 100);
    assert_eq!((started(&engine), engine.counters().total("delayed_now")), ([0, 0], 2));
    let buffer = held.pop().expect("there were some");
    engine.pool().free(buffer);
    // The first one gives its buffer back, and the second one gets it.
    engine.run(0, 100);
    engine.run(0, 100);
    assert_eq!((started(&engine), engine.counters().total("delayed_now")), ([2, 0], 0));
    held.into_iter().for_each(|buffer| engine.pool().free(buffer));
    inject(&mut engine, "Waiter", &[1, 1, 1, 1], 0);
    let counted = |engine: &Engine, kind, name| engine.counters().get("Waiter", kind, name);
    let full = counted(&engine, CounterKind::SpawnFull, "start");
    assert_eq!(full, Some(1), "no more may wait than the limit says");
    let refused = counted(&engine, CounterKind::Own, "refused");
    assert_eq!(refused, Some(1), "and the block knows");
    engine.run(0, 100);
    assert_eq!(started(&engine), [5, 0]);
}

#[test]
fn a_task_waits_for_a_descriptor() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut worker = Worker::new(waiter(Some(reader.into())), Vec::new()).expect("an eventfd");
    inject(worker.engine(), "Waiter", &[2, 2], 0);
    worker.turn(0);
    assert_eq!(started(worker.engine()), [0, 0]);
    writer.write_all(b"x").expect("there is room");
    worker.turn(1);
    assert_eq!(started(worker.engine()), [0, 2]);
    assert_eq!(worker.engine().counters().total("delayed_now"), 0);
}

#[test]
fn a_task_learns_that_its_descriptor_was_closed_at_the_other_end() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut worker = Worker::new(waiter(Some(reader.into())), Vec::new()).expect("an eventfd");
    inject(worker.engine(), "Waiter", &[2], 0);
    drop(writer);
    worker.turn(0);
    assert_eq!(started(worker.engine()), [0, 1]);
}
