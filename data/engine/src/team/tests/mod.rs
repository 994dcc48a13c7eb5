//! Teams under change: surviving state, refused changes, and concurrent operators.

mod flows;
mod moving;
mod on_their_way;
mod parts;
mod pressure;
mod sequence;
mod several;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weever_block::Env;
use weever_graph::change::{Change, EdgeName, Handover, Outlet, Waiting, diff};
use weever_graph::{Attr, ChangeSet, Edge, Graph, Node, NodeId, NodeKind, Port};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Burst, Pool, PoolCache};

use super::{Member, MemberQueue, Team, TeamError};
use crate::testkit::{pool, registry};
use crate::{CounterKind, Limits, Mode, NODE_WAS_REMOVED, REMOVED, Worker};

const SOURCE: &str = "Source";
const SINK: &str = "Sink";

/// `Source`, then the stages (which pass on at once, or by a task of their own), then `Sink`.
fn path(stages: &[(u8, bool)]) -> Graph {
    let mut graph = Graph::new("path");
    let last = stages.len() as u32 + 1;
    let mut add = |name: String, implementation: &str, at: u32| {
        let mut node = Node::new(name, NodeKind::Function);
        node.implementation = Some(implementation.into());
        let next = NodeId(at + 1);
        match implementation {
            "One" => {
                let targets = vec![next];
                node.ports.push(Port { name: "out".into(), targets, ..Port::default() });
            }
            "PassOn" => {
                let edge = Edge { label: "on".into(), target: next, predicates: Vec::new() };
                node.spawns.push(edge);
            }
            _ => {}
        }
        if at == 0 {
            node.attrs.push(Attr::Source);
        }
        graph.add(node);
    };
    add(SOURCE.into(), "One", 0);
    for (i, (name, spawns)) in stages.iter().enumerate() {
        add(format!("s{name}"), if *spawns { "PassOn" } else { "One" }, i as u32 + 1);
    }
    add(SINK.into(), "Echo", last);
    graph
}

struct Bench {
    team: Team,
    peers: Vec<Box<dyn LinkQueue>>,
    pool: Pool,
    cache: PoolCache,
}

/// One queue of link 0 per worker.
fn bench(graph: Graph, workers: usize) -> Bench {
    bench_in(pool(2048), graph, workers)
}

fn bench_in(pool: Pool, graph: Graph, workers: usize) -> Bench {
    let config = MemoryConfig { queues: workers as u16, ring: 512, ..MemoryConfig::default() };
    let (mut left, mut right) = pair(&config).expect("descriptors");
    let member = |(i, queue)| Member {
        name: format!("worker-{i}"),
        pool: pool.cache(),
        limits: Limits { blocked_per_key: 1024, ..Limits::default() },
        queues: vec![MemberQueue { link: 0, source: SOURCE.into(), queue }],
    };
    let members = left.take_queues().into_iter().enumerate().map(member).collect();
    let team = Team::build(graph, registry(), Arc::new(Env::new()), members).expect("sound");
    Bench { team, peers: right.take_queues(), cache: pool.cache(), pool }
}

/// Sends frames numbered from `first`; returns how many there was room for.
fn send(peer: &mut dyn LinkQueue, cache: &mut PoolCache, first: u64, n: usize) -> usize {
    let mut frames = std::collections::VecDeque::new();
    for i in 0..n as u64 {
        let Some(mut buffer) = cache.alloc() else { break };
        assert!(buffer.append(&[0; 52]) && buffer.append(&(first + i).to_be_bytes()));
        frames.push_back(buffer);
    }
    let sent = peer.tx(cache, &mut frames).expect("the worker holds the other end");
    peer.flush(cache).expect("the worker holds the other end");
    frames.into_iter().for_each(|frame| cache.free(frame));
    sent
}

fn receive(peer: &mut dyn LinkQueue, cache: &mut PoolCache, into: &mut Vec<u64>) {
    let mut burst = Burst::new();
    while let n @ 1.. = peer.rx(cache, &mut burst, 64).expect("the worker holds the other end") {
        for buffer in (0..n).filter_map(|i| burst.take(i)) {
            let number = buffer.data()[52..60].try_into().expect("eight bytes");
            into.push(u64::from_be_bytes(number));
            cache.free(buffer);
        }
    }
}

