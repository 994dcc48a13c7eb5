//! The host's graph on two workers: neighbours and timers are at one place, the fragments of a datagram meet, and
//! packets received by either worker are answered.

use std::sync::Arc;

use weever_block::Env;
use weever_blocks_std::host::provide;
use weever_blocks_std::testing::{TwoWorkers, env, frames::*, host::host_state};
use weever_engine::{CounterKind, Limits, Member, MemberQueue, Team, Worker};
use weever_graph::{Attr, Edge, Graph, Node, NodeId, NodeKind, Port};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_models::{HostConfig, Service, host};
use weever_net::fragment::split_v4;
use weever_packet::{HugePages, Pool, PoolCache, PoolConfig};

const SECOND: u64 = 1_000_000_000;

fn send(peer: &mut dyn LinkQueue, cache: &mut PoolCache, frame: &[u8]) {
    let mut buffer = cache.alloc().expect("a large pool");
    assert!(buffer.append(frame));
    peer.tx(cache, &mut [buffer].into()).expect("the worker is there");
    peer.flush(cache).expect("the worker is there");
}

#[test]
fn either_worker_answers_and_pieces_meet() {
    let env = Arc::new(env());
    provide(&env, host_state(), 0);
    let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let (mut two, mut now) = (TwoWorkers::new(graph, env, 2048, 1024), 0);
    let mut turns = |two: &mut TwoWorkers| {
        for _ in 0..8 {
            now += SECOND / 100;
            two.turn(now);
        }
    };
    // Worker 1 has a reply for an unknown neighbour; worker 0 hears of it.
    two.send(1, &[udp(5000, 7, b"first")]);
    turns(&mut two);
    two.send(0, &[arp_reply()]);
    turns(&mut two);
    turns(&mut two);
    let udp_replies = |frames: &[Vec<u8>], payload: &[u8]| {
        frames.iter().filter(|f| f[12..14] == [8, 0] && f.ends_with(payload)).count()
    };
    let frames = two.received();
    assert_eq!(udp_replies(&frames, b"first"), 1, "{} frames", frames.len());
    // Two pieces of one datagram, by different queues.
    let payload = vec![7; 2000];
    let whole = udp(5000, 7, &payload);
    let datagram = patched(&whole[14..], 6, 0);
    let (mut split, mut out) = (split_v4(&datagram, 1500, Some(9)).unwrap(), vec![0; 1500]);
    let mut queue = 0;
    while let Some(len) = split.next(&mut out) {
        two.send(queue % 2, &[from_peer(&out[..len])]);
        queue += 1;
    }
    turns(&mut two);
    let frames = two.received();
    let bytes: usize = frames.iter().filter(|f| f[12..14] == [8, 0]).map(|f| f.len() - 34).sum();
    assert!(queue == 2 && bytes >= 2008, "{queue} pieces went in, {bytes} bytes came back");
}

/// A packet goes on, and copies of it start at nodes of worker 1 and of worker 2.
fn three_targets() -> Graph {
    let mut graph = Graph::new("three targets");
    let mut add = |name: &str, kind: &str, out: Option<u32>, copy: Option<u32>| {
        let mut node = Node::new(name, NodeKind::Function);
        node.implementation = Some(kind.into());
        let targets = out.map(NodeId).into_iter().collect();
        node.ports.push(Port { name: "out".into(), targets, ..Port::default() });
        if out.is_none() {
            node.attrs.push(Attr::parse("ends=out"));
        }
        node.spawns.extend(copy.map(|to| Edge {
            label: "copy".into(),
            target: NodeId(to),
            predicates: Vec::new(),
        }));
        graph.add(node)
    };
    let first = add("First", "Tee", Some(1), Some(3));
    add("Second", "Tee", Some(2), Some(4));
    add("Here", "Counter", None, None);
    let elsewhere = [add("There", "Counter", None, None), add("Yonder", "Counter", None, None)];
    graph.node_mut(first).attrs.push(Attr::Source);
    for (node, home) in elsewhere.into_iter().zip(["worker=1", "worker=2"]) {
        graph.node_mut(node).attrs.push(Attr::parse(home));
    }
    graph
}

/// A hand-over has several targets where packets are copied: each target has its own, and one whose ring is full
/// costs the others nothing.
#[test]
fn packets_are_handed_over_to_several_workers_each_with_a_bound_of_its_own() {
    const PACKETS: usize = 900;
    let config = PoolConfig { frames: 8192, huge_pages: HugePages::Never, ..PoolConfig::default() };
    let pool = Pool::new(config).expect("memory for a pool");
    let (mut left, mut right) = pair(&MemoryConfig::default()).expect("descriptors");
    let mut queues: Vec<_> = left.take_queues().into_iter().collect();
    let member = |i: usize| Member {
        name: format!("worker-{i}"),
        pool: pool.cache(),
        limits: Limits { ring: 128, ..Limits::default() },
        queues: match queues.pop() {
            Some(queue) => vec![MemberQueue { link: 0, source: "First".into(), queue }],
            None => Vec::new(),
        },
    };
    let members = (0..3).map(member).collect();
    let registry = weever_blocks_std::registry();
    let mut team = Team::build(three_targets(), registry, Arc::new(Env::new()), members)
        .unwrap_or_else(|error| panic!("{error}"));
    let (mut peer, mut cache) = (right.take_queues().remove(0), pool.cache());
    for n in 0..PACKETS {
        send(&mut *peer, &mut cache, &udp(5000, 7, b"to all"));
        // Worker 2 has no core.
        for worker in &mut team.workers[..2] {
            worker.turn(n as u64);
        }
    }
    let count = |team: &mut Team, node: &str, kind, label: &str| -> u64 {
        let of = |w: &mut Worker| w.engine().counters().get(node, kind, label);
        team.workers.iter_mut().filter_map(of).sum()
    };
    let came = |team: &mut Team, node: &str| count(team, node, CounterKind::Own, "packets");
    assert_eq!((came(&mut team, "Here"), came(&mut team, "There")), (900, 900));
    team.workers[2].turn(PACKETS as u64);
    let (yonder, full) =
        (came(&mut team, "Yonder"), count(&mut team, "Second", CounterKind::RingFull, "copy"));
    assert_eq!((yonder, full), (128, PACKETS as u64 - 128), "lost for worker 2 only, and counted");
    drop((team, peer, cache));
    assert_eq!(pool.available(), pool.frames());
}
