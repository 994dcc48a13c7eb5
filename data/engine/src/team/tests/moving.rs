//! Moves of many flows, moves that are never finished, and blocks that panic in calls about flows.

use super::sequence::{ASKED, FLOW, PANICS_AT, Question, counts, fit, key, team, with_entrance};
use super::*;
use crate::{BLOCK_PANICKED, BLOCK_QUARANTINED};

/// A team whose workers have no threads, and whose clock counts turns.
struct Turns {
    bench: Bench,
    now: u64,
    back: Vec<u64>,
}

impl Turns {
    fn new(frames: u32, workers: usize) -> Turns {
        Turns { bench: team(frames, workers), now: 0, back: Vec::new() }
    }

    /// A turn of each worker.
    fn turn(&mut self) {
        self.now += 1;
        let b = &mut self.bench;
        b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(self.now)));
        for peer in &mut b.peers {
            receive(&mut **peer, &mut b.cache, &mut self.back);
        }
    }

    /// Packets of a flow, from one position on, arrive at a worker.
    fn send(&mut self, worker: usize, flow: u64, from: u64, packets: usize) {
        let b = &mut self.bench;
        let sent = send(&mut *b.peers[worker], &mut b.cache, flow * FLOW + from, packets);
        assert_eq!(sent, packets, "the ring has room");
    }

    fn owner(&self, flow: u64) -> Option<u16> {
        let owners = self.bench.team.publisher.flow_owners("Seq").expect("it has flows");
        owners.owner(key(flow)).map(|owner| owner.worker)
    }

    fn drops(&mut self, reason: &str) -> u64 {
        let of = |w: &mut Worker| w.engine().counters().get("Seq", CounterKind::Drop, reason);
        self.bench.team.workers.iter_mut().filter_map(of).sum()
    }

    fn counts(&mut self) -> [u64; 4] {
        counts(&mut self.bench.team.workers)
    }

    /// Ends the team: every frame must have come home.
    fn end(self) {
        let Bench { team, peers, pool, cache } = self.bench;
        drop((team, peers, cache));
        assert_eq!(pool.available(), pool.frames());
    }
}

/// Flows 1 and 2 are at worker 0, flow 3 at worker 1. Flow 1 moves to worker 1, all flows are listed, and the block that
/// is asked `question` panics.
fn ask(question: Question) -> Turns {
    let mut t = Turns::new(4096, 2);
    t.send(0, 1, 0, 10);
    t.send(0, 2, 0, 10);
    t.send(1, 3, 0, 10);
    t.turn();
    PANICS_AT.set(Some(question));
    let publisher = t.bench.team.publisher.clone();
    let list = publisher.list_flows("Seq").expect("it has flows");
    let moves = publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
    // These run before the block is asked, and those below after it.
    t.send(0, 1, 10, 5);
    t.turn();
    moves.redirected();
    t.send(1, 1, 15, 5);
    (0..8).for_each(|_| t.turn());
    assert_eq!(PANICS_AT.take(), None, "it was asked");
    assert_eq!(moves.progress().open, 0, "the move ends: {:?}", moves.progress());
    assert!(list.is_complete(), "the list comes to an end");
    let listed = list.wait(Duration::ZERO).flows;
    let workers: Vec<u16> = listed.iter().map(|(worker, _)| *worker).collect();
    let expected: &[u16] = if question == Question::List { &[1] } else { &[0, 0, 1] };
    assert_eq!(workers, expected, "flows of a block that panics have ended: {listed:?}");
    t
}

