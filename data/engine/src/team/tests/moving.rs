//! Moves of many flows, moves that are never finished, and blocks that panic in calls about flows.

use super::sequence::{
    ASKED, FLOW, PANICS_AT, PINNED, Question, counts, fit, key, team, with_entrance,
};
use super::*;
use crate::FlowMoves;
use crate::moves::Moved;
use crate::{BLOCK_PANICKED, BLOCK_QUARANTINED};

/// A team whose workers have no threads, and whose clock counts turns.
pub(super) struct Turns {
    pub(super) bench: Bench,
    now: u64,
    back: Vec<u64>,
}

impl Turns {
    pub(super) fn new(frames: u32, workers: usize) -> Turns {
        Turns { bench: team(frames, workers), now: 0, back: Vec::new() }
    }

    /// A turn of each worker.
    pub(super) fn turn(&mut self) {
        self.now += 1;
        let b = &mut self.bench;
        b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(self.now)));
        for peer in &mut b.peers {
            receive(&mut **peer, &mut b.cache, &mut self.back);
        }
    }

    /// All workers are woken, and have turns for as long as they would not sleep.
    pub(super) fn until_asleep(&mut self) {
        let workers = &mut self.bench.team.workers;
        let mut awake = vec![true; workers.len()];
        for _ in 0..1000 {
            self.now += 1;
            for (worker, awake) in workers.iter_mut().zip(&mut awake) {
                if *awake || worker.engine().has_messages() {
                    *awake = worker.turn(self.now).moved() || worker.engine().is_moving_flows();
                }
            }
            if !awake.contains(&true) && !workers.iter_mut().any(|w| w.engine().has_messages()) {
                return;
            }
        }
        panic!("a worker spins");
    }

    /// Packets of a flow, from one position on, arrive at a worker.
    pub(super) fn send(&mut self, worker: usize, flow: u64, from: u64, packets: usize) {
        let b = &mut self.bench;
        let sent = send(&mut *b.peers[worker], &mut b.cache, flow * FLOW + from, packets);
        assert_eq!(sent, packets, "the ring has room");
    }

    /// The packet at this position of each flow arrives at the worker that `at` names, with a turn after each 128.
    pub(super) fn send_one_of_each(
        &mut self,
        at: impl Fn(u64) -> usize,
        flows: impl Iterator<Item = u64>,
        position: u64,
    ) {
        for (nth, flow) in (1u64..).zip(flows) {
            self.send(at(flow), flow, position, 1);
            if nth.is_multiple_of(128) {
                self.turn();
            }
        }
    }

    pub(super) fn owner(&self, flow: u64) -> Option<u16> {
        let owners = self.bench.team.publisher.flow_owners("Seq").expect("it has flows");
        owners.owner(key(flow)).map(|owner| owner.worker)
    }

    pub(super) fn drops(&mut self, reason: &str) -> u64 {
        let of = |w: &mut Worker| w.engine().counters().get("Seq", CounterKind::Drop, reason);
        self.bench.team.workers.iter_mut().filter_map(of).sum()
    }

    pub(super) fn counts(&mut self) -> [u64; 4] {
        counts(&mut self.bench.team.workers)
    }

    /// Ends the team: every frame must have come home.
    pub(super) fn end(self) {
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
pub(super) const A_TURN: usize = 256;

/// Packets arrive in every turn while all flows of a worker move. Order and number of each flow's are noticed
/// by the block.
#[test]
fn many_flows_move_a_bounded_number_in_each_turn() {
    const FLOWS: u64 = 50_000;
    let mut t = Turns::new(16_384, 2);
    t.send_one_of_each(|_| 0, 0..FLOWS, 0);
    t.turn();
    let mut sent = vec![1; FLOWS as usize];
    let (mut all, mut random) = (FLOWS, 1u64);
    let mut arrive = |t: &mut Turns, worker, flow: u64| {
        t.send(worker, flow, sent[flow as usize], 1);
        sent[flow as usize] += 1;
        all += 1;
    };
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
    t.bench.team.publisher.set_patience(Duration::from_secs(60));
    t.bench.team.publisher.replace(with_entrance(true)).expect("sound");
    t.send_one_of_each(|_| 1, 0..FLOWS, 0);
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
    assert_eq!((owners.of_worker(0).len() as u64, owners.moving()), (FLOWS, 0));
    t.end();
}

/// Each flow has come with one packet; it moves to that worker.
fn order(t: &Turns, flow: u64, to: u16) -> FlowMoves {
    let moves =
        t.bench.team.publisher.begin_moves("Seq", &[(key(flow), to)]).expect("it has flows");
    moves.redirected();
    moves
}

/// A worker loses the node of the flows and gets it back, and in each turn of these changes a plan orders flows to
/// move: away from that worker, between others, and to the one that gets it.
#[test]
fn moves_that_are_ordered_during_a_change_of_parts_are_carried_out_after_it() {
    const FLOWS: u64 = 2000;
    let mut t = Turns::new(16_384, 3);
    t.bench.team.publisher.set_patience(Duration::from_secs(60));
    t.bench.team.publisher.replace(with_entrance(true)).expect("sound");
    t.send_one_of_each(|flow| flow as usize % 2, 0..FLOWS, 0);
    (0..2).for_each(|_| t.turn());
    for (lacks, to) in [(Some(1), 2), (None, 1)] {
        let publisher = t.bench.team.publisher.clone();
        let (mut moves, mut flows) = (Vec::new(), 0..FLOWS);
        let each = || {
            for flow in flows.by_ref().take(16) {
                let ordered = publisher.begin_moves("Seq", &[(key(flow), to)]);
                let ordered = ordered.expect("it has flows");
                ordered.redirected();
                moves.push(ordered);
            }
        };
        let part: Arc<crate::Fit> =
            Arc::new(move |_, worker| (lacks == Some(worker)).then(|| with_entrance(false)));
        fit(&mut t.bench.team, part, &mut t.now, each);
        (0..40).for_each(|_| t.turn());
        // Before the change begins, worker 1 lacks the node.
        let early = moves.iter().take_while(|ordered| ordered.progress().stays == 1).count();
        assert!(to == 1 || early == 0);
        // Giving a thousand flows away takes several turns; how many a worker's gain of the node takes depends on the
        // thread that makes the change.
        assert!(to == 1 || moves.len() > 64, "several turns");
        for (flow, ordered) in (0..).zip(&moves).skip(early) {
            let moved = ordered.progress();
            assert_eq!((moved.moved, moved.open), (1, 0), "flow {flow} to {to}: {moved:?}");
            assert_eq!(t.owner(flow), Some(to), "flow {flow}");
        }
    }
    (0..FLOWS).for_each(|flow| {
        t.send(2, flow, 1, 1);
        t.turn();
    });
    (0..4).for_each(|_| t.turn());
    assert_eq!(t.counts(), [2 * FLOWS, 0, 0, 0]);
    t.end();
}

/// Orders in a row: each flow ends at the worker that was named last.
#[test]
fn a_flow_that_is_on_its_way_moves_on_from_there() {
    let mut t = Turns::new(4096, 3);
    t.send(0, 1, 0, 10);
    t.turn();
    let first = t.bench.team.publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
    t.turn();
    let second = order(&t, 1, 2);
    (0..4).for_each(|_| t.turn());
    assert_eq!(second.progress().open, 1, "the first one is not redirected");
    assert!(!second.wait_begun(Duration::ZERO));
    first.redirected();
    t.send(1, 1, 10, 10);
    (0..12).for_each(|_| t.turn());
    assert_eq!((first.progress().moved, second.progress().moved), (1, 1));
    assert_eq!((t.owner(1), t.counts()), (Some(2), [20, 0, 0, 0]));
    // There is nothing to do, but the move is no error.
    let third = order(&t, 1, 2);
    t.turn();
    assert_eq!(third.progress(), Moved { gone: 1, ..Moved::default() });
    t.end();
}

/// The thread that gives orders changes its mind before the worker has had a turn.
#[test]
fn a_flow_that_is_ordered_away_and_back_stays() {
    let mut t = Turns::new(4096, 2);
    t.send(0, 1, 0, 10);
    t.turn();
    let (away, back) = (order(&t, 1, 1), order(&t, 1, 0));
    t.send(0, 1, 10, 10);
    (0..12).for_each(|_| t.turn());
    assert_eq!((away.progress().moved, back.progress().moved), (1, 1));
    t.send(0, 1, 20, 10);
    t.turn();
    assert_eq!((t.owner(1), t.counts()), (Some(0), [30, 0, 0, 0]));
    t.end();
}

/// An order has begun in part when a worker loses the node. Its packets are redirected once it has begun as a whole,
/// and the change waits for that.
#[test]
fn an_order_that_has_begun_in_part_goes_on_during_a_change_of_parts() {
    const FLOWS: u64 = 2000;
    let mut t = Turns::new(4096, 3);
    t.bench.team.publisher.set_patience(Duration::from_secs(60));
    t.bench.team.publisher.replace(with_entrance(true)).expect("sound");
    t.send_one_of_each(|_| 0, 0..FLOWS, 0);
    (0..2).for_each(|_| t.turn());
    let publisher = t.bench.team.publisher.clone();
    let all: Vec<_> = (0..FLOWS).map(|flow| (key(flow), 1)).collect();
    let moves = publisher.begin_moves("Seq", &all).expect("it has flows");
    t.turn();
    assert!(!moves.wait_begun(Duration::ZERO), "a turn handles {A_TURN}");
    let mut is_redirected = false;
    let each = || {
        if !is_redirected && moves.wait_begun(Duration::ZERO) {
            moves.redirected();
            is_redirected = true;
        }
    };
    let part: Arc<crate::Fit> = Arc::new(|_, worker| (worker == 2).then(|| with_entrance(false)));
    fit(&mut t.bench.team, part, &mut t.now, each);
    assert_eq!((is_redirected, moves.progress().moved as u64), (true, FLOWS));
    t.end();
}

/// A worker loses the node just when the states of its flows are on their way to another one by an order.
#[test]
fn many_flows_that_are_ordered_away_before_a_change_of_parts_leave_a_bounded_number_in_each_turn() {
    const FLOWS: u64 = 20_000;
    let mut t = Turns::new(16_384, 3);
    t.bench.team.publisher.set_patience(Duration::from_secs(60));
    t.bench.team.publisher.replace(with_entrance(true)).expect("sound");
    t.send_one_of_each(|_| 1, 0..FLOWS, 0);
    (0..2).for_each(|_| t.turn());
    let publisher = t.bench.team.publisher.clone();
    let all: Vec<_> = (0..FLOWS).map(|flow| (key(flow), 2)).collect();
    let moves = publisher.begin_moves("Seq", &all).expect("it has flows");
    while !moves.wait_begun(Duration::ZERO) {
        t.turn();
    }
    moves.redirected();
    ASKED.set([0; 2]);
    let mut exported = Vec::new();
    let each = || {
        exported.push(ASKED.get()[1]);
        ASKED.set([0; 2]);
    };
    let part: Arc<crate::Fit> = Arc::new(|_, worker| (worker == 1).then(|| with_entrance(false)));
    fit(&mut t.bench.team, part, &mut t.now, each);
    assert!(exported.iter().all(|exported| *exported <= A_TURN), "{exported:?}");
    assert_eq!(exported.iter().sum::<usize>() as u64, FLOWS, "before the change is made");
    (0..4).for_each(|_| t.turn());
    assert_eq!(moves.progress().moved as u64, FLOWS);
    t.end();
}

/// The node is removed from the graph while the state of a flow is on its way, and packets wait for it.
#[test]
fn a_flow_whose_node_is_removed_while_its_state_is_on_its_way_ends() {
    let mut t = Turns::new(4096, 2);
    t.send(0, 1, 0, 10);
    t.turn();
    let publisher = t.bench.team.publisher.clone();
    let owners = publisher.flow_owners("Seq").expect("it has flows");
    let moves = publisher.begin_moves("Seq", &[(key(1), 1)]).expect("it has flows");
    t.turn();
    moves.redirected();
    t.send(1, 1, 10, 10);
    // An order that waits for the state, too.
    let onwards = order(&t, 1, 0);
    let turn = |t: &mut Turns, worker: usize| {
        t.now += 1;
        drop(t.bench.team.workers[worker].turn(t.now));
    };
    (0..2).for_each(|_| turn(&mut t, 1));
    ASKED.set([0; 2]);
    (0..4).for_each(|_| turn(&mut t, 0));
    assert_eq!((ASKED.get()[1], moves.progress().open), (1, 1), "the state is in the ring");
    publisher.replace(path(&[])).expect("sound");
    (0..4).for_each(|_| t.turn());
    assert_eq!((moves.progress().gone, onwards.progress().gone), (1, 1));
    assert_eq!((owners.len(), owners.moving()), (0, 0), "nobody has it");
    let removed =
        |w: &mut Worker| w.engine().counters().get(REMOVED, CounterKind::Drop, NODE_WAS_REMOVED);
    let dropped: u64 = t.bench.team.workers.iter_mut().filter_map(removed).sum();
    assert_eq!(dropped, 10, "packets that waited are dropped and counted");
    t.end();
}

/// The packets of many flows have waited for their states, and the outbox behind them is full.
#[test]
fn packets_that_have_waited_for_states_run_a_bounded_number_in_each_turn_beside_a_full_outbox() {
    const FLOWS: u64 = 1000;
    let mut t = Turns::new(16_384, 2);
    t.send_one_of_each(|_| 0, 0..FLOWS, 0);
    t.turn();
    let all: Vec<_> = (0..FLOWS).map(|flow| (key(flow), 1)).collect();
    let moves = t.bench.team.publisher.begin_moves("Seq", &all).expect("it has flows");
    while !moves.wait_begun(Duration::ZERO) {
        t.turn();
    }
    t.send_one_of_each(|_| 1, 0..FLOWS, 1);
    t.turn();
    let ran = t.counts()[0];
    assert_eq!(ran, FLOWS, "the others wait");
    moves.redirected();
    let (mut most, mut before) = (0, ran);
    for _ in 0..100 {
        // Nobody takes what is sent: the link's ring, then the outbox, are full.
        let b = &mut t.bench;
        let outbox = b.team.workers[1].engine().outbox(0);
        let full = Limits::default().outbox.saturating_sub(outbox.len());
        outbox.extend((0..full).filter_map(|_| b.cache.alloc()));
        t.now += 1;
        b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(t.now)));
        let now = t.counts()[0];
        (most, before) = (most.max(now - before), now);
    }
    assert!(most <= 64, "{most} in one turn");
    assert_eq!((t.counts(), moves.progress().moved as u64), ([2 * FLOWS, 0, 0, 0], FLOWS));
    t.end();
}

