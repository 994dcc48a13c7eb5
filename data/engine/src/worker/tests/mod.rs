//! Workers over memory links: the graph sends everything back.

mod order;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weever_block::Env;
use weever_graph::{Attr, Edge, Graph, Node, NodeId, NodeKind, Verified, verify};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkError, LinkQueue, QueueStats};
use weever_packet::{Buffer, Burst, Pool, PoolCache};

use super::run::LOOKS;
use super::wait::POLL_INTERVAL;
use super::{Attached, Mode, Worker, WorkerStats};
use crate::testkit::{pool, registry};
use crate::{Engine, Limits, Schedule};

/// Everything that enters leaves by link 0.
fn echo() -> Verified {
    let mut graph = Graph::new("echo");
    let mut node = Node::new("Echo", NodeKind::Function);
    node.attrs.push(Attr::Source);
    graph.add(node);
    verify(graph).expect("one node is sound")
}

/// The same, by a task of its own.
fn echo_by_spawn() -> Verified {
    let mut graph = Graph::new("echo by spawn");
    let mut first = Node::new("PassOn", NodeKind::Function);
    first.attrs.push(Attr::Source);
    let echo = Edge { label: "on".into(), target: NodeId(1), predicates: Vec::new() };
    first.spawns.push(echo);
    graph.add(first);
    graph.add(Node::new("Echo", NodeKind::Function));
    verify(graph).expect("two nodes are sound")
}

fn engine(pool: &Pool, limits: Limits, graph: &Verified) -> Engine {
    let schedule = Schedule::compile(graph, &registry(), &Env::new()).expect("compiles");
    Engine::new(schedule, pool.cache(), limits)
}

struct Bench {
    worker: Worker,
    peers: Vec<Box<dyn LinkQueue>>,
    pool: Pool,
    cache: PoolCache,
}

fn bench(queues: u16, ring: usize, waitable: bool, limits: Limits) -> Bench {
    bench_of(&echo(), queues, ring, waitable, limits)
}

fn bench_of(graph: &Verified, queues: u16, ring: usize, waitable: bool, limits: Limits) -> Bench {
    let pool = pool(2048);
    let config = MemoryConfig { queues, ring, waitable, ..MemoryConfig::default() };
    let (mut left, mut right) = pair(&config).expect("descriptors");
    let engine = engine(&pool, limits, graph);
    let source = graph.iter().find(|(_, node)| node.has(&Attr::Source));
    let source = source.and_then(|(_, node)| engine.entry(&node.name));
    let entry = source.expect("a source is an entry");
    let attach = |queue| Attached { link: 0, entry, queue };
    let queues = left.take_queues().into_iter().map(attach).collect();
    let worker = Worker::new(engine, queues).expect("descriptors");
    Bench { worker, peers: right.take_queues(), cache: pool.cache(), pool }
}

/// Sends `n` frames numbered from `first` into the worker; how many there was room for.
fn send(
    peer: &mut dyn LinkQueue,
    cache: &mut PoolCache,
    first: u8,
    n: u8,
) -> Result<usize, LinkError> {
    let frame = |i: u8| {
        let mut buffer = cache.alloc().expect("enough frames");
        assert!(buffer.append(&[0; 59]) && buffer.append(&[i]));
        buffer
    };
    let mut frames = (first..first + n).map(frame).collect();
    let sent = peer.tx(cache, &mut frames)?;
    peer.flush(cache)?;
    Ok(sent)
}

fn receive(peer: &mut dyn LinkQueue, cache: &mut PoolCache) -> Result<Vec<u8>, LinkError> {
    let mut burst = Burst::new();
    let n = peer.rx(cache, &mut burst, 64)?;
    let number = |i| burst.take(i).map(|b| b.data()[59]);
    Ok((0..n).filter_map(number).collect())
}

