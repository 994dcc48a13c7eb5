//! One congested place costs nobody else: rings between workers that are full, and moves of flows
//! beside links that take nothing.

use std::collections::VecDeque;

use weever_link::{LinkError, QueueStats};
use weever_packet::Buffer;

use super::sequence::{FLOW, PINNED, SEQUENCE, counts, key, sequence};
use super::*;
use crate::FlowMoves;
use crate::testkit::hash;

const WORKERS: usize = 2;

/// `Source`; packets of flows go on to `Seq`, strangers to `Home`, which runs on worker 0.
fn flows_and_strangers() -> Graph {
    let mut graph = Graph::new("flows and strangers");
    let mut add = |name: &str, implementation: &str| {
        let mut node = Node::new(name, NodeKind::Function);
        node.implementation = Some(implementation.into());
        graph.add(node)
    };
    let (source, seq) = (add(SOURCE, "Three"), add("Seq", "Sequence"));
    let (away, home, sink) = (add("Away", "PassOn"), add("Home", "One"), add(SINK, "Echo"));
    graph.node_mut(source).attrs.push(Attr::Source);
    graph.node_mut(home).attrs.push(Attr::parse("worker=0"));
    let ports = [(source, "x", seq), (source, "y", away), (source, "z", away)];
    for (from, name, to) in ports.into_iter().chain([(seq, "out", sink), (home, "out", sink)]) {
        let port = Port { name: name.into(), targets: vec![to], ..Port::default() };
        graph.node_mut(from).ports.push(port);
    }
    let edge = Edge { label: "on".into(), target: home, predicates: Vec::new() };
    graph.node_mut(away).spawns.push(edge);
    graph
}

fn bench() -> Bench {
    let pool = pool(4096);
    let config = MemoryConfig { queues: WORKERS as u16, ring: 512, ..MemoryConfig::default() };
    let (mut left, mut right) = pair(&config).expect("descriptors");
    let member = |(i, queue)| Member {
        name: format!("worker-{i}"),
        pool: pool.cache(),
        limits: Limits { ring: RING, ..Limits::default() },
        queues: vec![MemberQueue { link: 0, source: SOURCE.into(), queue }],
    };
    let members = left.take_queues().into_iter().enumerate().map(member).collect();
    let (graph, registry) = (flows_and_strangers(), registry().with(&[&SEQUENCE]));
    let team = Team::build(graph, registry, Arc::new(Env::new()), members).expect("sound");
    Bench { team, peers: right.take_queues(), cache: pool.cache(), pool }
}

/// The messages that one ring holds.
const RING: usize = 128;

/// Those of a ring that only packets of flows may take.
const RESERVE: usize = 64;

/// Whether a frame of [`send`]'s goes to `Seq`.
fn is_of_flow(number: u64) -> bool {
    let frame = [&[0; 52][..], &number.to_be_bytes()].concat();
    hash(0, &frame).is_multiple_of(3)
}

fn strangers(from: u64) -> impl Iterator<Item = u64> {
    (from..).filter(|number| !is_of_flow(*number))
}

fn send_all(b: &mut Bench, queue: usize, numbers: &[u64]) {
    for number in numbers {
        assert_eq!(send(&mut *b.peers[queue], &mut b.cache, *number, 1), 1);
    }
}

fn rings_full(b: &mut Bench, node: &str) -> u64 {
    let readings = b.team.workers[1].engine().counters().describe();
    let is = |r: &&crate::Reading| &*r.node == node && r.kind == CounterKind::RingFull;
    readings.iter().filter(is).map(|r| r.value).sum()
}

/// Worker 0 takes nothing, and most of what reaches worker 1 is for worker 0.
#[test]
fn a_ring_full_of_strangers_does_not_stop_the_workers_own_flows() {
    let mut b = bench();
    let mut own = (0..).map(|flow| flow * FLOW).filter(|number| is_of_flow(*number));
    let mut others = strangers(1_000);
    for turn in 0..20 {
        let mixed: Vec<u64> =
            (0..48).filter_map(|i| if i % 4 == 0 { own.next() } else { others.next() }).collect();
        send_all(&mut b, 1, &mixed);
        assert_eq!(b.team.workers[1].turn(turn).received, 48, "turn {turn}");
    }
    assert_eq!(counts(&mut b.team.workers), [20 * 12, 0, 0, 0], "its own flows are served");
    let common = (RING - RESERVE) as u64;
    assert_eq!(b.team.workers[1].stats().handed_over(), common);
    assert_eq!(rings_full(&mut b, "Away"), 20 * 36 - common, "strangers end at the ring");
}

