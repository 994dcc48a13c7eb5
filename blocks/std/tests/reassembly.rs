//! Datagrams in pieces on two workers: they are put together at one of them, whichever receives the pieces.

use std::sync::Arc;

use weever_block::Env;
use weever_blocks_std::host::{Fragments, provide};
use weever_blocks_std::testing::{env, frames::*, host::host_state};
use weever_engine::{CounterKind, Limits, Member, MemberQueue, Team};
use weever_graph::Attr;
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, Service, host};
use weever_net::fragment::split_v4;
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};

const SECOND: u64 = 1_000_000_000;

/// A host on two workers, whose queues lead to the peer's of the same number.
struct Two {
    env: Arc<Env>,
    team: Team,
    peers: Vec<Box<dyn LinkQueue>>,
    cache: PoolCache,
    now: u64,
}

impl Two {
    fn new() -> Two {
        let pool = Pool::new(PoolConfig {
            frames: 2048,
            huge_pages: HugePages::Never,
            ..PoolConfig::default()
        });
        let pool = pool.expect("memory for a pool");
        let config = MemoryConfig { queues: 2, ..MemoryConfig::default() };
        let (mut left, mut right) = pair(&config).expect("descriptors");
        let env = Arc::new(env());
        provide(&env, host_state(), 0);
        let member = |(i, queue)| Member {
            name: format!("worker-{i}"),
            pool: pool.cache(),
            limits: Limits::default(),
            queues: vec![MemberQueue { link: 0, source: HOST_SOURCE.into(), queue }],
        };
        let members = left.take_queues().into_iter().enumerate().map(member).collect();
        let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
        let team = Team::build(graph, weever_blocks_std::registry(), env.clone(), members);
        let team = team.unwrap_or_else(|error| panic!("{error}"));
        Two { env, team, peers: right.take_queues(), cache: pool.cache(), now: 0 }
    }

    /// One that knows its peer.
    fn acquainted() -> Two {
        let mut two = Two::new();
        two.send(0, &arp_request(HOST));
        two.turns();
        two.received();
        two
    }

    fn turns(&mut self) {
        for _ in 0..8 {
            self.now += SECOND / 100;
            self.team.workers.iter_mut().for_each(|worker| drop(worker.turn(self.now)));
        }
    }

    fn send(&mut self, queue: usize, frame: &[u8]) {
        let mut buffer = self.cache.alloc().expect("a large pool");
        assert!(buffer.append(frame));
        let (peer, cache) = (&mut *self.peers[queue], &mut self.cache);
        peer.tx(cache, &mut [buffer].into()).expect("the worker is there");
        peer.flush(cache).expect("the worker is there");
    }

    /// What has come out of either queue.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for peer in &mut self.peers {
            let mut burst = Burst::new();
            let n = peer.rx(&mut self.cache, &mut burst, 64).expect("the worker is there");
            let all = (0..n).filter_map(|i| burst.take(i));
            frames.extend(all.map(|buffer| buffer.data().to_vec()));
        }
        frames
    }

    /// How many octets have come back in IPv4 datagrams, without their headers.
    fn answered(&mut self) -> usize {
        let frames = self.received();
        frames.iter().filter(|f| f[12..14] == [8, 0]).map(|f| f.len() - 34).sum()
    }

    /// How many datagrams each worker has put together.
    fn put_together(&mut self) -> [u64; 2] {
        let of = |worker: &mut weever_engine::Worker| {
            let counters = worker.engine().counters();
            counters.get("RxL3IPv4Reassemble", CounterKind::Own, "reassembled").unwrap_or(0)
        };
        let [a, b] = &mut self.team.workers[..] else { panic!("there are two") };
        [of(a), of(b)]
    }
}

/// A datagram to the echo in two pieces.
fn two_pieces(ident: u16) -> [Vec<u8>; 2] {
    let whole = udp(5000, 7, &[7; 2000]);
    let datagram = patched(&whole[14..], 6, 0);
    let (mut split, mut out) = (split_v4(&datagram, 1500, Some(ident)).unwrap(), vec![0; 1500]);
    [(), ()].map(|()| {
        let len = split.next(&mut out).expect("there are two");
        from_peer(&out[..len])
    })
}

/// A device may spread the fragments of one datagram, as the first one alone has ports.
#[test]
fn pieces_that_arrive_at_different_workers_meet() {
    let mut two = Two::acquainted();
    for (first, other) in [(0, 1), (1, 0), (1, 1)] {
        let [head, tail] = two_pieces(8 * first as u16 + other as u16);
        two.send(first, &head);
        two.turns();
        two.send(other, &tail);
        two.turns();
        assert_eq!(two.answered(), 2008, "the first one came to worker {first}");
    }
    assert_eq!(two.put_together(), [3, 0], "at their home");
}

/// The block that takes the place of another goes on with what that has kept.
#[test]
fn half_a_datagram_outlives_a_new_parameter() {
    let mut two = Two::acquainted();
    let [head, tail] = two_pieces(1);
    two.send(0, &head);
    two.turns();
    let fragments = two.env.get_or_default::<Fragments>();
    assert_eq!(fragments.v4.held(), (1, 1480));
    let mut graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let node = graph.find("RxL3IPv4Reassemble").expect("it has it");
    graph.node_mut(node).attrs.push(Attr::parse("period=50"));
    two.team.publisher.replace(graph).unwrap_or_else(|error| panic!("{error}"));
    two.turns();
    assert_eq!(fragments.v4.held(), (1, 1480));
    two.send(0, &tail);
    two.turns();
    assert_eq!((two.answered(), fragments.v4.held()), (2008, (0, 0)));
}