/// The difference, with the tasks of removed stages sent on to the next one that stays.
fn keeping_tasks(old: &[(u8, bool)], new: &[(u8, bool)]) -> ChangeSet {
    let mut changes = diff(&path(old), &path(new));
    for change in &mut changes.changes {
        if let Change::Remove { node, waiting } = change {
            let at = old.iter().position(|(name, _)| format!("s{name}") == *node);
            let stays = |(name, _): &&(u8, bool)| new.iter().any(|(other, _)| other == name);
            let next = old[at.expect("a stage")..].iter().find(stays);
            *waiting = Waiting::To(next.map_or(SINK.into(), |(name, _)| format!("s{name}")));
        }
    }
    changes
}

/// Stages in rising order, so that those which stay keep their order.
fn stages() -> impl Strategy<Value = Vec<(u8, bool)>> {
    prop::collection::btree_map(0u8..12, any::<bool>(), 0..8)
        .prop_map(|stages| stages.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// A flow whose way through the graph is changed again and again arrives whole and in order.
    #[test]
    fn nothing_is_lost_or_reordered_or_doubled(
        all in prop::collection::vec((stages(), 0usize..300), 2..12),
    ) {
        let mut b = bench(path(&all[0].0), 1);
        let (mut sent, mut back) = (0, Vec::new());
        let mut current = &all[0].0;
        for (turn, (next, n)) in all.iter().enumerate() {
            sent += send(&mut *b.peers[0], &mut b.cache, sent, *n) as u64;
            let changes = keeping_tasks(current, next);
            b.team.publisher.change(&changes).expect("sound");
            current = next;
            if turn % 3 > 0 {
                b.team.workers[0].turn(turn as u64);
            }
            receive(&mut *b.peers[0], &mut b.cache, &mut back);
        }
        for turn in 0..100 {
            b.team.workers[0].turn(1000 + turn);
            receive(&mut *b.peers[0], &mut b.cache, &mut back);
        }
        prop_assert_eq!(back, (0..sent).collect::<Vec<u64>>());
        drop((b.team, b.peers, b.cache));
        prop_assert_eq!(b.pool.available(), b.pool.frames());
    }
}

/// Runs the team's workers on threads while `body` does its part.
fn running(workers: &mut [Worker], mode: Mode, body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let wakers: Vec<_> = workers.iter().map(Worker::waker).collect();
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| worker.run(&stop, mode, |lost| panic!("{lost:?}")));
        }
        let _stop_workers = StopOnDrop(&stop, &wakers);
        body();
    });
}

/// Ends the workers also when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool, &'a [crate::Waker]);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.iter().for_each(crate::Waker::wake);
    }
}

#[test]
fn a_change_that_is_refused_leaves_no_names_behind() {
    let b = bench(path(&[]), 1);
    let mut wanted = path(&[(6, true), (7, false)]);
    assert_eq!(b.team.publisher.idp("s7"), None);
    let last = wanted.find("s7").expect("a stage");
    wanted.node_mut(last).attrs.push(Attr::parse("seed=many"));
    let error = b.team.publisher.replace(wanted).expect_err("no seed").to_string();
    assert!(error.contains("s7") && error.contains("many"), "{error}");
    assert_eq!((b.team.publisher.idp("s7"), b.team.publisher.epoch()), (None, 0));
    b.team.publisher.replace(path(&[(6, true), (7, false)])).expect("sound");
    assert!(b.team.publisher.idp("s7").is_some());
}