/// A flood of packets of another worker's flows, such as ICMP errors that quote one: behind strangers they have room of
/// their own in the ring, and beyond that they end there.
#[test]
fn packets_of_another_workers_flow_end_at_a_full_ring_and_stop_nobody() {
    let mut b = bench();
    let flow = (0..).find(|flow| is_of_flow(flow * FLOW)).expect("one in three");
    let mut own = (flow + 1..).map(|flow| flow * FLOW).filter(|number| is_of_flow(*number));
    let mut packets = (flow * FLOW..).filter(|number| is_of_flow(*number));
    let first: Vec<u64> = packets.by_ref().take(1).collect();
    send_all(&mut b, 0, &first);
    b.team.workers[0].turn(0);
    let many: Vec<u64> = strangers(1_000).take(400).collect();
    send_all(&mut b, 1, &many);
    (1..4).for_each(|now| drop(b.team.workers[1].turn(now)));
    for now in 4..8 {
        let mixed = packets.by_ref().take(100).zip(own.by_ref());
        let mixed: Vec<u64> = mixed.flat_map(|(astray, own)| [astray, own]).collect();
        send_all(&mut b, 1, &mixed);
        assert_eq!(b.team.workers[1].turn(now).received, 200, "turn {now}");
    }
    assert_eq!(counts(&mut b.team.workers), [1 + 400, 0, 0, 0], "its own flows are served");
    assert_eq!(rings_full(&mut b, "Seq"), (400 - RESERVE) as u64, "dropped and counted");
    for now in 8..40 {
        b.team.workers.iter_mut().rev().for_each(|worker| drop(worker.turn(now)));
        let mut back = Vec::new();
        b.peers.iter_mut().for_each(|peer| receive(&mut **peer, &mut b.cache, &mut back));
    }
    // One in three, so they are not numbered one after the other.
    assert_eq!(counts(&mut b.team.workers).iter().sum::<u64>(), (1 + 400 + RESERVE) as u64);
}

/// A flow that moves from worker 0 to worker 1, and a flood of packets of another one of worker 0's, arrive at worker 2;
/// worker 0 takes nothing.
struct Astray {
    bench: Bench,
    moves: FlowMoves,
    /// Packets of the flood that ended at the ring.
    flood: u64,
}

impl Astray {
    const FLOOD: u64 = 2 * FLOW;

    fn new() -> Astray {
        let pool = pool(8192);
        let config = MemoryConfig { queues: 3, ring: 512, ..MemoryConfig::default() };
        let (mut left, mut right) = pair(&config).expect("descriptors");
        let member = |(i, queue)| Member {
            name: format!("worker-{i}"),
            pool: pool.cache(),
            limits: Limits { ring: RING, held: HELD, ..Limits::default() },
            queues: vec![MemberQueue { link: 0, source: SOURCE.into(), queue }],
        };
        let members = left.take_queues().into_iter().enumerate().map(member).collect();
        let registry = registry().with(&[&SEQUENCE]);
        let team = Team::build(sequence(), registry, Arc::new(Env::new()), members);
        let (team, cache) = (team.expect("sound"), pool.cache());
        let mut b = Bench { team, peers: right.take_queues(), cache, pool };
        for flow in [FLOW, Astray::FLOOD] {
            send(&mut *b.peers[0], &mut b.cache, flow, 1);
        }
        b.team.workers[0].turn(1);
        let moves = b.team.publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
        b.team.workers[0].turn(2);
        assert!(moves.wait_begun(Duration::ZERO));
        let mut astray = Astray { bench: b, moves, flood: 0 };
        astray.arrive(3, Astray::FLOOD + 1, RING + 100);
        astray.flood = astray.ended();
        assert_eq!(astray.flood, 100, "the ring is full");
        astray
    }

    /// Packets arrive at worker 2, which receives them all.
    fn arrive(&mut self, now: u64, first: u64, packets: usize) {
        let b = &mut self.bench;
        assert_eq!(send(&mut *b.peers[2], &mut b.cache, first, packets), packets);
        let received: usize = (0..3).map(|_| b.team.workers[2].turn(now).received).sum();
        assert_eq!(received, packets);
    }

    /// Packets that ended at the ring.
    fn ended(&mut self) -> u64 {
        let counters = self.bench.team.workers[2].engine().counters();
        let full = |r: &crate::Reading| &*r.node == "Seq" && r.kind == CounterKind::RingFull;
        counters.describe().iter().filter(|r| full(r)).map(|r| r.value).sum()
    }

