//! Flows with state move between workers: nothing is lost, reordered, or seen by a worker without the
//! state.

use weever_graph::Verified;

use super::sequence::{FLOW, PINNED, counts, fit, key, team, with_entrance};
use super::*;
use crate::moves::ListedFlows;

/// The events in between.
#[derive(Clone, Debug)]
enum Act {
    /// So many packets of a flow arrive.
    Send { flow: u64, packets: usize },
    /// A flow moves, with or without a redirection of its packets.
    Move { flow: u64, to: u16, redirect: bool },
    /// A worker gives up its flows.
    GiveUp { worker: u16 },
    /// From now on these workers run a part of the graph without the node of the flows, a bit each.
    Fit(u8),
    /// These workers have a turn, a bit each.
    Turns(u8),
}

const WORKERS: usize = 3;
const FLOWS: u64 = 5;

/// Packets that certainly fit a ring between workers, with messages about moves.
const RING: usize = 800;

fn act() -> impl Strategy<Value = Act> {
    let to = 0..WORKERS as u16;
    prop_oneof![
        4 => (0..FLOWS, 1usize..100).prop_map(|(flow, packets)| Act::Send { flow, packets }),
        3 => (0..FLOWS, to.clone(), any::<bool>())
            .prop_map(|(flow, to, redirect)| Act::Move { flow, to, redirect }),
        1 => to.prop_map(|worker| Act::GiveUp { worker }),
        1 => any::<u8>().prop_map(Act::Fit),
        4 => any::<u8>().prop_map(Act::Turns),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// With any moves, and any packets under way meanwhile.
    #[test]
    fn a_flow_goes_on_wherever_it_is_moved(acts in prop::collection::vec(act(), 1..60)) {
        let mut b = team(16_384, WORKERS);
        b.team.publisher.set_patience(Duration::from_secs(60));
        b.team.publisher.replace(with_entrance(true)).expect("sound");
        let (mut sent, mut back) = ([0; FLOWS as usize], Vec::new());
        let mut arrives_at: Vec<usize> = (0..FLOWS as usize).map(|flow| flow % WORKERS).collect();
        let mut now = 1;
        let (mut moves, mut lacking, mut since) = (Vec::new(), 0u8, 0);
        // Every flow begins where it arrives.
        for (at, flow) in arrives_at.iter().zip(0..) {
            sent[flow as usize] += send(&mut *b.peers[*at], &mut b.cache, flow * FLOW, 1) as u64;
        }
        b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
        for act in acts {
            match act {
                Act::Send { flow, packets } => {
                    // A worker that has no turn is not to have a full ring, where packets would end.
                    since += packets;
                    if since > RING {
                        since = packets;
                        for _ in 0..8 {
                            now += 1;
                            b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
                        }
                    }
                    let at = flow as usize;
                    let first = flow * FLOW + sent[at];
                    let peer = &mut *b.peers[arrives_at[at]];
                    sent[at] += send(peer, &mut b.cache, first, packets) as u64;
                }
                Act::Move { flow, to, redirect } => {
                    // Packets for a worker without the node pass through worker 0, which is to own their
                    // flow then: answers of the former do not follow them any further.
                    let owners = b.team.publisher.flow_owners("Seq").unwrap();
                    let owner = owners.owner(key(flow)).map(|owner| owner.worker);
                    let passes = lacking >> arrives_at[flow as usize] & 1 == 1 && owner != Some(0);
                    let begun = b.team.publisher.begin_moves("Seq", &[(key(flow), to)]).unwrap();
                    let owned = begun.progress().open > 0;
                    if redirect && owned && !passes {
                        // The old owner has to notice first: without threads, it has a turn.
                        now += 1;
                        for worker in &mut b.team.workers {
                            worker.turn(now);
                        }
                        // A flow whose state is on its way moves later, and one that is there stays.
                        if begun.wait_begun(Duration::ZERO) && begun.progress().gone == 0 {
                            arrives_at[flow as usize] = usize::from(to);
                        }
                    }
                    begun.redirected();
                    moves.push(begun);
                }
                Act::GiveUp { worker } => {
                    let next = (worker + 1) % WORKERS as u16;
                    let to = |_: &str| Some(next);
                    b.team.publisher.give_up_flows(worker, to, Duration::ZERO).unwrap();
                }
                Act::Fit(workers) => {
                    let lacks = move |worker: u16| workers >> worker & 1 == 1;
                    lacking = workers;
                    let part: Arc<crate::Fit> =
                        Arc::new(move |_, worker| lacks(worker).then(|| with_entrance(false)));
                    fit(&mut b.team, part, &mut now, || ());
                }
                Act::Turns(workers) => {
                    for worker in (0..WORKERS).filter(|worker| workers >> worker & 1 == 1) {
                        if lacking >> worker & 1 == 1 {
                            // Makes room in the ring, where strangers would end.
                            now += 1;
                            b.team.workers[0].turn(now);
                        }
                        now += 1;
                        b.team.workers[worker].turn(now);
                    }
                }
            }
            for peer in &mut b.peers {
                receive(&mut **peer, &mut b.cache, &mut back);
            }
        }
        for _ in 0..60 {
            now += 1;
            b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
            for peer in &mut b.peers {
                receive(&mut **peer, &mut b.cache, &mut back);
            }
        }
        let all: u64 = sent.iter().sum();
        prop_assert_eq!(counts(&mut b.team.workers), [all, 0, 0, 0]);
        prop_assert_eq!(back.len() as u64, all);
        for (i, moves) in moves.iter().enumerate() {
            prop_assert_eq!(moves.progress().open, 0, "move {} of {:?}", i, moves);
        }
        drop((b.team, b.peers, b.cache));
        prop_assert_eq!(b.pool.available(), b.pool.frames());
    }
}

/// Each worker lists a few in each turn, and one that has none says so.
#[test]
fn flows_are_listed_with_the_workers_that_have_their_state() {
    let mut b = team(4096, 3);
    for flow in 0..FLOWS {
        let at = usize::from(flow == 4);
        send(&mut *b.peers[at], &mut b.cache, flow * FLOW, 1);
    }
    let turns = |b: &mut Bench, n: u64| {
        let worker = |now| move |worker: &mut Worker| drop(worker.turn(now));
        (1..=n).for_each(|now| b.team.workers.iter_mut().for_each(worker(now)));
    };
    turns(&mut b, 2);
    let list = |b: &Bench| b.team.publisher.list_flows("Seq").expect("it has flows");
    let (early, late) = (list(&b), list(&b));
    turns(&mut b, 1);
    assert!(!early.is_complete(), "worker 0 has four, and lists two in a turn");
    let early = early.wait(Duration::ZERO);
    let of_one: Vec<_> = early.flows.iter().map(|(w, flow)| (*w, flow.remote.port())).collect();
    assert_eq!((of_one, early.late), (vec![(1, 4)], 1), "a late worker voids no other's list");
    turns(&mut b, 2);
    assert!(late.is_complete());
    let ListedFlows { mut flows, late, .. } = late.wait(Duration::ZERO);
    assert_eq!(late, 0);
    flows.sort_by_key(|(_, flow)| flow.remote);
    let told: Vec<_> = flows.iter().map(|(worker, flow)| (*worker, flow.remote.port())).collect();
    assert_eq!(told, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 4)]);
    assert!(flows.iter().all(|(_, flow)| flow.key == key(flow.remote.port().into())));
    assert!(b.team.publisher.list_flows("Source").is_err());
}