#[test]
fn a_flow_does_not_move_to_a_worker_that_lacks_the_node() {
    let mut t = Turns::new(4096, 2);
    t.bench.team.publisher.replace(with_entrance(true)).expect("sound");
    t.send(0, 1, 0, 10);
    t.turn();
    let part: Arc<crate::Fit> = Arc::new(|_, _| Some(with_entrance(false)));
    t.bench.team.publisher.fit(Some(part)).expect("a part without `Seq`");
    t.turn();
    let refused = order(&t, 1, 1);
    (0..2).for_each(|_| t.turn());
    assert_eq!((refused.progress().stays, refused.progress().open), (1, 0));
    t.send(0, 1, 10, 10);
    t.turn();
    assert_eq!((t.owner(1), t.counts()), (Some(0), [20, 0, 0, 0]));
    t.end();
}

/// The most packets that a worker runs in one turn, without those that it receives: queued ones, and as many for
/// the sake of moves.
const RUN_IN_A_TURN: u64 = 2 * 256;

/// Two workers hand more packets over than a third can run, which then gives their flows away.
#[test]
fn packets_that_wait_at_a_node_run_a_bounded_number_in_each_turn_of_a_move() {
    let mut t = Turns::new(16_384, 3);
    PINNED.set(true);
    t.send(0, 1, 0, 1);
    t.send(0, 2, 0, 1);
    t.turn();
    let mut sent = 1;
    for _ in 0..8 {
        t.send(1, 1, sent, 256);
        t.send(2, 2, sent, 256);
        sent += 256;
        t.turn();
    }
    let waiting = 2 * sent - t.counts()[0];
    assert!(waiting > 4 * RUN_IN_A_TURN, "{waiting}");
    PINNED.set(false);
    // The other way round: those who have asked for the flows get them first.
    let moves: Vec<_> =
        [(1, 2), (2, 1)].into_iter().map(|(flow, to)| order(&t, flow, to)).collect();
    for turn in 0.. {
        let before = t.counts()[0];
        t.turn();
        let ran = t.counts()[0] - before;
        assert!(ran <= RUN_IN_A_TURN, "{ran} in one turn");
        if moves.iter().all(|moves| moves.progress().open == 0) {
            break;
        }
        assert!(turn < 100, "{moves:?}");
    }
    (0..20).for_each(|_| t.turn());
    assert!(moves.iter().all(|moves| moves.progress().moved == 1), "{moves:?}");
    assert_eq!(t.counts(), [2 * sent, 0, 0, 0]);
    t.end();
}