    /// The packets of the moved flow in the order in which they have run.
    fn end(self) -> Vec<u64> {
        let Astray { bench: mut b, moves, .. } = self;
        moves.redirected();
        let mut back = Vec::new();
        for now in 10..60 {
            b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
            b.peers.iter_mut().for_each(|peer| receive(&mut **peer, &mut b.cache, &mut back));
        }
        assert_eq!(moves.progress().moved, 1);
        let Bench { team, peers, pool, cache } = b;
        drop((team, peers, cache));
        assert_eq!(pool.available(), pool.frames(), "every frame has come home");
        back.retain(|number| *number < Astray::FLOOD);
        back
    }
}

#[test]
fn packets_of_a_flow_that_moves_wait_beside_a_full_ring() {
    let mut astray = Astray::new();
    astray.arrive(4, FLOW + 1, HELD / 2);
    assert_eq!(astray.ended(), astray.flood, "none of them ends");
    astray.arrive(5, Astray::FLOOD + 1000, 100);
    assert_eq!(astray.ended(), astray.flood + 100, "others are not kept");
    let b = &mut astray.bench;
    send(&mut *b.peers[1], &mut b.cache, FLOW + 151, 50);
    assert_eq!(astray.end(), (FLOW..FLOW + 201).collect::<Vec<u64>>());
}

/// They have half of the room of those that wait for a state, which the others always find.
#[test]
fn packets_beyond_the_limit_of_those_beside_a_full_ring_are_dropped_and_counted() {
    let mut astray = Astray::new();
    astray.arrive(4, FLOW + 1, HELD + 20);
    let beside = HELD as u64 / 2;
    assert_eq!(astray.ended(), astray.flood + beside + 20);
    assert_eq!(astray.end(), (FLOW..=FLOW + beside).collect::<Vec<u64>>());
}

/// The owner of its flow takes nothing: what the application sends waits there.
#[test]
fn an_application_waits_for_the_ring_to_the_owner_of_its_flow() {
    PINNED.set(true);
    let mut b = two_workers(Some(1));
    send(&mut *b.peers[0], &mut b.cache, ENDLESS * FLOW, 1);
    b.team.workers[0].turn(1);
    (2..40).for_each(|now| drop(b.team.workers[1].turn(now)));
    let ring = b.team.workers[1].stats().handed_over();
    assert_eq!(rings_full(&mut b, "Seq"), 0, "it does not end at the ring");
    b.team.workers[1].turn(40);
    assert_eq!(b.team.workers[1].stats().handed_over(), ring, "it waits");
    (41..60).for_each(|now| b.team.workers.iter_mut().for_each(|w| drop(w.turn(now))));
    let [in_order, rest @ ..] = counts(&mut b.team.workers);
    assert!(in_order > ring && rest == [0; 3], "{in_order} {rest:?}");
}

/// An application's queue that takes nothing.
struct Application {
    /// Whether it always has a packet more.
    is_endless: bool,
    given: u64,
}

/// A flow with packets at all times.
const ENDLESS: u64 = 77;

impl LinkQueue for Application {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        n: usize,
    ) -> Result<usize, LinkError> {
        let n = if self.is_endless { n.min(64) } else { 0 };
        for slot in 0..n {
            let Some(mut buffer) = pool.alloc() else { return Ok(slot) };
            let number = ENDLESS * FLOW + self.given;
            assert!(buffer.append(&[0; 52]) && buffer.append(&number.to_be_bytes()));
            burst.put(slot, buffer);
            self.given += 1;
        }
        Ok(n)
    }

    fn tx(&mut self, _: &mut PoolCache, _: &mut VecDeque<Buffer>) -> Result<usize, LinkError> {
        Ok(0)
    }

    fn flush(&mut self, _: &mut PoolCache) -> Result<(), LinkError> {
        Ok(())
    }

    fn unsent(&self) -> bool {
        false
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}