/// Two workers, and packets of flow 0 that arrive at either.
struct Arrivals {
    bench: Bench,
    sent: u64,
    back: Vec<u64>,
    now: u64,
}

impl Arrivals {
    fn new() -> Arrivals {
        Arrivals { bench: team(4096, 2), sent: 0, back: Vec::new(), now: 0 }
    }

    /// Bursts of the flow arrive at the queues in turns.
    fn arrive(&mut self, queues: &[usize], bursts: usize) {
        let b = &mut self.bench;
        for queue in queues.iter().cycle().take(bursts) {
            self.sent += send(&mut *b.peers[*queue], &mut b.cache, self.sent, 32) as u64;
            for _ in 0..4 {
                self.now += 1;
                b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(self.now)));
                for peer in &mut b.peers {
                    receive(&mut **peer, &mut b.cache, &mut self.back);
                }
            }
        }
    }

    fn owner(&self) -> Option<u16> {
        let owners = self.bench.team.publisher.flow_owners("Seq").expect("it has flows");
        owners.owner(key(0)).map(|owner| owner.worker)
    }

    fn expect_order(&mut self) {
        assert_eq!(counts(&mut self.bench.team.workers), [self.sent, 0, 0, 0]);
    }
}

/// Packets of a flow arrive at another worker, and nobody has ordered a move.
#[test]
fn a_flow_follows_its_packets() {
    let mut arrivals = Arrivals::new();
    arrivals.arrive(&[0], 1);
    assert_eq!(arrivals.owner(), Some(0));
    arrivals.arrive(&[1], 2);
    assert_eq!(arrivals.owner(), Some(0), "a few packets are handed over");
    arrivals.arrive(&[1], 20);
    assert_eq!(arrivals.owner(), Some(1));
    arrivals.expect_order();
    arrivals.arrive(&[0], 24);
    assert_eq!(arrivals.owner(), Some(0), "and back again");
    arrivals.expect_order();
}

