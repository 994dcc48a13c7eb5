//! Two workers of one host, the second of which runs a part of the graph that changes all the time:
//! together they send the same as two workers that run all of it, for any frames received by
//! either.

use std::sync::Arc;

use proptest::prelude::*;
use weever_blocks_std::host::provide;
use weever_blocks_std::testing::{TwoWorkers, env, frames::*, host::host_state6};
use weever_engine::Fit;
use weever_graph::{Field, Graph, Node, Predicate};
use weever_models::{HostConfig, Service, host};
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
    let home = |node: &Node| registry.home_for_parts(node).map_or(Home::Any, Home::Elsewhere);
    let foreign = || ForeignPackets::HandOver(HandOver::default());
    let part = |arriving: Vec<Conj>| {
        let given = QueueFacts::of(&arriving, &Predicate::True);
        simplify(whole, &QueueFacts { home: &home, foreign: foreign(), ..given }).graph
    };
    plans().into_iter().map(|plan| plan.map(part)).collect()
}

struct Pair {
    two: TwoWorkers,
    now: u64,
}

impl Pair {
    fn new() -> Pair {
        let graph = host(&HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9)).unwrap();
        let graph = HandOver::default().with_entrance(&graph, "RxQueue");
        let env = env();
        provide(&env, host_state6(), 0);
        let mut pair = Pair { two: TwoWorkers::new(graph, Arc::new(env), 8192, 512), now: 0 };
        // A neighbour that both workers know.
        pair.exchange(0, &[arp_request(HOST)]);
        pair
    }

    /// The frames sent after these are received by a queue, sorted: workers send in no common
    /// order.
    fn exchange<F: AsRef<[u8]>>(&mut self, queue: usize, received: &[F]) -> Vec<Vec<u8>> {
        let cut = |frame: &F| frame.as_ref()[..frame.as_ref().len().min(1500)].to_vec();
        self.two.send(queue, &received.iter().map(cut).collect::<Vec<_>>());
        let mut sent = Vec::new();
        for _ in 0..4 {
            self.now += 1;
            self.two.team.workers.iter_mut().rev().for_each(|w| drop(w.turn(self.now)));
            sent.extend(self.two.received());
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
        let parts = parts(&in_parts.two.team.publisher.executed(0).unwrap());
        let mut sizes = Vec::new();
        for (plan, queue, frames) in rounds {
            let part = parts[plan].clone();
            let fit: Arc<Fit> = Arc::new(move |_, _| part.clone());
            in_parts.two.team.publisher.fit(Some(fit)).unwrap();
            sizes.push(in_parts.two.team.publisher.sizes()[1]);
            let mut one_by_one = frames.chunks(3);
            prop_assert!(one_by_one.all(|frames| {
                whole.exchange(queue, frames) == in_parts.exchange(queue, frames)
            }), "plan {plan}, queue {queue}: {frames:02x?}");
        }
        prop_assert!(sizes.iter().any(|size| *size < sizes.iter().copied().max().unwrap_or(0)));
        let TwoWorkers { team, peers, cache, pool } = in_parts.two;
        drop((team, peers, cache));
        prop_assert_eq!(pool.available(), pool.frames());
    }
}
