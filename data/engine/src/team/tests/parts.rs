//! Workers with a part of the graph each: together they do the same as the whole graph.

use std::collections::HashMap;

use super::*;
use crate::testkit::hash;
use crate::{Fit, Reading, sum};

/// Which of the three ways behind `Split` a part has: one with a gate at which packets wait, one that
/// opens the gate, and one that leads to the end.
type Ways = [bool; 3];

const ALL: Ways = [true; 3];

/// `Source`, `Split`, the ways, `Sink`. A packet on a way that is not there starts again in the
/// graph of the first worker, at `Whole`.
fn ways(kept: Ways) -> Graph {
    let mut graph = Graph::new("ways");
    let mut add = |name: &str, implementation: &str| {
        let mut node = Node::new(name, NodeKind::Function);
        node.implementation = Some(implementation.into());
        graph.add(node)
    };
    let (sink, whole, split) = (add(SINK, "Echo"), add("Whole", "One"), add("Split", "Three"));
    let source = add(SOURCE, "One");
    let [waits, opens, ends] = kept;
    // A worker that opens the gate needs it, and the nodes behind it.
    let has_gate = waits || opens;
    let tail = has_gate.then(|| add("Tail", "One"));
    let later = has_gate.then(|| add("Later", "PassOn"));
    let gate = has_gate.then(|| add("Gate", "Gate"));
    let bell = opens.then(|| add("Bell", "Bell"));
    let foreign = (kept != ALL).then(|| add("Foreign", "PassOn"));
    let out = |graph: &mut Graph, from: NodeId, name: &str, to: Option<NodeId>| {
        let (name, targets) = (name.into(), to.into_iter().collect());
        graph.node_mut(from).ports.push(Port { name, targets, ..Port::default() });
    };
    let edge = |label: &str, target| Edge { label: label.into(), target, predicates: Vec::new() };
    out(&mut graph, source, "out", Some(split));
    graph.node_mut(source).attrs.push(Attr::Source);
    graph.node_mut(whole).attrs.push(Attr::parse("worker=0"));
    out(&mut graph, whole, "out", (kept == ALL).then_some(split));
    for (name, kept, to) in [("x", waits, gate), ("y", opens, bell), ("z", ends, Some(sink))] {
        out(&mut graph, split, name, if kept { to } else { foreign });
    }
    if let Some(gate) = gate {
        out(&mut graph, gate, "out", later);
    }
    if let (Some(later), Some(tail)) = (later, tail) {
        graph.node_mut(later).spawns.push(edge("on", tail));
        out(&mut graph, tail, "out", Some(sink));
    }
    if let (Some(bell), Some(gate)) = (bell, gate) {
        out(&mut graph, bell, "out", Some(sink));
        graph.node_mut(bell).notifies.push(edge("open", gate));
    }
    if let Some(foreign) = foreign {
        graph.node_mut(foreign).spawns.push(edge("on", whole));
    }
    graph
}

/// By worker, the ways of its part.
fn selection(parts: Vec<Ways>) -> Arc<Fit> {
    Arc::new(move |_, worker| {
        let kept = parts[usize::from(worker)];
        (kept != ALL).then(|| ways(kept))
    })
}

fn totals(workers: &mut [Worker]) -> Vec<Reading> {
    let each: Vec<_> = workers.iter_mut().map(|w| w.engine().counters().describe()).collect();
    sum(&each)
}

/// Counters by name, those apart that go up and down.
fn by_name(readings: &[Reading]) -> HashMap<(String, CounterKind, String), u64> {
    let mut found = HashMap::new();
    for r in readings.iter().filter(|r| !["blocked_now", "delayed_now"].contains(&&*r.label)) {
        *found.entry((r.node.to_string(), r.kind, r.label.to_string())).or_default() += r.value;
    }
    found
}

fn of(readings: &[Reading], node: &str, kind: CounterKind, label: &str) -> u64 {
    let is = |r: &&Reading| (&*r.node, r.kind, &*r.label) == (node, kind, label);
    readings.iter().filter(is).map(|r| r.value).sum()
}

