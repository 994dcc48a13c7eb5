use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use weever_block::Env;
use weever_graph::{NodeId, Verified};
use weever_packet::{Burst, Pool, first_n};

use crate::interpreter::batch::Destination;
use crate::interpreter::trace::{BatchTrace, Trace};
use crate::reference::{Outcome, Record, Reference};
use crate::testkit::{KINDS, NodeSpec, QUICK_KINDS, STATELESS, graph, packet, pool, registry};
use crate::{CounterKind, Counters, Engine, Limits, Schedule};

pub(super) const FRAMES: u32 = 1024;

pub(super) fn limits(batch: usize) -> Limits {
    Limits {
        batch,
        tick: 1,
        links: 2,
        high: 100_000,
        low: 100_000,
        delayed: 100_000,
        blocked: 100_000,
        blocked_per_key: 100_000,
        outbox: 100_000,
        low_share: 100_000,
        ..Limits::default()
    }
}

pub(super) fn engine(graph: &Verified, pool: &Pool, limits: Limits) -> Engine {
    let schedule = Schedule::compile(graph, &registry(), &Env::new()).expect("compiles");
    let mut engine = Engine::new(schedule, pool.cache(), limits);
    engine.trace = Some(Trace::default());
    engine
}

pub(super) fn reference<'g>(graph: &'g Verified, pool: &Pool) -> Reference<'g> {
    Reference::new(graph, &registry(), &Env::new(), pool.cache()).expect("compiles")
}

/// A trace's tasks as the reference records them; drops are told apart by the counters.
pub(super) fn records(graph: &Verified, batch: &BatchTrace) -> Vec<Record> {
    batch.tasks().map(|i| record(graph, batch, i)).collect()
}

fn record(graph: &Verified, batch: &BatchTrace, i: usize) -> Record {
    let name = |node: u32, port: usize| {
        let node = graph.node(NodeId(node));
        match registry().type_of(node) {
            Ok(block_type) => block_type.ports[port].name.to_string(),
            Err(_) => node.ports[port].name.clone(),
        }
    };
    let ran = batch.of_task(i).into_iter();
    let enabled = ran.map(|(node, port)| (NodeId(node), port.map(|p| name(node, p)))).collect();
    let claim = batch.claims.iter().find(|(_, tasks)| tasks >> i & 1 == 1);
    let outcome = claim.map_or(Outcome::Unclaimed, |(to, _)| outcome(batch, *to));
    Record { start: NodeId(batch.start), packet: batch.packets[i].clone(), enabled, outcome }
}

/// Entries are numbered in the order of their nodes.
fn outcome(batch: &BatchTrace, to: Destination) -> Outcome {
    match to {
        Destination::Spawn { entry, .. }
        | Destination::Later { entry, .. }
        | Destination::Elsewhere { entry, .. }
        | Destination::Owner { entry, .. } => {
            Outcome::Spawned(NodeId(batch.entries[entry.index()]))
        }
        Destination::Transmit { link } => Outcome::Sent(link),
        Destination::Collect { node } => Outcome::Collected(NodeId(node)),
        Destination::Block { node, key } => Outcome::Blocked(NodeId(node), key),
        Destination::Hold { node, key } => Outcome::Blocked(NodeId(node), key.bits()),
    }
}

pub(super) fn without_reasons(records: &[Record]) -> Vec<Record> {
    let mut records = records.to_vec();
    for record in &mut records {
        if matches!(record.outcome, Outcome::Dropped(..)) {
            record.outcome = Outcome::Unclaimed;
        }
    }
    records
}

fn compare_counters(
    graph: &Verified,
    counters: &Counters,
    reference: &Reference<'_>,
) -> Result<(), TestCaseError> {
    let mut expected: BTreeMap<(String, CounterKind, String), u64> = BTreeMap::new();
    let mut add = |node: &str, kind, label: &str, n| {
        *expected.entry((node.into(), kind, label.into())).or_default() += n;
    };
    let name = |id: NodeId| graph.node(id).name.as_str();
    for record in &reference.records {
        add("", CounterKind::Total, "tasks", 1);
        for (id, port) in &record.enabled {
            let needy =
                matches!(graph.node(*id).implementation.as_deref(), Some("Needy" | "Swift"));
            if needy && record.packet.is_none() {
                add(name(*id), CounterKind::NoBuffer, "", 1);
                continue;
            }
            if record.packet.is_none() {
                add(name(*id), CounterKind::Timer, "timers", 1);
                continue;
            }
            add(name(*id), CounterKind::Packets, "", 1);
            if let Some(port) = port {
                add(name(*id), CounterKind::Port, port, 1);
            }
        }
        match &record.outcome {
            Outcome::Dropped(id, reason) => add(name(*id), CounterKind::Drop, reason, 1),
            Outcome::Unclaimed if record.packet.is_some() => {
                add("", CounterKind::Total, "unclaimed", 1);
            }
            _ => {}
        }
    }
    for (id, _, n) in &reference.counts {
        add(name(*id), CounterKind::Own, "seen", *n);
    }
    add("", CounterKind::Total, "conflicts", reference.conflicts);
    add("", CounterKind::Total, "blocked_now", reference.blocked() as u64);
    add("", CounterKind::Total, "delayed_now", reference.delayed() as u64);
    for reading in counters.describe() {
        let key = (reading.node.to_string(), reading.kind, reading.label.to_string());
        if reading.kind == CounterKind::Spawned || &*reading.label == "batches" {
            continue;
        }
        let expected = expected.remove(&key).unwrap_or(0);
        prop_assert_eq!(reading.value, expected, "counter {:?}", key);
    }
    expected.retain(|_, n| *n > 0);
    prop_assert!(expected.is_empty(), "not counted: {:?}", expected);
    Ok(())
}

