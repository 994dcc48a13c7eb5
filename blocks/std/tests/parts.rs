//! Two workers of one host, the second of which runs a part of the graph that changes all the time:
//! together they send the same as two workers that run all of it, for any frames received by
//! either.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use weever_block::StateKind;
use weever_blocks_std::host::provide;
use weever_blocks_std::testing::{env, frames::*, host::host_state6};
use weever_engine::{Fit, Limits, Member, MemberQueue, Team};
use weever_graph::{Field, Graph, Node, Predicate};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, Service, host};
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};
use weever_plan::flow::Conj;
use weever_plan::simplify::{ForeignPackets, HandOver, Home, QueueFacts, simplify};

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "predicates"]
mod predicates {
    pub(crate) mod atoms;
    pub(crate) mod generate;
}
use predicates::generate::frames;

/// The conditions that a plan may put on the second worker's queue; the last is none.
fn plans() -> Vec<Option<Vec<Conj>>> {
    let of_type = |eth_type| Conj::all().with(Field::EthType, eth_type);
    let udp = |port| of_type(0x0800).with(Field::Ip4Proto, 17).with(Field::L4Dst, port);
    vec![Some(vec![udp(7)]), Some(vec![of_type(0x86dd)]), Some(Vec::new()), None]
}

/// Parts for every plan, each made once.
fn parts(whole: &weever_graph::Verified) -> Vec<Option<Graph>> {
    let registry = weever_blocks_std::registry();
    let home = |node: &Node| {
        let state = registry.type_of(node).map(|t| t.state).unwrap_or_default();
        match node.param("worker").is_some() || state == StateKind::SingleHomed {
            true => Home::Elsewhere(0),
            false => Home::Any,
        }
    };
    let foreign = || ForeignPackets::HandOver(HandOver::default());
    let part = |arriving: Vec<Conj>| {
        let given = QueueFacts::of(&arriving, &Predicate::True);
        simplify(whole, &QueueFacts { home: &home, foreign: foreign(), ..given }).graph
    };
    plans().into_iter().map(|plan| plan.map(part)).collect()
}

struct Pair {
    team: Team,
    peers: Vec<Box<dyn LinkQueue>>,
    cache: PoolCache,
    pool: Pool,
    now: u64,
}

impl Pair {
    fn new() -> Pair {
        let graph = host(&HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9)).unwrap();
        let graph = HandOver::default().with_entrance(&graph, "RxQueue");
        let env = env();
        provide(&env, host_state6(), 0);
        let config =
            PoolConfig { frames: 8192, huge_pages: HugePages::Never, ..PoolConfig::default() };
        let pool = Pool::new(config).unwrap();
        let config = MemoryConfig { queues: 2, ring: 512, ..MemoryConfig::default() };
        let (mut left, mut right) = pair(&config).unwrap();
        let member = |(i, queue)| Member {
            name: format!("worker-{i}"),
            pool: pool.cache(),
            limits: Limits::default(),
            queues: vec![MemberQueue { link: 0, source: HOST_SOURCE.into(), queue }],
        };
        let members = left.take_queues().into_iter().enumerate().map(member).collect();
        let team = Team::build(graph, weever_blocks_std::registry(), Arc::new(env), members);
        let team = team.unwrap();
        let mut pair = Pair { team, peers: right.take_queues(), cache: pool.cache(), pool, now: 0 };
        // A neighbour that both workers know.
        pair.exchange(0, &[arp_request(HOST)]);
        pair
    }

    /// The frames sent after these are received by a queue, sorted: workers send in no common
    /// order.
    fn exchange<F: AsRef<[u8]>>(&mut self, queue: usize, received: &[F]) -> Vec<Vec<u8>> {
        let mut packets = VecDeque::new();
        for frame in received {
            let mut packet = self.cache.alloc().unwrap();
            let frame = frame.as_ref();
            assert!(packet.append(&frame[..frame.len().min(1500)]));
            packets.push_back(packet);
        }
        self.peers[queue].tx(&mut self.cache, &mut packets).unwrap();
        self.peers[queue].flush(&mut self.cache).unwrap();
        assert!(packets.is_empty());
        let (mut sent, mut burst) = (Vec::new(), Burst::new());
        for _ in 0..4 {
            self.now += 1;
            self.team.workers.iter_mut().rev().for_each(|worker| drop(worker.turn(self.now)));
            for peer in &mut self.peers {
                while let n @ 1.. = peer.rx(&mut self.cache, &mut burst, 64).unwrap() {
                    for packet in (0..n).filter_map(|i| burst.take(i)) {
                        sent.push(packet.data().to_vec());
                        self.cache.free(packet);
                    }
                }
            }
        }
        sent.sort();
        sent
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(6) })]

    #[test]
    fn a_host_in_parts_is_a_host(
        rounds in prop::collection::vec((0usize..4, 0usize..2, prop::collection::vec(frames(), 12)), 24),
    ) {
        let (mut whole, mut in_parts) = (Pair::new(), Pair::new());
        let parts = parts(&in_parts.team.publisher.executed(0).unwrap());
        let mut sizes = Vec::new();
        for (plan, queue, frames) in rounds {
            let part = parts[plan].clone();
            let fit: Arc<Fit> = Arc::new(move |_, _| part.clone());
            in_parts.team.publisher.fit(Some(fit)).unwrap();
            sizes.push(in_parts.team.publisher.sizes()[1]);
            let mut one_by_one = frames.chunks(3);
            prop_assert!(one_by_one.all(|frames| {
                whole.exchange(queue, frames) == in_parts.exchange(queue, frames)
            }), "plan {plan}, queue {queue}: {frames:02x?}");
        }
        prop_assert!(sizes.iter().any(|size| *size < sizes.iter().copied().max().unwrap_or(0)));
        drop((in_parts.team, in_parts.peers, in_parts.cache));
        prop_assert_eq!(in_parts.pool.available(), in_parts.pool.frames());
    }
}