/// The events in between.
#[derive(Clone, Debug)]
struct Act {
    /// The parts that workers other than the first run from now on.
    parts: Option<Vec<Ways>>,
    queue: usize,
    packets: usize,
    /// The workers that have a turn afterwards, a bit each.
    turns: u8,
}

const WORKERS: usize = 3;

fn act() -> impl Strategy<Value = Act> {
    let way = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(a, b, c)| [a, b, c]);
    let parts = prop::option::of(prop::collection::vec(way, WORKERS));
    (parts, 0..WORKERS, 0usize..100, any::<u8>()).prop_map(|(parts, queue, packets, turns)| Act {
        parts,
        queue,
        packets,
        turns,
    })
}

/// Packets that were sent, those that came back, and the counters.
fn played(acts: &[Act]) -> (u64, Vec<u64>, Vec<Reading>) {
    let mut b = bench_in(pool(16_384), ways(ALL), WORKERS);
    let (mut sent, mut back, mut now) = (0, Vec::new(), 0);
    let mut before = HashMap::new();
    for act in acts {
        if let Some(parts) = &act.parts {
            b.team.publisher.fit(Some(selection(parts.clone()))).expect("sound");
        }
        sent += send(&mut *b.peers[act.queue], &mut b.cache, sent, act.packets) as u64;
        for (i, worker) in b.team.workers.iter_mut().enumerate() {
            if act.turns >> i & 1 == 1 {
                now += 1;
                worker.turn(now);
            }
        }
        b.peers.iter_mut().for_each(|peer| receive(&mut **peer, &mut b.cache, &mut back));
        let after = by_name(&totals(&mut b.team.workers));
        for (name, value) in before {
            assert!(after[&name] >= value, "{name:?} was {value} and is {}", after[&name]);
        }
        before = after;
    }
    // A packet that waits at a gate leaves with the next packet that opens it.
    for round in 0..40 {
        for queue in 0..WORKERS {
            sent += send(&mut *b.peers[queue], &mut b.cache, sent, 8) as u64;
        }
        for _ in 0..if round == 39 { 30 } else { 4 } {
            now += 1;
            b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
            b.peers.iter_mut().for_each(|peer| receive(&mut **peer, &mut b.cache, &mut back));
        }
    }
    let waiting = |b: &mut Bench| -> u64 {
        b.team.workers.iter_mut().map(|w| w.engine().counters().total("blocked_now")).sum()
    };
    // No packet opens the gate for the last ones; they are still there.
    let readings = totals(&mut b.team.workers);
    assert_eq!(back.len() as u64 + waiting(&mut b), sent);
    drop((b.team, b.peers, b.cache));
    assert_eq!(b.pool.available(), b.pool.frames());
    back.sort_unstable();
    (sent, back, readings)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// With any parts of the graph and any changes of them, every packet comes back once, and no
    /// counter goes down.
    #[test]
    fn parts_do_together_what_the_whole_does(acts in prop::collection::vec(act(), 1..14)) {
        let whole: Vec<Act> =
            acts.iter().map(|act| Act { parts: None, ..act.clone() }).collect();
        let (sent, back, counted) = played(&acts);
        let (also_sent, reference, expected) = played(&whole);
        prop_assert_eq!(sent, also_sent);
        let only_once = back.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert!(only_once, "{back:?}");
        // How many wait at the end depends on the worker that opened last.
        prop_assert!(back.len().abs_diff(reference.len()) <= 200, "{} {}", back.len(), reference.len());
        for way in ["x", "y", "z"] {
            // Strangers are counted again.
            let [mine, once] = [&counted, &expected].map(|c| of(c, "Split", CounterKind::Port, way));
            prop_assert!(mine >= once, "{way}: {mine} and {once}");
        }
        prop_assert_eq!(of(&counted, REMOVED, CounterKind::Drop, NODE_WAS_REMOVED), 0);
        prop_assert_eq!(
            of(&counted, "Bell", CounterKind::Packets, ""),
            of(&expected, "Bell", CounterKind::Packets, "")
        );
    }
}