#[test]
fn a_turn_receives_runs_and_sends_in_order() -> Result<(), LinkError> {
    let mut b = bench(1, 256, false, Limits::default());
    send(&mut *b.peers[0], &mut b.cache, 0, 100)?;
    let turn = b.worker.turn(5);
    assert_eq!((turn.received, turn.sent), (100, 100), "a burst of 64 and one of 36");
    assert!(b.worker.turn(6).is_idle());
    let mut back = receive(&mut *b.peers[0], &mut b.cache)?;
    back.extend(receive(&mut *b.peers[0], &mut b.cache)?);
    assert_eq!(back, (0..100).collect::<Vec<u8>>());
    assert_eq!(b.worker.stats().received(), 100);
    drop((b.worker, b.peers, b.cache));
    assert_eq!(b.pool.available(), b.pool.frames());
    Ok(())
}

#[test]
fn no_queue_has_a_turn_to_itself() -> Result<(), LinkError> {
    let mut b = bench(2, 512, false, Limits::default());
    for _ in 0..5 {
        send(&mut *b.peers[0], &mut b.cache, 0, 64)?;
    }
    send(&mut *b.peers[1], &mut b.cache, 0, 10)?;
    let turn = b.worker.turn(1);
    assert_eq!(
        turn.received,
        super::MAX_BURSTS * 64 + 10,
        "the fifth burst waits for the next turn"
    );
    assert_eq!(b.worker.turn(2).received, 64);
    Ok(())
}

#[test]
fn what_cannot_be_sent_holds_back_what_is_received() -> Result<(), LinkError> {
    let mut b = bench(1, 16, false, Limits { outbox: 8, ..Limits::default() });
    // 16 in flight to the peer, 8 in the outbox, the rest stays in the device.
    for _ in 0..10 {
        send(&mut *b.peers[0], &mut b.cache, 0, 8)?;
        b.worker.turn(1);
    }
    assert_eq!(b.worker.stats().received(), 24);
    assert_eq!(b.worker.engine().counters().total("unclaimed"), 0);
    assert_eq!(receive(&mut *b.peers[0], &mut b.cache)?.len(), 16);
    assert_eq!(b.worker.turn(2).sent, 8);
    assert_eq!(b.worker.turn(3).received, 8);
    Ok(())
}

#[test]
fn a_turn_runs_what_many_queues_received() -> Result<(), LinkError> {
    let mut b = bench_of(&echo_by_spawn(), 8, 256, false, Limits::default());
    for round in 0..20 {
        for peer in &mut b.peers {
            send(&mut **peer, &mut b.cache, 0, 64)?;
        }
        let turn = b.worker.turn(round);
        assert_eq!((turn.received, turn.ran, turn.sent), (512, 512, 512), "turn {round}");
        for peer in &mut b.peers {
            assert_eq!(receive(&mut **peer, &mut b.cache)?.len(), 64);
        }
    }
    Ok(())
}

#[test]
fn packets_leave_by_the_queue_in_their_metadata() -> Result<(), LinkError> {
    let mut b = bench(3, 256, false, Limits::default());
    for queue in 0..3u8 {
        send(&mut *b.peers[queue as usize], &mut b.cache, queue * 10, 5)?;
    }
    b.worker.turn(1);
    for queue in 0..3u8 {
        let expected: Vec<u8> = (queue * 10..queue * 10 + 5).collect();
        assert_eq!(receive(&mut *b.peers[queue as usize], &mut b.cache)?, expected);
    }
    Ok(())
}

#[test]
fn a_lost_queue_is_reported_once_and_the_others_go_on() -> Result<(), LinkError> {
    let mut b = bench(2, 256, false, Limits::default());
    send(&mut *b.peers[0], &mut b.cache, 0, 3)?;
    b.peers.remove(0);
    let turn = b.worker.turn(1);
    assert_eq!(turn.received, 3);
    assert_eq!(turn.lost.len(), 1);
    assert!(matches!(turn.lost[0].error, LinkError::Gone { .. }));
    assert!(b.worker.turn(2).lost.is_empty());
    send(&mut *b.peers[0], &mut b.cache, 7, 2)?;
    b.worker.turn(3);
    assert_eq!(receive(&mut *b.peers[0], &mut b.cache)?, [7, 8]);
    b.peers.clear();
    assert_eq!(b.worker.turn(4).lost.len(), 1);
    assert!(b.worker.turn(5).is_idle());
    assert_eq!(b.worker.stats().undeliverable(), 3);
    drop((b.worker, b.cache));
    assert_eq!(b.pool.available(), b.pool.frames());
    Ok(())
}

