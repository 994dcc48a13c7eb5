//! The host's graph on two workers: fragments, neighbours and timers are at one place, and packets
//! received by either worker are answered.

use std::sync::Arc;

use weever_block::Env;
use weever_blocks_std::host::provide;
use weever_blocks_std::testing::{frames::*, host::host_state};
use weever_engine::{Limits, Member, MemberQueue, Team};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_models::counters::HOST_SOURCE;
use weever_models::{HostConfig, Service, host};
use weever_net::fragment::split_v4;
use weever_packet::{Burst, HugePages, Pool, PoolCache, PoolConfig};

const SECOND: u64 = 1_000_000_000;

fn send(peer: &mut dyn LinkQueue, cache: &mut PoolCache, frame: &[u8]) {
    let mut buffer = cache.alloc().expect("a large pool");
    assert!(buffer.append(frame));
    peer.tx(cache, &mut [buffer].into()).expect("the worker is there");
    peer.flush(cache).expect("the worker is there");
}

fn received(peer: &mut dyn LinkQueue, cache: &mut PoolCache) -> Vec<Vec<u8>> {
    let mut burst = Burst::new();
    let n = peer.rx(cache, &mut burst, 64).expect("the worker is there");
    (0..n).filter_map(|i| burst.take(i)).map(|buffer| buffer.data().to_vec()).collect()
}

#[test]
fn either_worker_answers_and_pieces_meet() {
    let pool = Pool::new(PoolConfig {
        frames: 2048,
        huge_pages: HugePages::Never,
        ..PoolConfig::default()
    });
    let pool = pool.expect("memory for a pool");
    let config = MemoryConfig { queues: 2, ..MemoryConfig::default() };
    let (mut left, mut right) = pair(&config).expect("descriptors");
    let env = Arc::new(Env::new());
    provide(&env, host_state(), 0);
    let member = |(i, queue)| Member {
        name: format!("worker-{i}"),
        pool: pool.cache(),
        limits: Limits::default(),
        queues: vec![MemberQueue { link: 0, source: HOST_SOURCE.into(), queue }],
    };
    let members = left.take_queues().into_iter().enumerate().map(member).collect();
    let graph = host(&HostConfig::serving(Service::Echo, 7)).unwrap();
    let mut team = Team::build(graph, weever_blocks_std::registry(), env, members)
        .unwrap_or_else(|error| panic!("{error}"));
    let (mut peers, mut cache) = (right.take_queues(), pool.cache());
    let mut now = 0;
    let mut turn = |team: &mut Team| {
        for _ in 0..8 {
            now += SECOND / 100;
            team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
        }
    };
    // Worker 1 has a reply for an unknown neighbour; worker 0 hears of it.
    send(&mut *peers[1], &mut cache, &udp(5000, 7, b"first"));
    turn(&mut team);
    send(&mut *peers[0], &mut cache, &arp_reply());
    turn(&mut team);
    turn(&mut team);
    let udp_replies = |frames: &[Vec<u8>], payload: &[u8]| {
        frames.iter().filter(|f| f[12..14] == [8, 0] && f.ends_with(payload)).count()
    };
    let mut frames = received(&mut *peers[0], &mut cache);
    frames.extend(received(&mut *peers[1], &mut cache));
    assert_eq!(udp_replies(&frames, b"first"), 1, "{} frames", frames.len());
    // Two pieces of one datagram, by different queues.
    let payload = vec![7; 2000];
    let whole = udp(5000, 7, &payload);
    let datagram = patched(&whole[14..], 6, 0);
    let (mut split, mut out) = (split_v4(&datagram, 1500, Some(9)).unwrap(), vec![0; 1500]);
    let mut queue = 0;
    while let Some(len) = split.next(&mut out) {
        send(&mut *peers[queue % 2], &mut cache, &from_peer(&out[..len]));
        queue += 1;
    }
    turn(&mut team);
    let mut frames = received(&mut *peers[0], &mut cache);
    frames.extend(received(&mut *peers[1], &mut cache));
    let bytes: usize = frames.iter().filter(|f| f[12..14] == [8, 0]).map(|f| f.len() - 34).sum();
    assert!(queue == 2 && bytes >= 2008, "{queue} pieces went in, {bytes} bytes came back");
}