/// The block of a worker panics at a question: the packets that come later find no state of their flow.
fn panics(question: Question, worker: usize) {
    let mut t = ask(question);
    let unknown = 5;
    let faults = t.bench.team.workers[worker].engine().counters().faults();
    let [fault] = faults.as_slice() else { panic!("{question:?}: {faults:?}") };
    assert_eq!((&*fault.node, fault.panics, fault.quarantined), ("Seq", 1, false));
    assert_eq!(fault.message, format!("no answer to {question:?}"));
    assert_eq!(t.counts(), [40 - unknown, 0, unknown, 0], "{question:?}: no packet is lost");
    assert_eq!(t.drops(BLOCK_PANICKED), 0);
    // Its flows have ended; the other worker's goes on.
    let (here, elsewhere) = if worker == 0 { (2, 3) } else { (3, 2) };
    assert_eq!((t.owner(here), t.owner(elsewhere)), (None, Some(1 - worker as u16)));
    // A fresh block is there for new ones, and they move.
    t.send(worker, 4, 0, 10);
    t.send(1 - worker, elsewhere, 10, 10);
    t.turn();
    let to = 1 - worker as u16;
    let publisher = t.bench.team.publisher.clone();
    let moves = publisher.begin_moves("Seq", &[(key(4), to)]).expect("it has flows");
    moves.redirected();
    t.send(1 - worker, 4, 10, 10);
    (0..4).for_each(|_| t.turn());
    assert_eq!((moves.progress().moved, t.owner(4)), (1, Some(to)));
    t.send(1 - worker, 4, 20, 10);
    t.turn();
    assert_eq!(t.counts(), [80 - unknown, 0, unknown, 0], "{question:?}");
    t.end();
}

#[test]
fn a_block_that_panics_when_asked_whether_a_flow_may_leave_is_replaced() {
    panics(Question::MayLeave, 0);
}

#[test]
fn a_block_that_panics_when_asked_for_a_flow_is_replaced() {
    panics(Question::Export, 0);
}

#[test]
fn a_block_that_panics_when_given_a_flow_is_replaced() {
    panics(Question::Import, 1);
}

#[test]
fn a_block_that_panics_when_asked_for_a_list_is_replaced() {
    panics(Question::List, 0);
}

#[test]
fn panics_at_questions_count_towards_quarantine() {
    let mut t = Turns::new(4096, 2);
    for round in 0..3 {
        t.send(0, round, 0, 10);
        t.turn();
        PANICS_AT.set(Some(Question::Export));
        let publisher = t.bench.team.publisher.clone();
        let moved = publisher.begin_moves("Seq", &[(key(round), 1)]).expect("it has flows");
        moved.redirected();
        (0..4).for_each(|_| t.turn());
        assert_eq!((moved.progress().gone, moved.progress().open), (1, 0));
    }
    let fault = t.bench.team.workers[0].engine().counters().faults().remove(0);
    assert_eq!((fault.panics, fault.quarantined), (3, true));
    t.send(0, 7, 0, 10);
    t.send(1, 8, 0, 10);
    t.turn();
    assert_eq!((t.drops(BLOCK_QUARANTINED), t.counts()), (10, [40, 0, 0, 0]));
    t.end();
}

/// The most flows that a worker may handle in one turn.
const A_TURN: usize = 256;

/// Packets arrive in every turn while all flows of a worker move. Order and number of each flow's are noticed
/// by the block.
#[test]
fn many_flows_move_a_bounded_number_in_each_turn() {
    const FLOWS: u64 = 50_000;
    let mut t = Turns::new(16_384, 2);
    let mut sent = vec![0; FLOWS as usize];
    let (mut all, mut random) = (0, 1u64);
    let mut arrive = |t: &mut Turns, worker, flow: u64| {
        t.send(worker, flow, sent[flow as usize], 1);
        sent[flow as usize] += 1;
        all += 1;
    };
    for flow in 0..FLOWS {
        arrive(&mut t, 0, flow);
        if flow % 128 == 127 {
            t.turn();
        }
    }
    t.turn();
    let mut traffic = |t: &mut Turns, worker| {
        for _ in 0..32 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            arrive(t, worker, (random >> 33) % FLOWS);
        }
        ASKED.set([0; 2]);
        t.turn();
        let asked = ASKED.get();
        assert!(asked[0] + asked[1] <= A_TURN, "{asked:?} in one turn");
        asked
    };
    let moves: Vec<_> = (0..FLOWS).map(|flow| (key(flow), 1)).collect();
    let moves = t.bench.team.publisher.begin_moves("Seq", &moves).expect("it has flows");
    let (mut turns, mut asked) = ([0; 2], [0; 2]);
    while !moves.wait_begun(Duration::ZERO) {
        let [may_leave, exported] = traffic(&mut t, 0);
        assert_eq!(exported, 0, "nobody has redirected their packets");
        (turns[0], asked[0]) = (turns[0] + 1, asked[0] + may_leave);
    }
    moves.redirected();
    while moves.progress().open > 0 {
        let [may_leave, exported] = traffic(&mut t, 1);
        assert!(may_leave == 0 && turns[1] < 1000, "{:?}", moves.progress());
        (turns[1], asked[1]) = (turns[1] + 1, asked[1] + exported);
    }
    assert_eq!(asked, [FLOWS as usize; 2]);
    assert!(turns.iter().all(|turns| *turns >= FLOWS as usize / A_TURN), "{turns:?}");
    assert_eq!(moves.progress().moved as u64, FLOWS);
    (0..4).for_each(|_| t.turn());
    assert_eq!(t.counts(), [all, 0, 0, 0]);
    let owners = t.bench.team.publisher.flow_owners("Seq").expect("it has flows");
    assert_eq!(owners.of_worker(1).len() as u64, FLOWS);
    t.end();
}

