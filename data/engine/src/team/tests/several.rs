//! Several workers: nodes at one place, packets that cross, and their arrival in the end.

use super::*;

/// `Source`, then stages that may be at home on a worker (255: on none), then `Sink`.
fn chain(stages: &[(u8, bool)]) -> Graph {
    let shape: Vec<(u8, bool)> = (0..).zip(stages).map(|(i, (_, spawns))| (i, *spawns)).collect();
    let mut graph = path(&shape);
    for (i, (home, _)) in stages.iter().enumerate().filter(|(_, (home, _))| *home < 255) {
        let id = graph.find(&format!("s{i}")).expect("a stage");
        graph.node_mut(id).attrs.push(Attr::parse(&format!("worker={home}")));
    }
    graph
}

/// EntryNumbers that are one flow's are of the same thousand million.
const FLOW: u64 = 1_000_000_000;

fn in_order(numbers: &[u64]) -> bool {
    let flow = |f: u64| numbers.iter().filter(move |n| **n / FLOW == f);
    (0..8).all(|f| flow(f).is_sorted())
}

fn receive_all(b: &mut Bench, back: &mut Vec<u64>) {
    for peer in &mut b.peers {
        receive(&mut **peer, &mut b.cache, back);
    }
}

fn arrives(graph: Graph, workers: usize, sizes: &[usize]) -> Vec<u64> {
    // Rings take an eighth of it: room for all that is sent at once.
    let mut b = bench_in(pool(16_384), graph, workers);
    let mut back = Vec::new();
    for (turn, n) in sizes.iter().enumerate() {
        let flow = turn % 4;
        let first = flow as u64 * FLOW + turn as u64 * 1000;
        send(&mut *b.peers[flow % workers], &mut b.cache, first, *n);
        b.team.workers[turn % workers].turn(turn as u64);
        receive_all(&mut b, &mut back);
    }
    for turn in 0..60 {
        b.team.workers.iter_mut().for_each(|worker| drop(worker.turn(1000 + turn)));
        receive_all(&mut b, &mut back);
    }
    drop((b.team, b.peers, b.cache));
    assert_eq!(b.pool.available(), b.pool.frames());
    back
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn many_workers_deliver_what_one_does(
        workers in 2usize..5,
        homes in prop::collection::vec((0u8..6, any::<bool>()), 0..5),
        sizes in prop::collection::vec(0usize..30, 1..12),
    ) {
        let stages: Vec<(u8, bool)> =
            homes.iter().map(|(home, spawns)| (if *home < 4 { home % workers as u8 } else { 255 }, *spawns)).collect();
        let untagged: Vec<(u8, bool)> = stages.iter().map(|(_, spawns)| (255, *spawns)).collect();
        let many = arrives(chain(&stages), workers, &sizes);
        prop_assert!(in_order(&many), "{many:?}");
        let (mut many, mut one) = (many, arrives(chain(&untagged), 1, &sizes));
        many.sort_unstable();
        one.sort_unstable();
        prop_assert_eq!(many, one);
    }
}

#[test]
fn what_is_single_homed_sees_everything_at_the_first_worker() {
    let mut graph = path(&[(0, false)]);
    let id = graph.find("s0").expect("a stage");
    graph.node_mut(id).implementation = Some("Only".into());
    let mut b = bench(graph, 3);
    for (i, peer) in b.peers.iter_mut().enumerate() {
        send(&mut **peer, &mut b.cache, i as u64 * FLOW, 10);
    }
    for turn in 0..4 {
        b.team.workers.iter_mut().rev().for_each(|worker| drop(worker.turn(turn)));
    }
    let mut at = |worker: usize, node: &str| {
        let engine = b.team.workers[worker].engine();
        engine.counters().get(node, CounterKind::Packets, "").expect("a node")
    };
    assert_eq!((at(0, "s0"), at(1, "s0"), at(2, "s0")), (30, 0, 0));
    assert_eq!((at(1, "ToQueue_s0"), at(0, "FromQueue_s0")), (10, 30), "the picture shows the cut");
    assert!(b.team.publisher.executed(0).expect("a worker").find("ToQueue_s0").is_some());
    assert!(b.team.publisher.graph().find("ToQueue_s0").is_none());
    let stats = [0, 1, 2].map(|i| b.team.workers[i].stats());
    assert_eq!(
        (stats[0].taken_over(), stats[1].handed_over(), stats[0].ring_depth(1)),
        (20, 10, 0)
    );
}