/// Runs the worker on a thread while `peer` does its part.
fn running(
    mode: Mode,
    waitable: bool,
    limits: Limits,
    peer: impl FnOnce(&mut dyn LinkQueue, &mut PoolCache, &WorkerStats),
) -> u64 {
    let Bench { mut worker, mut peers, pool, mut cache } = bench(1, 256, waitable, limits);
    let (stop, waker, stats) = (AtomicBool::new(false), worker.waker(), worker.stats());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            worker.run(&stop, mode, |lost| panic!("{lost:?}"));
            worker
        });
        peer(&mut *peers[0], &mut cache, &stats);
        stop.store(true, Ordering::Relaxed);
        waker.wake();
        drop(thread.join().expect("the worker does not panic"));
    });
    let (link, queue) = stats.queues()[0];
    assert_eq!((link, queue.rx_packets), (0, stats.received()), "published at the end");
    assert!(
        stats.sleeps() == 0 || stats.context_switches().0 > 0,
        "a sleeping thread is switched out"
    );
    drop((peers, cache));
    assert_eq!(pool.available(), pool.frames());
    stats.sleeps()
}

fn echo_one_by_one(peer: &mut dyn LinkQueue, cache: &mut PoolCache, pause: Duration) {
    for i in 0..20 {
        assert_eq!(send(peer, cache, i, 1).ok(), Some(1));
        let deadline = Instant::now() + Duration::from_secs(20);
        let back = loop {
            let back = receive(peer, cache).expect("the worker holds the other end");
            if !back.is_empty() || Instant::now() > deadline {
                break back;
            }
            std::thread::yield_now();
        };
        assert_eq!(back, [i]);
        std::thread::sleep(pause);
    }
}

#[test]
fn sleeps_until_a_packet_comes() {
    let pause = Duration::from_millis(2);
    let sleeps =
        running(Mode::Interrupt, true, Limits::default(), |p, c, _| echo_one_by_one(p, c, pause));
    // Each sleep ended by a packet, by the end, or to publish counters; it did not spin.
    assert!((1..100).contains(&sleeps), "{sleeps} sleeps for 20 packets");
}

#[test]
fn adaptive_works_with_and_without_a_descriptor() {
    for waitable in [true, false] {
        let pause = Duration::from_millis(1);
        let mode = Mode::Adaptive { spin: 1000 };
        running(mode, waitable, Limits::default(), |p, c, _| echo_one_by_one(p, c, pause));
    }
}

#[test]
fn busy_never_sleeps() {
    let sleeps = running(Mode::Busy, true, Limits::default(), |p, c, _| {
        echo_one_by_one(p, c, Duration::ZERO);
    });
    assert_eq!(sleeps, 0);
}

#[test]
fn a_device_that_takes_nothing_is_not_spun_on() {
    let limits = Limits { outbox: 8, ..Limits::default() };
    running(Mode::Interrupt, true, limits, |peer, cache, stats| {
        // The ring back to us and the outbox fill up. Once the device has taken nothing for a while,
        // further packets are received and end at the outbox.
        let deadline = Instant::now() + Duration::from_secs(20);
        let packets = 256 + 8 + 10;
        let mut sent = 0;
        while sent < packets && Instant::now() < deadline {
            sent += send(peer, cache, 0, 1).expect("the worker holds the other end");
        }
        while stats.received() < packets as u64 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(stats.received(), packets as u64);
        let (start, before) = (Instant::now(), stats.sleeps());
        while stats.sleeps() < before + 5 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (slept, most) = (stats.sleeps() - before, start.elapsed().as_nanos() as u64);
        assert!((5..=most / POLL_INTERVAL + 1).contains(&slept), "{slept} sleeps in {most} ns");
    });
}

/// A device that is down: it has taken packets and does not send them. Or an application that does not receive.
#[derive(Default)]
struct Stuck {
    is_application: bool,
}