#[test]
fn what_waits_where_a_node_goes_goes_on_at_the_first_worker() {
    let mut b = bench(ways(ALL), 2);
    let publisher = b.team.publisher.clone();
    // The worker that opens the gate is another one, and has no turn.
    publisher.fit(Some(selection(vec![ALL, [true, false, true]]))).expect("sound");
    send(&mut *b.peers[1], &mut b.cache, 0, 60);
    b.team.workers[1].turn(1);
    let blocked = |b: &mut Bench| b.team.workers[1].engine().counters().total("blocked_now");
    let waiting = blocked(&mut b);
    assert!(waiting > 10);
    let ends = selection(vec![ALL, [false, false, true]]);
    let published = publisher.fit(Some(ends.clone())).expect("sound");
    assert_eq!((published.epoch, published.steps), (2, 1));
    assert_eq!(publisher.fit(Some(ends)).expect("sound").steps, 0, "it runs already");
    assert!(publisher.executed(1).expect("a worker").find("Gate").is_none());
    assert!(publisher.executed(0).expect("a worker").find("Gate").is_some());
    b.team.workers[1].turn(2);
    let at_gate = |b: &mut Bench, worker: usize| {
        let counters = b.team.workers[worker].engine().counters();
        counters.get("Gate", CounterKind::Packets, "")
    };
    assert_eq!((blocked(&mut b), at_gate(&mut b, 1)), (0, Some(waiting)), "it did count");
    b.team.workers[0].turn(3);
    assert!(at_gate(&mut b, 0) >= Some(waiting), "each looks for itself there");
    let mut back = Vec::new();
    for turn in 4..20 {
        send(&mut *b.peers[1], &mut b.cache, 100 * turn, 20);
        b.team.workers.iter_mut().rev().for_each(|worker| drop(worker.turn(turn)));
        receive_all(&mut b, &mut back);
    }
    assert!((0..60).all(|n| back.contains(&n)), "{back:?}");
}

/// Whether a frame of [`send`]'s takes the way that waits.
fn waits(number: u64) -> bool {
    let frame = [&[0; 52][..], &number.to_be_bytes()].concat();
    hash(0, &frame).is_multiple_of(3)
}

#[test]
fn no_ring_is_too_small_for_what_waits_where_a_node_goes() {
    let mut b = bench(ways(ALL), 2);
    let (numbers, ring): (Vec<u64>, u64) = ((0..).filter(|n| waits(*n)).take(400).collect(), 128);
    for (turn, numbers) in (0..).zip(numbers.chunks(100)) {
        for number in numbers {
            assert_eq!(send(&mut *b.peers[1], &mut b.cache, *number, 1), 1);
        }
        b.team.workers[1].turn(turn);
    }
    let blocked = |b: &mut Bench, worker: usize| {
        b.team.workers[worker].engine().counters().total("blocked_now")
    };
    assert_eq!(blocked(&mut b, 1), 400);
    let ends = selection(vec![ALL, [false, false, true]]);
    b.team.publisher.fit(Some(ends)).expect("sound");
    b.team.workers[1].turn(10);
    let stats = b.team.workers[0].stats();
    b.team.workers[0].turn(11);
    assert_eq!((blocked(&mut b, 0), stats.taken_over()), (ring, ring), "the ring was full");
    for turn in 12..20 {
        b.team.workers.iter_mut().rev().for_each(|worker| drop(worker.turn(turn)));
    }
    assert_eq!((blocked(&mut b, 0), stats.taken_over()), (400, 400), "and the others came");
}

fn receive_all(b: &mut Bench, back: &mut Vec<u64>) {
    for peer in &mut b.peers {
        receive(&mut **peer, &mut b.cache, back);
    }
}

#[test]
fn strangers_that_find_the_ring_full_end_there_and_the_worker_goes_on() {
    let mut b = bench(ways(ALL), 2);
    b.team.publisher.fit(Some(selection(vec![ALL, [false; 3]]))).expect("sound");
    let (mut sent, mut back) = (0, Vec::new());
    for turn in 0..10 {
        sent += send(&mut *b.peers[1], &mut b.cache, sent, 48) as u64;
        assert_eq!(b.team.workers[1].turn(turn).received, 48, "it does not wait for worker 0");
    }
    let ring = 2048 / 8 / 2;
    let described = b.team.workers[1].engine().counters().describe();
    let full = described.iter().filter(|reading| reading.kind == CounterKind::RingFull);
    let full: u64 = full.map(|reading| reading.value).sum();
    assert_eq!((b.team.workers[1].stats().handed_over(), full), (ring, sent - ring));
    for turn in 10..20 {
        b.team.workers.iter_mut().rev().for_each(|worker| drop(worker.turn(turn)));
        receive_all(&mut b, &mut back);
    }
    back.sort_unstable();
    assert_eq!(back, (0..ring).collect::<Vec<u64>>(), "the first ones");
}