#[test]
fn a_notify_reaches_those_that_wait_elsewhere() {
    let mut graph = path(&[]);
    let sink = graph.find(SINK).expect("the sink");
    let mut gate = pass("Gate");
    gate.ports[0].targets.push(sink);
    let gate = graph.add(gate);
    let source = graph.find(SOURCE).expect("the source");
    graph.node_mut(source).ports[0].targets = vec![gate];
    let mut bell = pass("Bell");
    bell.attrs.push(Attr::Source);
    bell.ports[0].targets.push(sink);
    bell.notifies.push(Edge { label: "open".into(), target: gate, predicates: Vec::new() });
    graph.add(bell);
    for name in ["Gate", "Bell"] {
        let id = graph.find(name).expect("added");
        graph.node_mut(id).implementation = Some(name.into());
    }
    let Bench { pool, .. } = bench(path(&[]), 1);
    let (mut left, mut right) =
        pair(&MemoryConfig { queues: 2, ..MemoryConfig::default() }).expect("fds");
    let sources = [SOURCE, "Bell"];
    let member = |(i, queue): (usize, _)| Member {
        name: format!("worker-{i}"),
        pool: pool.cache(),
        limits: Limits::default(),
        queues: vec![MemberQueue { link: 0, source: sources[i].into(), queue }],
    };
    let members = left.take_queues().into_iter().enumerate().map(member).collect();
    let mut team = Team::build(graph, registry(), Arc::new(Env::new()), members).expect("sound");
    let (mut peers, mut cache) = (right.take_queues(), pool.cache());
    send(&mut *peers[0], &mut cache, 1, 3);
    team.workers[0].turn(1);
    let blocked = |team: &mut Team| team.workers[0].engine().counters().total("blocked_now");
    assert_eq!(blocked(&mut team), 3);
    send(&mut *peers[1], &mut cache, 9, 1);
    team.workers[1].turn(2);
    team.workers[0].turn(3);
    assert_eq!(blocked(&mut team), 0);
    let mut back = Vec::new();
    receive(&mut *peers[0], &mut cache, &mut back);
    assert_eq!(back, [1, 2, 3]);
}