/// Two workers with a queue each, and everything goes through `Seq`; worker 1 has an application, too, which may send
/// packets at all times from one on.
fn two_workers(endless: Option<u64>) -> Bench {
    let pool = pool(8192);
    let config = MemoryConfig { queues: WORKERS as u16, ring: 512, ..MemoryConfig::default() };
    let (mut left, mut right) = pair(&config).expect("descriptors");
    let members = left.take_queues().into_iter().enumerate().map(|(i, queue)| {
        let mut queues = vec![MemberQueue { link: 0, source: SOURCE.into(), queue }];
        if i == 1 {
            let (is_endless, given) = (endless.is_some(), endless.unwrap_or(0));
            let queue = Box::new(Application { is_endless, given });
            queues.push(MemberQueue { link: 1, source: SOURCE.into(), queue });
        }
        let limits = Limits { outbox: OUTBOX, held: HELD, links: 2, ..Limits::default() };
        Member { name: format!("worker-{i}"), pool: pool.cache(), limits, queues }
    });
    let (members, registry) = (members.collect(), registry().with(&[&SEQUENCE]));
    let team = Team::build(sequence(), registry, Arc::new(Env::new()), members).expect("sound");
    Bench { team, peers: right.take_queues(), cache: pool.cache(), pool }
}

const OUTBOX: usize = 128;

/// The packets that a worker keeps for flows whose state is on its way.
const HELD: usize = 300;

/// An application sends more than the link takes, or a device's queue has more requests than the link
/// takes answers: four packets a turn.
#[test]
fn a_queue_that_is_held_back_in_every_turn_does_not_keep_a_move_open() {
    for (is_application, most_turns) in [(true, 8), (false, 16_384 / 4 + 8)] {
        let mut b = two_workers(is_application.then_some(0));
        send(&mut *b.peers[0], &mut b.cache, FLOW, 1);
        let mut now = 0;
        let mut turn = |b: &mut Bench| {
            now += 1;
            if !is_application {
                send(&mut *b.peers[1], &mut b.cache, ENDLESS * FLOW + 8 * now, 8);
            }
            b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
            let mut burst = Burst::new();
            let n = b.peers[1].rx(&mut b.cache, &mut burst, 4).expect("the other end is there");
            (0..n).filter_map(|i| burst.take(i)).for_each(|buffer| b.cache.free(buffer));
        };
        (0..200).for_each(|_| turn(&mut b));
        let moves = b.team.publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
        turn(&mut b);
        assert!(moves.wait_begun(Duration::ZERO));
        moves.redirected();
        let needed = (0..most_turns).position(|_| {
            turn(&mut b);
            moves.progress().open == 0
        });
        assert_eq!(moves.progress().moved, 1, "an application: {is_application}, {needed:?}");
        assert!(is_application || needed > Some(64), "its queue was never empty");
    }
}

/// The outbox of an unrelated link is full, and packets of a flow wait for its state.
#[test]
fn a_link_that_takes_nothing_does_not_keep_the_packets_of_a_flow() {
    let mut b = two_workers(None);
    send(&mut *b.peers[0], &mut b.cache, FLOW, 1);
    b.team.workers[0].turn(1);
    let outbox = b.team.workers[1].engine().outbox(1);
    outbox.extend((0..OUTBOX).map(|_| b.cache.alloc().expect("enough frames")));
    let moves = b.team.publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
    b.team.workers[0].turn(2);
    assert!(moves.wait_begun(Duration::ZERO));
    send(&mut *b.peers[1], &mut b.cache, FLOW + 1, 200);
    b.team.workers[1].turn(3);
    moves.redirected();
    let mut back = Vec::new();
    for now in 4..16 {
        b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
        b.peers.iter_mut().for_each(|peer| receive(&mut **peer, &mut b.cache, &mut back));
    }
    assert_eq!(moves.progress().moved, 1);
    assert_eq!(counts(&mut b.team.workers), [201, 0, 0, 0]);
    assert_eq!(back, (FLOW..FLOW + 201).collect::<Vec<u64>>(), "none ended at the outbox");
}

/// The frames of packets that wait for a flow's state have a bound of their own.
#[test]
fn packets_beyond_the_limit_of_those_held_are_dropped_and_counted() {
    let mut b = two_workers(None);
    send(&mut *b.peers[0], &mut b.cache, FLOW, 1);
    b.team.workers[0].turn(1);
    let moves = b.team.publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
    b.team.workers[0].turn(2);
    assert!(moves.wait_begun(Duration::ZERO));
    send(&mut *b.peers[1], &mut b.cache, FLOW + 1, HELD + 20);
    (3..7).for_each(|now| drop(b.team.workers[1].turn(now)));
    let refused = b.team.workers[1].engine().counters().get("Seq", CounterKind::BlockFull, "");
    assert_eq!(refused, Some(20));
    moves.redirected();
    (7..20).for_each(|now| b.team.workers.iter_mut().for_each(|w| drop(w.turn(now))));
    assert_eq!(counts(&mut b.team.workers), [HELD as u64 + 1, 0, 0, 0]);
}
