//! Datagrams in pieces on two workers: the worker that gets the first piece of a datagram puts it together, whichever
//! receives the others.

use std::sync::Arc;

use weever_block::Env;
use weever_blocks_std::host::{Fragments, provide};
use weever_blocks_std::testing::{TwoWorkers, env, frames::*, host::host_state};
use weever_engine::{CounterKind, Fit, Worker};
use weever_graph::{Attr, Field, Graph, Node, Predicate, Verified};
use weever_models::{HostConfig, Service, host};
use weever_net::fragment::split_v4;
use weever_plan::flow::Conj;
use weever_plan::simplify::{ForeignPackets, HandOver, Home, QueueFacts, simplify};

const SECOND: u64 = 1_000_000_000;
const REASSEMBLE: &str = "RxL3IPv4Reassemble";

/// A host on two workers that knows its peer.
struct Two {
    env: Arc<Env>,
    workers: TwoWorkers,
    now: u64,
}

impl Two {
    fn new() -> Two {
        let env = Arc::new(env());
        provide(&env, host_state(), 0);
        let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
        let graph = HandOver::default().with_entrance(&graph, "RxQueue");
        let workers = TwoWorkers::new(graph, env.clone(), 2048, 1024);
        let mut two = Two { env, workers, now: 0 };
        two.send(0, &arp_request(HOST));
        two.workers.received();
        two
    }

    /// A worker receives a frame, and all that comes of it happens.
    fn send(&mut self, worker: usize, frame: &[u8]) {
        self.workers.send(worker, &[frame]);
        self.pass(SECOND / 10);
    }

    fn pass(&mut self, time: u64) {
        for _ in 0..8 {
            self.now += time / 8;
            self.workers.turn(self.now);
        }
    }

    /// How many octets have come back in IPv4 datagrams, without their headers.
    fn answered(&mut self) -> usize {
        let frames = self.workers.received();
        frames.iter().filter(|f| f[12..14] == [8, 0]).map(|f| f.len() - 34).sum()
    }

    /// By worker, an own counter of the node that puts datagrams together.
    fn count(&mut self, label: &str) -> [u64; 2] {
        let of = |worker: &mut Worker| {
            let counters = worker.engine().counters();
            counters.get(REASSEMBLE, CounterKind::Own, label).unwrap_or(0)
        };
        let [a, b] = &mut self.workers.team.workers[..] else { panic!("there are two") };
        [of(a), of(b)]
    }

    fn fragments(&self) -> Arc<Fragments> {
        self.env.get_or_default::<Fragments>()
    }

    /// How many datagrams have an owner.
    fn owned(&self) -> usize {
        self.workers.team.publisher.flow_owners(REASSEMBLE).expect("it is sharded").len()
    }
}

/// A datagram to the echo in two pieces.
fn two_pieces(ident: u16) -> [Vec<u8>; 2] {
    pieces(&udp(5000, 7, &[7; 2000])[14..], ident)
}

fn pieces(datagram: &[u8], ident: u16) -> [Vec<u8>; 2] {
    let datagram = patched(datagram, 6, 0);
    let (mut split, mut out) = (split_v4(&datagram, 1500, Some(ident)).unwrap(), vec![0; 1500]);
    [(), ()].map(|()| {
        let len = split.next(&mut out).expect("there are two");
        from_peer(&out[..len])
    })
}

/// The first piece of a datagram that lacks the rest, from one of very many sources.
fn bomb(n: u32) -> Vec<u8> {
    let mut datagram = udp(5000, 7, &[7; 2000])[14..].to_vec();
    datagram[14..16].copy_from_slice(&[(n >> 8) as u8 | 1, n as u8]);
    let mut frame = pieces(&datagram, n as u16)[0].clone();
    frame[24..26].fill(0);
    let check = !weever_wire::checksum::sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame
}

/// A device may spread the fragments of one datagram, as the first one alone has ports.
#[test]
fn pieces_that_arrive_at_different_workers_meet_where_the_first_one_came() {
    let mut two = Two::new();
    for (first, other) in [(0, 1), (1, 0), (1, 1)] {
        let [head, tail] = two_pieces(8 * first as u16 + other as u16);
        two.send(first, &head);
        assert_eq!(two.owned(), 1);
        two.send(other, &tail);
        assert_eq!(two.answered(), 2008, "the first one came to worker {first}");
        assert_eq!((two.owned(), two.fragments().v4.held()), (0, (0, 0)));
    }
    assert_eq!(two.count("reassembled"), [1, 2]);
}