#[test]
fn packets_for_a_link_that_another_serves_leave_there() {
    let pool = pool(1024);
    let (mut left, mut right) = pair(&MemoryConfig::default()).expect("descriptors");
    let (mut other, mut far) = pair(&MemoryConfig::default()).expect("descriptors");
    let queues = [(0, left.take_queues().remove(0)), (1, other.take_queues().remove(0))];
    let member = |(link, queue)| Member {
        name: format!("worker-{link}"),
        pool: pool.cache(),
        limits: Limits { links: 2, ..Limits::default() },
        queues: vec![MemberQueue { link, source: SOURCE.into(), queue }],
    };
    let members = queues.into_iter().map(member).collect();
    let mut team =
        Team::build(path(&[]), registry(), Arc::new(Env::new()), members).expect("sound");
    let (mut near, mut far, mut cache) =
        (right.take_queues().remove(0), far.take_queues().remove(0), pool.cache());
    send(&mut *far, &mut cache, 5, 70);
    for turn in 0..2 {
        team.workers[1].turn(turn);
        team.workers[0].turn(turn);
    }
    let mut back = Vec::new();
    receive(&mut *near, &mut cache, &mut back);
    assert_eq!(back, (5..75).collect::<Vec<u64>>(), "allocated there, sent and freed here");
    drop((team, near, far, cache));
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn a_full_ring_is_a_counted_drop_at_the_edge() {
    let mut b = bench(chain(&[(0, false)]), 2);
    let mut sent = 0;
    for turn in 0..10 {
        sent += send(&mut *b.peers[1], &mut b.cache, 0, 32) as u64;
        b.team.workers[1].turn(turn);
    }
    let counters = b.team.workers[1].engine().counters();
    let full = counters.get("ToQueue_s0", CounterKind::RingFull, "queue").expect("a crossing edge");
    let ring = 2048 / 8 / 2;
    assert_eq!((sent, full), (320, 320 - ring));
    b.team.workers[0].turn(20);
    let mut back = Vec::new();
    receive_all(&mut b, &mut back);
    assert_eq!(back.len() as u64, ring);
    drop((b.team, b.peers, b.cache));
    assert_eq!(b.pool.available(), b.pool.frames());
}

fn refused(graph: Graph) -> String {
    let pool = pool(64);
    let member = |i| Member {
        name: format!("worker-{i}"),
        pool: pool.cache(),
        limits: Limits::default(),
        queues: Vec::new(),
    };
    let members = (0..2).map(member).collect();
    Team::build(graph, registry(), Arc::new(Env::new()), members)
        .expect_err("cannot be")
        .to_string()
}

#[test]
fn a_cut_that_needs_the_packet_on_both_sides_is_refused() {
    let text = refused(chain(&[(2, false)]));
    assert_eq!(text, "node s0: worker=2: there is no such worker; use 0 to 1");
    // Beside the stage runs another node for the same packet.
    let mut graph = chain(&[(1, false)]);
    let beside = graph.add(pass("Beside"));
    let source = graph.find(SOURCE).expect("the source");
    graph.node_mut(source).ports[0].targets.push(beside);
    let text = refused(graph);
    assert!(text.starts_with("node s0 cannot run on a worker of its own"), "{text}");
    assert!(text.contains("`Beside`"), "{text}");
}

#[test]
fn a_home_does_not_move_and_its_queue_comes_and_goes() {
    let mut b = bench(chain(&[(1, false)]), 2);
    let error = b.team.publisher.replace(chain(&[(0, false)])).expect_err("it moves");
    assert!(
        matches!(&error, TeamError::HomeMoved { node, from, to }
        if node == "s0" && from == "1" && to == "0"),
        "{error}"
    );
    send(&mut *b.peers[0], &mut b.cache, 0, 40);
    b.team.workers[0].turn(1);
    // The tasks are in the ring, and their node goes before they arrive.
    let changes = ChangeSet::new().remove("s0", Waiting::To(SINK.into())).bind(out(SOURCE, SINK));
    b.team.publisher.change(&changes).expect("sound");
    assert!(b.team.publisher.executed(0).expect("a worker").find("FromQueue_s0").is_none());
    b.team.workers[1].turn(2);
    let mut back = Vec::new();
    receive_all(&mut b, &mut back);
    assert_eq!(back, (0..40).collect::<Vec<u64>>());
    let publisher = b.team.publisher.clone();
    publisher.replace(chain(&[(1, false)])).expect("sound");
    send(&mut *b.peers[0], &mut b.cache, 50, 3);
    b.team.workers[0].turn(3);
    publisher.replace(path(&[])).expect("sound");
    b.team.workers[1].turn(4);
    let counters = b.team.workers[1].engine().counters();
    assert_eq!(counters.get(REMOVED, CounterKind::Drop, NODE_WAS_REMOVED), Some(3));
}

#[test]
fn workers_that_hand_over_change_under_traffic() {
    let shapes: [&[(u8, bool)]; 3] = [
        &[(255, true), (0, false), (1, false)],
        &[(255, false), (0, false), (1, true)],
        &[(255, true), (0, true)],
    ];
    let Bench { team, mut peers, pool, mut cache } = bench(chain(shapes[0]), 2);
    let Team { mut workers, publisher } = team;
    let done = AtomicBool::new(false);
    let (mut sent, mut back) = ([0u64; 2], Vec::new());
    running(&mut workers, Mode::Adaptive { spin: 1000 }, || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..500 {
                    let (old, new) = (Graph::clone(&publisher.graph()), chain(shapes[(i + 1) % 3]));
                    let mut changes = diff(&old, &new);
                    for change in &mut changes.changes {
                        if let Change::Remove { waiting, .. } = change {
                            *waiting = Waiting::To(SINK.into());
                        }
                    }
                    publisher.change(&changes).expect("every one is adopted");
                }
                done.store(true, Ordering::Relaxed);
            });
            let deadline = Instant::now() + Duration::from_secs(100);
            while !(done.load(Ordering::Relaxed) && back.len() as u64 == sent[0] + sent[1]) {
                let flying = sent[0] + sent[1] - back.len() as u64;
                if !done.load(Ordering::Relaxed) && flying < 60 {
                    for (flow, peer) in peers.iter_mut().enumerate() {
                        let first = flow as u64 * FLOW + sent[flow];
                        sent[flow] += send(&mut **peer, &mut cache, first, 8) as u64;
                    }
                }
                peers.iter_mut().for_each(|peer| receive(&mut **peer, &mut cache, &mut back));
                assert!(Instant::now() < deadline, "{} of {sent:?} came back", back.len());
            }
        });
    });
    let mut sorted = back.clone();
    sorted.sort_unstable();
    let expected = (0..2).flat_map(|flow| (0..sent[flow]).map(move |n| flow as u64 * FLOW + n));
    assert!(sorted.iter().copied().eq(expected), "each once");
    assert!(sent[0] > 0 && workers[0].stats().handed_over() > 0);
    drop((workers, publisher, peers, cache));
    assert_eq!(pool.available(), pool.frames());
}