/// As behind a queue that two workers share.
#[test]
fn a_flow_whose_packets_arrive_at_both_workers_stays() {
    let mut arrivals = Arrivals::new();
    arrivals.arrive(&[0], 1);
    for _ in 0..50 {
        arrivals.arrive(&[1, 0], 2);
        assert_eq!(arrivals.owner(), Some(0));
    }
    arrivals.expect_order();
}

/// The block says so; its packets are handed over as long as the flow lasts.
#[test]
fn a_flow_that_cannot_leave_its_worker_stays() {
    let mut arrivals = Arrivals::new();
    PINNED.set(true);
    arrivals.arrive(&[0], 1);
    arrivals.arrive(&[1], 40);
    let moved = arrivals.bench.team.publisher.begin_moves("Seq", &[(key(0), 1)]).expect("sound");
    arrivals.arrive(&[1], 1);
    PINNED.set(false);
    assert_eq!((moved.progress().stays, moved.progress().open), (1, 0));
    assert_eq!(arrivals.owner(), Some(0));
    arrivals.expect_order();
}

/// A thousand moves at full rate, on threads.
#[test]
fn a_thousand_moves_under_load_lose_and_reorder_nothing() {
    const MOVES: usize = 1000;
    let workers = 2;
    let mut b = team(16_384, workers);
    let stop = AtomicBool::new(false);
    let publisher = b.team.publisher.clone();
    let mut running: Vec<Worker> = b.team.workers.drain(..).collect();
    let wakers: Vec<_> = running.iter().map(Worker::waker).collect();
    let arrives_at: Vec<_> =
        (0..FLOWS).map(|flow| std::sync::Mutex::new((flow % 2) as usize)).collect();
    let (mut sent, mut back, mut moved) = ([0; FLOWS as usize], Vec::new(), 0);
    let patience = Duration::from_secs(60);
    let counters: Vec<_> = running.iter_mut().map(|w| w.engine().counters()).collect();
    // Answers that the test is too slow to take are dropped behind the node, and do not matter here.
    let arrived =
        || -> u64 { counters.iter().filter_map(|c| c.get("Seq", CounterKind::Port, "out")).sum() };
    std::thread::scope(|scope| {
        let stop_workers = StopOnDrop(&stop, &wakers);
        for worker in &mut running {
            let stop = &stop;
            let mode = Mode::Adaptive { spin: 50_000 };
            scope.spawn(move || worker.run(stop, mode, |lost| panic!("{lost:?}")));
        }
        // Every flow begins where it arrives.
        let owners = publisher.flow_owners("Seq").expect("it has flows");
        for flow in 0..FLOWS {
            let at = (flow % 2) as usize;
            sent[flow as usize] = send(&mut *b.peers[at], &mut b.cache, flow * FLOW, 1) as u64;
            while owners.owner(key(flow)).is_none() {
                std::thread::yield_now();
            }
        }
        let mover = scope.spawn(|| {
            let mut moved = 0;
            while moved < MOVES {
                let at: Vec<usize> = arrives_at.iter().map(|at| *at.lock().unwrap()).collect();
                let moves = (0..).zip(&at).map(|(flow, at)| (key(flow), (1 - at) as u16));
                let moves: Vec<_> = moves.collect();
                let moves = publisher.begin_moves("Seq", &moves).expect("it has flows");
                assert!(moves.wait_begun(patience));
                let begun = moves.progress();
                assert_eq!((begun.open, begun.gone), (FLOWS as usize, 0));
                for (at, arrives_at) in at.iter().zip(&arrives_at) {
                    *arrives_at.lock().unwrap() = 1 - at;
                }
                moves.redirected();
                let outcome = moves.wait(patience);
                assert_eq!((outcome.open, outcome.refused), (0, 0));
                moved += outcome.moved;
            }
            moved
        });
        let mut flow = 0;
        while !mover.is_finished() {
            flow = (flow + 1) % FLOWS as usize;
            // Held while it is sent to: packets sent before a redirection are in the queue by then.
            let at = arrives_at[flow].lock().unwrap();
            let first = flow as u64 * FLOW + sent[flow];
            sent[flow] += send(&mut *b.peers[*at], &mut b.cache, first, 64) as u64;
            drop(at);
            for peer in &mut b.peers {
                receive(&mut **peer, &mut b.cache, &mut back);
            }
        }
        moved = mover.join().expect("it moves");
        let until = Instant::now() + patience;
        let all: u64 = sent.iter().sum();
        while arrived() < all && Instant::now() < until {
            for peer in &mut b.peers {
                receive(&mut **peer, &mut b.cache, &mut back);
            }
        }
        drop(stop_workers);
    });
    let all: u64 = sent.iter().sum();
    assert!(moved >= MOVES);
    assert_eq!(counts(&mut running), [all, 0, 0, 0], "{moved} moves");
    drop((running, b.team, b.peers, b.cache));
    assert_eq!(b.pool.available(), b.pool.frames());
}