/// A packet alone is in the first slot as a rule, but need not be.
fn slot(id: usize) -> usize {
    3 * (id % 2)
}

/// The nodes that a packet has come by, each with the port that it left by; a start node once more, without a port.
type Path = Vec<(u32, Option<usize>)>;

/// Packets of generation 0 that went the same way through the same nodes kept their order. Only then: two nodes may start tasks
/// at a third one, and one of them later.
fn check_order(batches: &[BatchTrace]) -> Result<(), TestCaseError> {
    let mut paths: HashMap<Vec<u8>, Path> = HashMap::new();
    let mut last: HashMap<Path, Vec<u8>> = HashMap::new();
    for batch in batches {
        for task in batch.tasks() {
            let Some(packet) = &batch.packets[task] else { continue };
            if packet.last() != Some(&0) {
                continue;
            }
            let path = paths.entry(packet.clone()).or_default();
            path.push((batch.start, None));
            if let Some(before) = last.insert(path.clone(), packet.clone()) {
                prop_assert!(before < *packet, "{before:?} before {packet:?} on {path:?}");
            }
            path.extend(batch.of_task(task));
        }
    }
    Ok(())
}

pub(super) fn specs(kinds: u8) -> impl Strategy<Value = Vec<NodeSpec>> {
    specs_of((0..kinds).boxed())
}

fn specs_of(kinds: BoxedStrategy<u8>) -> impl Strategy<Value = Vec<NodeSpec>> {
    let targets = prop::collection::vec(any::<u16>(), 0..7);
    let node = (kinds, targets, any::<u16>(), any::<u64>())
        .prop_map(|(kind, targets, spawn, seed)| NodeSpec { kind, targets, spawn, seed });
    prop::collection::vec(node, 1..24)
}

/// Every other node may be part of a run, and the rest has no state.
fn with_runs() -> impl Strategy<Value = Vec<NodeSpec>> {
    specs_of(prop_oneof![prop::sample::select(&QUICK_KINDS[..]), 0..STATELESS].boxed())
}

#[derive(Clone, Debug)]
enum Action {
    Start,
    Inject(usize),
    Receive(usize),
    Run,
    Wait(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        1 => Just(Action::Start),
        4 => (0usize..4).prop_map(Action::Inject),
        3 => (0usize..4).prop_map(Action::Receive),
        2 => Just(Action::Run),
        1 => (0u64..300).prop_map(Action::Wait),
    ]
}