/// The block that takes the place of another goes on with what that has kept.
#[test]
fn half_a_datagram_outlives_a_new_parameter() {
    for worker in [0, 1] {
        let mut two = Two::new();
        let [head, tail] = two_pieces(1);
        two.send(worker, &head);
        assert_eq!(two.fragments().v4.held(), (1, 1480));
        let mut graph = Graph::clone(&two.workers.team.publisher.graph());
        let node = graph.find(REASSEMBLE).expect("it has it");
        graph.node_mut(node).attrs.push(Attr::parse("period=50"));
        two.workers.team.publisher.replace(graph).unwrap_or_else(|error| panic!("{error}"));
        two.pass(SECOND / 10);
        assert_eq!(two.fragments().v4.held(), (1, 1480));
        two.send(1 - worker, &tail);
        assert_eq!((two.answered(), two.fragments().v4.held()), (2008, (0, 0)));
    }
}

/// The part of the graph for a queue that gets these packets.
fn part(whole: &Verified, arriving: &Conj) -> Graph {
    let registry = weever_blocks_std::registry();
    let home = |node: &Node| registry.home_for_parts(node).map_or(Home::Any, Home::Elsewhere);
    let foreign = ForeignPackets::HandOver(HandOver::default());
    let facts = QueueFacts::of(std::slice::from_ref(arriving), &Predicate::True);
    simplify(whole, &QueueFacts { home: &home, foreign, ..facts }).graph
}

/// A worker with a part of the graph does not put datagrams together: it hands over those that it has, and goes on
/// with new ones when it has the whole graph again.
#[test]
fn half_a_datagram_outlives_its_workers_part_of_the_graph() {
    let ipv6 = Conj::all().with(Field::EthType, 0x86dd);
    let udp = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17);
    for arriving in [ipv6, udp] {
        let mut two = Two::new();
        let [head, tail] = two_pieces(1);
        two.send(1, &head);
        assert_eq!((two.owned(), two.fragments().v4.held()), (1, (1, 1480)));
        let fit: Arc<Fit> = Arc::new(move |whole: &Verified, _| Some(part(whole, &arriving)));
        two.workers.team.publisher.fit(Some(fit)).unwrap_or_else(|error| panic!("{error}"));
        two.pass(SECOND / 10);
        let part = two.workers.team.publisher.executed(1).expect("there are two");
        let node = part.find(REASSEMBLE).map(|id| part.node(id));
        assert!(node.is_none_or(|node| node.param("worker") == Some("0")), "it is not there");
        two.send(1, &tail);
        assert_eq!((two.answered(), two.count("reassembled")), (2008, [1, 0]));
        assert_eq!((two.owned(), two.fragments().v4.held()), (0, (0, 0)));
        // Half of the next one is at worker 0 when worker 1 gets the node back.
        let [head, tail] = two_pieces(2);
        two.send(1, &head);
        two.workers.team.publisher.fit(None).unwrap_or_else(|error| panic!("{error}"));
        two.send(1, &tail);
        assert_eq!((two.answered(), two.count("reassembled")), (2008, [2, 0]));
        let [head, tail] = two_pieces(3);
        two.send(1, &head);
        two.send(0, &tail);
        assert_eq!((two.answered(), two.count("reassembled")), (2008, [2, 1]));
        assert_eq!((two.owned(), two.fragments().v4.held()), (0, (0, 0)));
    }
}

/// Fragments that come to one worker, from sources without number, leave room for the others' datagrams, and their
/// owners are forgotten with them.
#[test]
fn a_flood_at_one_worker_leaves_the_other_its_share() {
    let mut two = Two::new();
    let [head, tail] = two_pieces(9);
    two.send(1, &head);
    for n in 0..40 {
        let burst: Vec<_> = (0..50).map(|i| bomb(50 * n + i)).collect();
        two.workers.send(0, &burst);
        two.pass(SECOND / 1000);
    }
    let held = two.fragments().v4.held().0;
    assert!((32..=65).contains(&held) && two.owned() == held, "{held} and {}", two.owned());
    assert!(two.count("evicted")[0] > 1900 && two.count("evicted")[1] == 0);
    two.send(1, &tail);
    assert_eq!((two.answered(), two.count("reassembled")), (2008, [0, 1]));
    two.pass(40 * SECOND);
    assert_eq!((two.owned(), two.fragments().v4.held()), (0, (0, 0)), "their time is over");
    assert_eq!(two.count("expired")[0] + two.count("evicted")[0], 2000);
}
