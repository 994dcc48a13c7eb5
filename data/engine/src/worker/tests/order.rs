//! Packets that may be sent only after those of other workers.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use weever_packet::Nanos;

use super::*;

/// What the test decides and sees of a queue that keeps order.
#[derive(Default)]
struct Turn {
    may_send: AtomicBool,
    /// Whether the packets are this worker's alone.
    is_alone: AtomicBool,
    has_turn: AtomicBool,
    sent: AtomicU32,
}

/// A queue of memory that keeps order.
struct InTurn(Box<dyn LinkQueue>, Arc<Turn>);

impl LinkQueue for InTurn {
    fn rx(
        &mut self,
        pool: &mut PoolCache,
        burst: &mut Burst,
        max: usize,
    ) -> Result<usize, LinkError> {
        let received = self.0.rx(pool, burst, max.min(8))?;
        let has_turn = received > 0 && !self.1.is_alone.load(Ordering::Relaxed);
        self.1.has_turn.store(has_turn, Ordering::Relaxed);
        Ok(received)
    }

    fn tx(
        &mut self,
        pool: &mut PoolCache,
        packets: &mut VecDeque<Buffer>,
    ) -> Result<usize, LinkError> {
        self.0.tx(pool, packets)
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<(), LinkError> {
        self.0.flush(pool)
    }

    fn unsent(&self) -> bool {
        self.0.unsent()
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn has_turn(&self) -> bool {
        self.1.has_turn.load(Ordering::Relaxed)
    }

    fn may_send(&mut self) -> bool {
        self.1.may_send.load(Ordering::Relaxed)
    }

    fn sent(&mut self) {
        self.1.has_turn.store(false, Ordering::Relaxed);
        self.1.sent.fetch_add(1, Ordering::Relaxed);
    }

    fn advance(&mut self, now: Nanos) {
        self.0.advance(now);
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        self.0.stats()
    }
}

/// A worker with two queues that keep order and one that does not, all of which it sends back by link 0.
struct Ordered {
    worker: Worker,
    peers: Vec<Box<dyn LinkQueue>>,
    turns: [Arc<Turn>; 2],
    cache: PoolCache,
    pool: Pool,
}

fn ordered(ring: usize) -> Ordered {
    ordered_beside(ring, None)
}

/// And with one of link 3.
fn ordered_beside(ring: usize, fourth: Option<Stuck>) -> Ordered {
    let pool = pool(512);
    let limits = Limits { links: 4, ..Limits::default() };
    let engine = engine(&pool, limits, &echo());
    let entry = engine.entry("Echo").expect("a source is an entry");
    let turns: [Arc<Turn>; 2] = Default::default();
    let (mut queues, mut peers) = (Vec::new(), Vec::new());
    for link in 0..3 {
        let config = MemoryConfig { ring, ..MemoryConfig::default() };
        let (mut left, mut right) = pair(&config).expect("descriptors");
        let queue = left.take_queues().remove(0);
        let queue = match turns.get(usize::from(link)) {
            Some(turn) => Box::new(InTurn(queue, Arc::clone(turn))),
            None => queue,
        };
        queues.push(Attached { link, entry, queue });
        peers.push(right.take_queues().remove(0));
    }
    let fourth = fourth.map(|queue| Attached { link: 3, entry, queue: Box::new(queue) });
    queues.extend(fourth);
    let worker = Worker::new(engine, queues).expect("descriptors");
    Ordered { worker, peers, turns, cache: pool.cache(), pool }
}

impl Ordered {
    fn send(&mut self, link: usize, first: u8, n: u8) {
        let sent = send(&mut *self.peers[link], &mut self.cache, first, n);
        assert_eq!(sent.ok(), Some(n.into()));
    }

    fn back(&mut self) -> Vec<u8> {
        receive(&mut *self.peers[0], &mut self.cache).expect("nothing fails")
    }

    fn sent(&self) -> [u32; 2] {
        [0, 1].map(|queue| self.turns[queue].sent.load(Ordering::Relaxed))
    }
}

#[test]
fn packets_wait_for_their_turn_and_nothing_else_that_keeps_order_is_received() {
    let mut b = ordered(256);
    b.send(0, 0, 12);
    b.send(1, 100, 3);
    b.send(2, 200, 2);
    let turn = b.worker.turn(1);
    assert_eq!((turn.received, turn.sent), (10, 0), "eight of the first queue, two of the last");
    for now in 2..5 {
        let turn = b.worker.turn(now);
        assert_eq!((turn.received, turn.sent), (0, 0));
    }
    assert_eq!((b.back(), b.sent()), (vec![], [0, 0]));
    b.turns[0].may_send.store(true, Ordering::Relaxed);
    let turn = b.worker.turn(5);
    assert_eq!((turn.received, turn.sent, b.sent()), (0, 10, [1, 0]));
    assert_eq!(b.back(), [0, 1, 2, 3, 4, 5, 6, 7, 200, 201]);
    // The others: both queues come to their turn, one at a time.
    b.turns[1].may_send.store(true, Ordering::Relaxed);
    let turns = [6, 7, 8].map(|now| b.worker.turn(now).received);
    assert_eq!(turns.iter().sum::<usize>(), 7, "{turns:?}");
    assert_eq!((b.back().len(), b.sent()), (7, [2, 1]));
    drop((b.worker, b.peers, b.cache));
    assert_eq!(b.pool.available(), b.pool.frames());
}

#[test]
fn what_a_link_does_not_take_keeps_the_turn_for_a_moment_only() {
    // The ring to the peer takes fewer packets than come.
    let mut b = ordered(4);
    b.turns.iter().for_each(|turn| turn.may_send.store(true, Ordering::Relaxed));
    for first in [0, 4, 8] {
        b.send(1, first, 4);
        b.worker.turn(1);
    }
    let sent = b.sent();
    assert!(b.worker.has_backlog(), "{sent:?}");
    b.worker.turn(2);
    assert_eq!(b.sent(), sent, "it tries again");
    b.worker.turn(20_000_000);
    assert_eq!(b.sent(), [0, sent[1] + 1], "others go on");
}

#[test]
fn packets_of_one_worker_alone_wait_for_nobody_and_nobody_waits_for_them() {
    let mut b = ordered(256);
    b.turns[0].is_alone.store(true, Ordering::Relaxed);
    b.send(0, 0, 3);
    b.send(1, 100, 3);
    let turn = b.worker.turn(1);
    assert_eq!(turn.received, 6, "from both queues");
    let mut b = ordered(256);
    b.turns[0].is_alone.store(true, Ordering::Relaxed);
    b.send(0, 0, 3);
    assert_eq!((b.worker.turn(1).sent, b.sent()), (3, [0, 0]), "although its turn has not come");
}

/// How many bursts of eight a worker receives in 100 ms in which it is always its turn.
fn bursts(b: &mut Ordered) -> u32 {
    const MS: Nanos = 1_000_000;
    b.turns[0].may_send.store(true, Ordering::Relaxed);
    for now in 1..=100 {
        b.send(0, 0, 8);
        b.worker.turn(now * MS);
        while !b.back().is_empty() {}
    }
    b.sent()[0]
}

#[test]
fn a_link_that_sends_nothing_is_waited_for_once() {
    let mut b = ordered_beside(1024, Some(Stuck::default()));
    let waits = b.cache.alloc().expect("a frame");
    b.worker.engine().outbox(3).push_back(waits);
    let bursts = bursts(&mut b);
    assert!((85..100).contains(&bursts), "10 ms are for the link: {bursts}");
}

#[test]
fn an_application_that_does_not_receive_is_not_waited_for() {
    let mut b = ordered_beside(1024, Some(Stuck { is_application: true }));
    let waits = b.cache.alloc().expect("a frame");
    b.worker.engine().outbox(3).push_back(waits);
    assert_eq!(bursts(&mut b), 100);
}

/// Packets that do not wait for a turn take the room of those that have left.
#[test]
fn what_comes_after_the_turn_has_begun_is_not_waited_for() {
    let mut b = ordered(4);
    b.turns[0].may_send.store(true, Ordering::Relaxed);
    for first in [0, 4] {
        b.send(0, first, 4);
        b.worker.turn(1);
    }
    let sent = b.sent()[0];
    assert!(b.worker.has_backlog(), "the peer has not received");
    for now in 2..6 {
        b.send(2, 100, 4);
        assert_eq!(b.back().len(), 4);
        b.worker.turn(now);
    }
    assert!(b.worker.has_backlog());
    assert_eq!(b.sent()[0], sent + 1);
}

#[test]
fn a_worker_with_nothing_to_send_gives_way_as_soon_as_its_turn_comes() {
    let mut b = ordered(256);
    b.send(0, 0, 3);
    assert_eq!(b.worker.turn(1).received, 3);
    b.worker.engine().outbox(0).clear();
    b.worker.turn(2);
    assert_eq!(b.sent(), [0, 0]);
    assert!(b.worker.has_backlog(), "it does not sleep until a packet comes");
    b.turns[0].may_send.store(true, Ordering::Relaxed);
    b.worker.turn(3);
    assert_eq!(b.sent(), [1, 0]);
    assert!(!b.worker.has_backlog());
}

#[test]
fn a_queue_that_fails_with_packets_in_hand_holds_up_nobody() {
    let mut b = ordered(256);
    b.send(0, 0, 3);
    b.send(2, 9, 1);
    assert_eq!(b.worker.turn(1).sent, 0);
    b.worker.queues[0] = None;
    b.worker.turn(2);
    b.send(1, 20, 1);
    let turn = b.worker.turn(3);
    assert_eq!(turn.received, 1, "it receives in order again");
}
