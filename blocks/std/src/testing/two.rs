//! A graph on two workers, and the far ends of their cables.

use std::sync::Arc;

use weever_block::{Env, Nanos};
use weever_engine::{Limits, Member, MemberQueue, Team};
use weever_graph::Graph;
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{BURST, Burst, HugePages, Pool, PoolCache, PoolConfig};

use super::host::SOURCE;

/// Two workers of one link, each with a queue of its own, whose turns the test calls.
pub struct TwoWorkers {
    /// The workers, and the publisher of their graphs.
    pub team: Team,
    /// By worker, the far end of its cable.
    pub peers: Vec<Box<dyn LinkQueue>>,
    /// Frames for both ends.
    pub cache: PoolCache,
    /// The pool of all frames.
    pub pool: Pool,
}

impl TwoWorkers {
    /// Runs `graph` with what `env` provides, within a pool of `frames`, over cables that hold `ring` packets each
    /// way.
    ///
    /// Panics when the graph does not verify or a block cannot be made, saying why.
    pub fn new(graph: Graph, env: Arc<Env>, frames: u32, ring: usize) -> TwoWorkers {
        let config = PoolConfig { frames, huge_pages: HugePages::Never, ..PoolConfig::default() };
        let pool = Pool::new(config).expect("memory for a pool");
        let config = MemoryConfig { queues: 2, ring, ..MemoryConfig::default() };
        let (mut left, mut right) = pair(&config).expect("descriptors");
        let member = |(i, queue)| Member {
            name: format!("worker-{i}"),
            pool: pool.cache(),
            limits: Limits::default(),
            queues: vec![MemberQueue { link: 0, source: SOURCE.into(), queue }],
        };
        let members = left.take_queues().into_iter().enumerate().map(member).collect();
        let team = Team::build(graph, crate::registry(), env, members);
        let team = team.unwrap_or_else(|error| panic!("{error}"));
        TwoWorkers { team, peers: right.take_queues(), cache: pool.cache(), pool }
    }

    /// A turn of each worker.
    pub fn turn(&mut self, now: Nanos) {
        self.team.workers.iter_mut().for_each(|worker| drop(worker.turn(now)));
    }

    /// Has a worker receive frames at its next turns.
    ///
    /// Panics if the pool or the cable has no room for all of them, or one is too long for a buffer.
    pub fn send<F: AsRef<[u8]>>(&mut self, worker: usize, frames: &[F]) {
        let TwoWorkers { peers, cache, .. } = self;
        let buffer = |frame: &F| {
            let mut buffer = cache.alloc().expect("a large pool");
            assert!(buffer.append(frame.as_ref()), "a short frame");
            buffer
        };
        let mut packets = frames.iter().map(buffer).collect();
        peers[worker].tx(cache, &mut packets).expect("the worker is there");
        peers[worker].flush(cache).expect("the worker is there");
        assert!(packets.is_empty(), "a long cable");
    }

    /// The frames that have been sent since the last call, those of the first worker first.
    pub fn received(&mut self) -> Vec<Vec<u8>> {
        let (mut frames, mut burst) = (Vec::new(), Burst::new());
        for peer in &mut self.peers {
            while let n @ 1.. = peer.rx(&mut self.cache, &mut burst, BURST).expect("it is there") {
                for packet in (0..n).filter_map(|i| burst.take(i)) {
                    frames.push(packet.data().to_vec());
                    self.cache.free(packet);
                }
            }
        }
        frames
    }
}