#[test]
fn thousands_of_changes_under_traffic() {
    let shapes: [&[(u8, bool)]; 4] = [
        &[(1, false), (2, true), (3, false)],
        &[(1, true), (3, true), (4, false), (5, true)],
        &[],
        &[(0, true), (2, false), (5, false)],
    ];
    let Bench { team, mut peers, pool, mut cache } = bench(path(shapes[0]), 1);
    let Team { mut workers, publisher } = team;
    let done = AtomicBool::new(false);
    let (mut sent, mut back) = (0, Vec::new());
    running(&mut workers, Mode::default(), || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..2000 {
                    let changes = keeping_tasks(shapes[i % 4], shapes[(i + 1) % 4]);
                    publisher.change(&changes).expect("every one is adopted");
                }
                done.store(true, Ordering::Relaxed);
            });
            let deadline = Instant::now() + Duration::from_secs(100);
            while !(done.load(Ordering::Relaxed) && back.len() as u64 == sent) {
                if !done.load(Ordering::Relaxed) && sent - (back.len() as u64) < 400 {
                    sent += send(&mut *peers[0], &mut cache, sent, 32) as u64;
                }
                receive(&mut *peers[0], &mut cache, &mut back);
                assert!(Instant::now() < deadline, "{} of {sent} came back", back.len());
            }
        });
    });
    assert!(sent > 0);
    assert!(back.iter().copied().eq(0..sent), "in order, each once");
    assert_eq!(publisher.epoch(), 2000);
    let counters = workers[0].engine().counters();
    assert_eq!(counters.get(SINK, CounterKind::Packets, ""), Some(sent));
    assert_eq!(counters.get(REMOVED, CounterKind::Drop, NODE_WAS_REMOVED), Some(0));
    drop((workers, publisher, peers, cache));
    assert_eq!(pool.available(), pool.frames());
}

fn pass(name: &str) -> Node {
    let mut node = Node::new(name, NodeKind::Function);
    node.implementation = Some("One".into());
    node.ports.push(Port { name: "out".into(), ..Port::default() });
    node
}

#[test]
fn ten_operators_at_once() {
    let Bench { team, peers: _peers, .. } = bench(path(&[]), 2);
    let Team { mut workers, publisher } = team;
    running(&mut workers, Mode::Interrupt, || {
        std::thread::scope(|scope| {
            for operator in 0..10 {
                let publisher = &publisher;
                scope.spawn(move || {
                    for i in 0..20 {
                        let name = format!("by {operator}, {i}");
                        publisher.change(&ChangeSet::new().insert(pass(&name))).expect("adopted");
                    }
                });
            }
        });
    });
    assert_eq!((publisher.epoch(), publisher.graph().len()), (200, 202));
    assert!(workers.iter_mut().all(|worker| worker.engine().epoch() == 200));
}

fn out(from: &str, to: &str) -> EdgeName {
    EdgeName::new(from, Outlet::port("out"), to)
}

#[test]
fn what_cannot_be_changes_nothing() {
    let mut b = bench(path(&[(1, true)]), 2);
    let publisher = b.team.publisher.clone();
    let error = |changes: ChangeSet| publisher.change(&changes).expect_err("cannot be").to_string();
    let cycle = ChangeSet::new().insert(pass("A")).bind(out(SOURCE, "A")).bind(out("A", SOURCE));
    let cycle = error(cycle);
    assert!(cycle.contains("cycle") && cycle.contains("`A`"), "{cycle}");
    assert!(error(ChangeSet::new().remove("Sauce", Waiting::Drop)).contains("no node `Sauce`"));
    let mut unknown = pass("A");
    unknown.implementation = Some("Nonsense".into());
    assert!(error(ChangeSet::new().insert(unknown)).contains("node A: no block type `Nonsense`"));
    let error = error(ChangeSet::new().remove(SOURCE, Waiting::To("s1".into())));
    assert_eq!(error, "worker-0: packets of link 0 start at `Source`, which is not in the graph");
    assert_eq!((publisher.epoch(), publisher.graph().len()), (0, 3));
    send(&mut *b.peers[1], &mut b.cache, 7, 1);
    b.team.workers[1].turn(1);
    let mut back = Vec::new();
    receive(&mut *b.peers[1], &mut b.cache, &mut back);
    assert_eq!((back, b.team.workers[1].engine().epoch()), (vec![7], 0));
}