impl LinkQueue for Stuck {
    fn rx(&mut self, _: &mut PoolCache, _: &mut Burst, _: usize) -> Result<usize, LinkError> {
        Ok(0)
    }

    fn tx(&mut self, _: &mut PoolCache, _: &mut VecDeque<Buffer>) -> Result<usize, LinkError> {
        Ok(0)
    }

    fn flush(&mut self, _: &mut PoolCache) -> Result<(), LinkError> {
        Ok(())
    }

    fn unsent(&self) -> bool {
        !self.is_application
    }

    fn holds_back(&self) -> bool {
        self.is_application
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}

/// Has something to receive after so many looks.
struct Watched {
    looks: Arc<AtomicU32>,
    quiet_for: u32,
}

impl LinkQueue for Watched {
    fn rx(&mut self, _: &mut PoolCache, _: &mut Burst, _: usize) -> Result<usize, LinkError> {
        Ok(0)
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

    fn is_quiet(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed) < self.quiet_for
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}

#[test]
fn a_look_out_ends_with_the_first_packet_and_soon_without_any() {
    for (quiet_for, looks) in [(0, 1), (5, 6), (u32::MAX, LOOKS)] {
        let pool = pool(64);
        let engine = engine(&pool, Limits::default(), &echo());
        let entry = engine.entry("Echo").expect("a source is an entry");
        let counted = Arc::new(AtomicU32::new(0));
        let watched = Watched { looks: counted.clone(), quiet_for };
        let attached = Attached { link: 0, entry, queue: Box::new(watched) };
        let worker = Worker::new(engine, vec![attached]).expect("descriptors");
        worker.look_out();
        assert_eq!(counted.load(Ordering::Relaxed), looks, "quiet for {quiet_for} looks");
    }
}

#[test]
fn a_device_that_is_down_is_not_spun_on() {
    let pool = pool(64);
    let engine = engine(&pool, Limits::default(), &echo());
    let entry = engine.entry("Echo").expect("a source is an entry");
    let stuck = Attached { link: 0, entry, queue: Box::new(Stuck::default()) };
    let mut worker = Worker::new(engine, vec![stuck]).expect("descriptors");
    let (stats, waker, stop) = (worker.stats(), worker.waker(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| worker.run(&stop, Mode::Interrupt, |_| ()));
        let deadline = Instant::now() + Duration::from_secs(20);
        while stats.sleeps() < 5 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        waker.wake();
    });
    assert!(stats.sleeps() >= 5, "{} sleeps", stats.sleeps());
}

#[test]
fn a_stuck_link_does_not_hold_back_the_others() {
    let pool = pool(512);
    let limits = Limits { outbox: 8, links: 2, ..Limits::default() };
    let engine = engine(&pool, limits, &echo());
    let entry = engine.entry("Echo").expect("a source is an entry");
    let (mut left, mut right) = pair(&MemoryConfig::default()).expect("descriptors");
    let queue = left.take_queues().remove(0);
    // Everything is sent by link 0, which takes nothing, and received from link 1.
    let queues = vec![
        Attached { link: 0, entry, queue: Box::new(Stuck::default()) },
        Attached { link: 1, entry, queue },
    ];
    let mut worker = Worker::new(engine, queues).expect("descriptors");
    let (mut peer, mut cache) = (right.take_queues().remove(0), pool.cache());
    assert_eq!(send(&mut *peer, &mut cache, 0, 30).ok(), Some(30));
    worker.turn(1);
    assert_eq!(worker.stats().received(), 30);
    let dropped = worker.engine().counters().get("Echo", crate::CounterKind::OutboxFull, "");
    assert_eq!(dropped, Some(22));
}

#[test]
fn a_queue_of_an_unknown_link_is_refused() {
    let pool = pool(64);
    let engine = engine(&pool, Limits::default(), &echo());
    let entry = engine.entry("Echo").expect("a source is an entry");
    let stuck = Attached { link: 1, entry, queue: Box::new(Stuck::default()) };
    let error = Worker::new(engine, vec![stuck]).expect_err("there is link 0 only");
    assert_eq!(error.to_string(), "a queue is of link 1, and the limits say links = 1");
}