#[test]
fn a_worker_that_loses_the_node_gives_its_flows_to_the_one_that_has_it() {
    let mut b = team(4096, 2);
    b.team.publisher.replace(with_entrance(true)).expect("sound");
    let (mut now, mut back, mut sent) = (0, Vec::new(), 0);
    let mut turns = |b: &mut Bench, n: usize| {
        for _ in 0..n {
            now += 1;
            b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
        }
    };
    let owner = |b: &Bench| {
        let owners = b.team.publisher.flow_owners("Seq").expect("it has flows");
        owners.owner(key(1)).map(|owner| (owner.worker, owner.from))
    };
    sent += send(&mut *b.peers[1], &mut b.cache, FLOW + sent as u64, 10);
    turns(&mut b, 2);
    assert_eq!(owner(&b), Some((1, None)));
    let part: Arc<crate::Fit> = Arc::new(|_, _| Some(with_entrance(false)));
    b.team.publisher.fit(Some(part)).expect("a part without `Seq`");
    sent += send(&mut *b.peers[1], &mut b.cache, FLOW + sent as u64, 10);
    turns(&mut b, 4);
    assert_eq!(owner(&b), Some((0, None)));
    b.team.publisher.fit(None).expect("all of it again");
    sent += send(&mut *b.peers[1], &mut b.cache, FLOW + sent as u64, 10);
    turns(&mut b, 4);
    assert_eq!(counts(&mut b.team.workers), [sent as u64, 0, 0, 0]);
    b.peers.iter_mut().for_each(|peer| receive(&mut **peer, &mut b.cache, &mut back));
    assert_eq!(back.len(), sent);
}

/// On threads, under load: a worker gets the node and loses it again.
#[test]
fn a_change_of_parts_under_load_loses_and_reorders_nothing() {
    const CHANGES: usize = 40;
    /// Fewer packets under way than a ring holds.
    const WINDOW: u64 = 128;
    let Bench { team, mut peers, pool, mut cache } = team(4096, 2);
    let Team { mut workers, publisher } = team;
    publisher.set_patience(Duration::from_secs(60));
    publisher.replace(with_entrance(true)).expect("sound");
    let (mut sent, mut came, mut back) = ([0u64; 2], [0u64; 2], Vec::new());
    running(&mut workers, Mode::default(), || {
        std::thread::scope(|scope| {
            let changes = scope.spawn(|| {
                for nth in 0..CHANGES {
                    let part = move |_: &Verified, _| (nth % 2 == 0).then(|| with_entrance(false));
                    publisher.fit(Some(Arc::new(part))).expect("a part");
                }
            });
            let until = Instant::now() + Duration::from_secs(60);
            while !changes.is_finished() || came != sent {
                // Either flow arrives at a worker of its own.
                for (at, sent) in sent.iter_mut().enumerate() {
                    if !changes.is_finished() && *sent - came[at] < WINDOW {
                        let first = at as u64 * FLOW + *sent;
                        *sent += send(&mut *peers[at], &mut cache, first, 16) as u64;
                    }
                }
                peers.iter_mut().for_each(|peer| receive(&mut **peer, &mut cache, &mut back));
                back.drain(..).for_each(|number| came[(number / FLOW) as usize] += 1);
                assert!(Instant::now() < until, "{came:?} of {sent:?} came back");
            }
        });
    });
    let all: u64 = sent.iter().sum();
    assert_eq!(counts(&mut workers), [all, 0, 0, 0]);
    drop((workers, publisher, peers, cache));
    assert_eq!(pool.available(), pool.frames());
}