#[test]
fn who_only_looks_does_not_wait_for_a_late_worker() {
    let b = bench(path(&[]), 1);
    let Team { mut workers, publisher } = b.team;
    workers[0].attend(true);
    publisher.set_patience(Duration::from_secs(60));
    std::thread::scope(|scope| {
        let change = scope.spawn(|| publisher.change(&ChangeSet::new().insert(pass("late"))));
        // The change is made, and waits for the only worker, which has not had a turn.
        while publisher.epoch() == 0 {
            std::thread::yield_now();
        }
        let seen = (publisher.graph().len(), publisher.sizes()[0], publisher.adopted()[0].1);
        assert_eq!((seen, change.is_finished()), ((3, 3, 0), false));
        assert!(publisher.executed(0).is_some() && publisher.idp("late").is_some());
        workers[0].turn(1);
        let published = change.join().expect("it does not panic").expect("the worker came");
        assert_eq!(published.epoch, 1);
    });
}

#[test]
fn a_worker_that_does_not_turn_is_named_and_switches_later() {
    let b = bench(path(&[]), 1);
    let Team { mut workers, publisher } = b.team;
    // As if a thread ran it that is stuck.
    workers[0].attend(true);
    publisher.set_patience(Duration::ZERO);
    for i in 0..256 {
        let error = publisher.change(&ChangeSet::new().insert(pass(&format!("n{i}"))));
        let error = error.expect_err("nobody adopts it");
        assert!(
            matches!(&error, TeamError::NotAdopted { worker, epoch, .. }
            if worker == "worker-0" && *epoch == i + 1),
            "{error}"
        );
    }
    let error = publisher.change(&ChangeSet::new().insert(pass("more"))).expect_err("too many");
    assert!(matches!(error, TeamError::Behind { .. }), "{error}");
    workers[0].turn(1);
    assert_eq!(workers[0].engine().epoch(), 256);
    workers[0].attend(false);
    assert_eq!(publisher.change(&ChangeSet::new().insert(pass("more"))).expect("room").epoch, 257);
    drop(workers);
    for i in 0..600 {
        let changes = ChangeSet::new().set("more", "seed", format!("{i}"));
        publisher.change(&changes).expect("nobody is left to wait for");
    }
}

#[test]
fn counters_go_on_and_state_is_handed_over() {
    let mut b = bench(path(&[(1, false)]), 1);
    let publisher = b.team.publisher.clone();
    let counters = b.team.workers[0].engine().counters();
    let count = |node: &str, kind| counters.get(node, kind, "");
    let mut turn = |n: usize, now| {
        send(&mut *b.peers[0], &mut b.cache, 0, n);
        b.team.workers[0].turn(now);
    };
    turn(5, 1);
    let keeper = |name: &str| {
        let mut node = pass(name);
        node.implementation = Some("Keeper".into());
        node
    };
    let kept = |n| counters.get("s1", CounterKind::Own, "kept") == Some(n);
    publisher.change(&ChangeSet::new().replace(keeper("s1"), Handover::Keep)).expect("sound");
    turn(3, 2);
    assert_eq!(count("s1", CounterKind::Packets), Some(8), "under the same name");
    assert!(kept(3), "the first block had none to hand over");
    publisher.change(&ChangeSet::new().set("s1", "seed", "1")).expect("sound");
    turn(1, 3);
    assert!(kept(3 + 4), "goes on from the earlier block's state");
    publisher.change(&ChangeSet::new().set("s1", "seed", "2")).expect("sound");
    let afresh = publisher.change(&ChangeSet::new().insert(pass("other"))).expect("sound").afresh;
    assert_eq!(afresh, Vec::<String>::new());
    let mut fresh = keeper("s1");
    fresh.attrs.push(Attr::parse("seed=3"));
    publisher.change(&ChangeSet::new().replace(fresh, Handover::Drop)).expect("sound");
    turn(1, 4);
    assert!(kept(3 + 4 + 1), "started afresh");
    publisher.change(&ChangeSet::new().replace(pass("s1"), Handover::Keep)).expect("sound");
    turn(1, 5);
    let afresh = publisher.change(&ChangeSet::new().remove("other", Waiting::Drop)).expect("sound");
    assert_eq!(afresh.afresh, ["s1"], "a plain block has no use for it");
    publisher.change(&diff(&publisher.graph(), &path(&[]))).expect("sound");
    turn(1, 6);
    assert_eq!(count("s1", CounterKind::Packets), None);
    assert_eq!(counters.get(REMOVED, CounterKind::Packets, ""), Some(11));
    assert_eq!(count(SINK, CounterKind::Packets), Some(12));
}