/// The entries by which a test may start tasks.
pub(super) fn starts(graph: &Verified) -> Vec<NodeId> {
    let is_root = |id: &NodeId| graph.dataflow().all(|(_, to)| to != *id);
    graph.iter().map(|(id, _)| id).filter(is_root).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
    ))]

    /// Batches of one, all kinds of nodes: task by task the same, in the same order.
    #[test]
    fn one_by_one_it_is_the_reference(
        specs in prop_oneof![specs(KINDS), with_runs()],
        reverse in any::<bool>(),
        actions in prop::collection::vec(action(), 1..40),
    ) {
        let graph = graph(&specs, reverse);
        let pool = pool(FRAMES);
        let mut cache = pool.cache();
        let mut engine = engine(&graph, &pool, limits(1));
        let mut reference = reference(&graph, &pool);
        let starts = starts(&graph);
        let mut burst = Burst::new();
        let mut now = 0;
        for (id, action) in actions.iter().enumerate() {
            match action {
                Action::Start => {
                    engine.start();
                    reference.start();
                }
                Action::Inject(which) => {
                    let start = starts[which % starts.len()];
                    let entry = engine.entry(&graph.node(start).name).expect("a root is an entry");
                    let slot = slot(id);
                    burst.put(slot, packet(&mut cache, id as u64));
                    engine.inject(entry, &mut burst, 1 << slot, now);
                    prop_assert_eq!(burst.occupied(), 0);
                    reference.inject(start, Some(packet(&mut cache, id as u64)), now);
                }
                Action::Receive(which) => {
                    // What is due now starts before, in both.
                    prop_assert_eq!(engine.run(now, usize::MAX), reference.run(now, usize::MAX));
                    let start = starts[which % starts.len()];
                    let entry = engine.entry(&graph.node(start).name).expect("a root is an entry");
                    let slot = slot(id);
                    burst.put(slot, packet(&mut cache, id as u64));
                    let ran = engine.receive(entry, &mut burst, 1 << slot, now, usize::MAX);
                    prop_assert_eq!(burst.occupied(), 0);
                    reference.inject(start, Some(packet(&mut cache, id as u64)), now);
                    prop_assert_eq!(ran, reference.run(now, usize::MAX));
                }
                Action::Run => {
                    prop_assert_eq!(engine.run(now, usize::MAX), reference.run(now, usize::MAX));
                }
                Action::Wait(ns) => now += ns,
            }
        }
        prop_assert_eq!(engine.run(now, usize::MAX), reference.run(now, usize::MAX));
        prop_assert!(engine.idle());
        let batches = engine.trace.take().expect("tracing").batches;
        let ours: Vec<Record> = batches.iter().flat_map(|b| records(&graph, b)).collect();
        prop_assert_eq!(ours, without_reasons(&reference.records));
        compare_counters(&graph, &engine.counters(), &reference)?;
        for link in 0..2 {
            let theirs = reference.sent.iter().filter(|(l, _)| *l == link);
            let theirs: Vec<&[u8]> = theirs.map(|(_, b)| b.data()).collect();
            let ours: Vec<&[u8]> = engine.outbox(link).iter().map(|b| b.data()).collect();
            prop_assert_eq!(ours, theirs);
        }
        drop((engine, reference, cache));
        prop_assert_eq!(pool.available(), pool.frames());
    }

    /// Without state, a batch of n is n batches of one: the same for every packet, and each keeps
    /// its place among those that go its way.
    #[test]
    fn a_batch_is_so_many_singles(
        specs in prop_oneof![specs(STATELESS), with_runs()],
        reverse in any::<bool>(),
        sizes in prop::collection::vec(prop_oneof![1usize..=64, Just(64)], 1..4),
    ) {
        let graph = graph(&specs, reverse);
        let pool = pool(4 * FRAMES);
        let mut cache = pool.cache();
        let mut engine = engine(&graph, &pool, limits(64));
        let mut reference = reference(&graph, &pool);
        let start = starts(&graph)[0];
        let entry = engine.entry(&graph.node(start).name).expect("a root is an entry");
        let mut burst = Burst::new();
        let mut id = 0;
        for (turn, size) in sizes.iter().enumerate() {
            for i in 0..*size {
                burst.put(i, packet(&mut cache, id));
                reference.inject(start, Some(packet(&mut cache, id)), turn as u64);
                id += 1;
            }
            engine.inject(entry, &mut burst, first_n(*size), turn as u64);
        }
        prop_assert_eq!(engine.run(1000, usize::MAX), reference.run(1000, usize::MAX));
        while engine.next_deadline().is_some() {
            prop_assert_eq!(engine.run(5000, usize::MAX), reference.run(5000, usize::MAX));
        }
        let batches = engine.trace.take().expect("tracing").batches;
        let mut ours: Vec<Record> = batches.iter().flat_map(|b| records(&graph, b)).collect();
        let mut theirs = without_reasons(&reference.records);
        let key = |r: &Record| format!("{r:?}");
        ours.sort_by_cached_key(key);
        theirs.sort_by_cached_key(key);
        prop_assert_eq!(ours, theirs);
        check_order(&batches)?;
        compare_counters(&graph, &engine.counters(), &reference)?;
        drop((engine, reference, cache));
        prop_assert_eq!(pool.available(), pool.frames());
    }

    /// Packets may be dropped for want of room, but no frame is lost.
    #[test]
    fn tight_bounds_lose_no_frame(
        specs in prop_oneof![specs(KINDS), with_runs()],
        bounds in prop::array::uniform7(0usize..6),
        batch in 1usize..=64,
        sizes in prop::collection::vec(prop_oneof![1usize..=64, Just(64)], 1..6),
    ) {
        let graph = graph(&specs, false);
        let pool = pool(128);
        let mut cache = pool.cache();
        let [high, low, delayed, blocked, blocked_per_key, outbox, links] = bounds;
        let links = links as u16;
        let limits = Limits {
            batch, high, low, delayed, blocked, blocked_per_key, outbox, links,
            tick: 10, low_share: 2,
            ..Limits::default()
        };
        let mut engine = engine(&graph, &pool, limits);
        let entry = engine.entry("n0").expect("the source is an entry");
        let mut burst = Burst::new();
        engine.start();
        for (turn, size) in sizes.iter().enumerate() {
            let mut tasks = 0;
            for i in 0..*size {
                if let Some(mut buffer) = cache.alloc() {
                    buffer.append(&[i as u8, turn as u8, 0]);
                    burst.put(i, buffer);
                    tasks |= 1 << i;
                }
            }
            let now = turn as u64 * 100;
            match turn % 2 {
                0 => engine.inject(entry, &mut burst, tasks, now),
                // Fewer than a batch that goes on.
                _ => {
                    engine.receive(entry, &mut burst, tasks, now, 7);
                }
            }
            prop_assert_eq!(burst.occupied(), 0);
            engine.run(now, 7);
        }
        drop((engine, cache));
        prop_assert_eq!(pool.available(), pool.frames());
    }
}