#[test]
fn a_part_that_would_lose_something_is_refused_and_the_rest_stays() {
    let b = bench(ways(ALL), 2);
    let publisher = b.team.publisher.clone();
    let refused = |edit: fn(&mut Graph)| {
        let part = move |_: &_, _| {
            let mut part = ways([true, false, true]);
            edit(&mut part);
            Some(part)
        };
        let error = publisher.fit(Some(Arc::new(part))).expect_err("does not do");
        assert!(matches!(error, TeamError::Unfit { .. }), "{error}");
        error.to_string()
    };
    let error = refused(|part| {
        let id = part.find(SOURCE).expect("a node");
        part.node_mut(id).name = "Spring".into();
    });
    assert!(error.contains("worker-1") && error.contains("start at `Source`"), "{error}");
    let error = refused(|part| {
        let id = part.find("Whole").expect("a node");
        part.node_mut(id).attrs.clear();
    });
    assert!(error.contains("`Whole` runs on another worker"), "{error}");
    let error = refused(|part| {
        let id = part.find("Split").expect("a node");
        part.node_mut(id).implementation = Some("Nonsense".into());
    });
    assert!(error.contains("Split") && error.contains("Nonsense"), "{error}");
    assert_eq!((publisher.epoch(), publisher.sizes()), (0, vec![8, 8]));
}

#[test]
fn every_change_of_the_graph_is_fitted_anew() {
    let mut b = bench(ways(ALL), 2);
    let publisher = b.team.publisher.clone();
    // As a simplifier would: known nodes go, unknown ones stay.
    let without_gate = |whole: &weever_graph::Verified, _| {
        let changes = ChangeSet::new()
            .remove("Gate", Waiting::Drop)
            .remove("Bell", Waiting::Drop)
            .remove("Later", Waiting::Drop)
            .remove("Tail", Waiting::Drop)
            .unbind(EdgeName::new("Whole", Outlet::port("out"), "Split"));
        let mut part = weever_graph::apply(whole, &changes).expect("they are there");
        let mut foreign = Node::new("Foreign", NodeKind::Function);
        foreign.implementation = Some("PassOn".into());
        let target = part.find("Whole").expect("the entrance");
        foreign.spawns.push(Edge { label: "on".into(), target, predicates: Vec::new() });
        let foreign = part.add(foreign);
        let split = part.find("Split").expect("a node");
        part.node_mut(split).ports[..2].iter_mut().for_each(|port| port.targets = vec![foreign]);
        Some(part)
    };
    publisher.fit(Some(Arc::new(without_gate))).expect("sound");
    let shown = |worker| publisher.executed(worker).expect("a worker");
    assert!(shown(1).find("Gate").is_none() && publisher.graph().find("Gate").is_some());
    let splice = EdgeName::new("Split", Outlet::port("z"), SINK);
    publisher.change(&ChangeSet::new().splice(pass("Extra"), "out", splice)).expect("sound");
    assert!([0, 1].iter().all(|worker| shown(*worker).find("Extra").is_some()));
    assert!(shown(1).find("Gate").is_none());
    let (mut sent, mut back) = (0, Vec::new());
    for turn in 0..60 {
        sent += send(&mut *b.peers[1], &mut b.cache, sent, 16) as u64;
        b.team.workers.iter_mut().rev().for_each(|worker| drop(worker.turn(turn)));
        receive_all(&mut b, &mut back);
    }
    let waiting = b.team.workers[0].engine().counters().total("blocked_now");
    assert_eq!(back.len() as u64 + waiting, sent);
    // All of it again.
    publisher.fit(None).expect("sound");
    assert_eq!(*shown(1), *shown(0));
}