/// The thread that gives an order may hang before it redirects packets: no worker spins meanwhile.
#[test]
fn workers_sleep_while_an_order_waits_to_be_redirected() {
    let mut b = team(4096, 3);
    let publisher = b.team.publisher.clone();
    send(&mut *b.peers[0], &mut b.cache, FLOW, 10);
    b.team.workers[0].turn(1);
    let stats: Vec<_> = b.team.workers.iter().map(Worker::stats).collect();
    let wakers: Vec<_> = b.team.workers.iter().map(Worker::waker).collect();
    running(&mut b.team.workers, Mode::Interrupt, || {
        let moves = publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
        let patience = Duration::from_secs(60);
        assert!(moves.wait_begun(patience));
        let until = Instant::now() + patience;
        // Some sleeps may have begun before the worker heard of the order.
        for _ in 0..20 {
            for (worker, (stats, waker)) in stats.iter().zip(&wakers).enumerate() {
                let before = stats.sleeps();
                while stats.sleeps() == before {
                    assert!(Instant::now() < until, "worker {worker} spins");
                    waker.wake();
                    std::thread::yield_now();
                }
            }
        }
        moves.redirected();
        let moved = moves.wait(patience);
        assert_eq!((moved.moved, moved.open), (1, 0));
    });
    assert_eq!(counts(&mut b.team.workers), [10, 0, 0, 0]);
}

/// The flows of a worker that is about to lose their node leave in parts, too.
#[test]
fn many_flows_of_a_worker_that_loses_the_node_leave_a_bounded_number_in_each_turn() {
    const FLOWS: u64 = 2000;
    let mut t = Turns::new(4096, 2);
    let publisher = Arc::into_inner(t.bench.team.publisher).expect("nobody else has it");
    t.bench.team.publisher = Arc::new(publisher.patient(Duration::from_secs(60)));
    t.bench.team.publisher.replace(with_entrance(true)).expect("sound");
    for flow in 0..FLOWS {
        t.send(1, flow, 0, 1);
        if flow % 128 == 127 {
            t.turn();
        }
    }
    (0..2).for_each(|_| t.turn());
    ASKED.set([0; 2]);
    let mut exported = Vec::new();
    let each = || {
        exported.push(ASKED.get()[1]);
        ASKED.set([0; 2]);
    };
    let part: Arc<crate::Fit> = Arc::new(|_, _| Some(with_entrance(false)));
    fit(&mut t.bench.team, part, &mut t.now, each);
    assert!(exported.iter().all(|exported| *exported <= A_TURN), "{exported:?}");
    let owners = t.bench.team.publisher.flow_owners("Seq").expect("it has flows");
    assert_eq!((owners.of_worker(0).len() as u64, owners.has_moves()), (FLOWS, false));
    t.end();
}
