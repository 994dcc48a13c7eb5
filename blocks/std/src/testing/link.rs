//! A host at the end of a memory link: frames go the whole way, through the link's rings, a worker's
//! turns and back, with one pool for both ends.

use std::collections::VecDeque;
use std::sync::Arc;

use weever_block::Nanos;
use weever_engine::{Attached, Counters, Engine, Limits, Schedule, Turn, Worker};
use weever_graph::{Graph, verify};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{BURST, Burst, HugePages, Pool, PoolCache, PoolConfig};

use super::env;
use super::host::{SOURCE, host_state};
use crate::host::provide;

/// A worker that runs a graph, and the queue at the other end of its link.
pub struct LinkBox {
    worker: Worker,
    peer: Box<dyn LinkQueue>,
    cache: PoolCache,
    pool: Pool,
    received: Burst,
    now: Nanos,
}

impl LinkBox {
    /// Runs `graph` as the host of the [frames](super::frames) within a pool of `frames`, over a
    /// link whose rings hold `ring` packets each.
    ///
    /// Panics when the graph does not verify or a block cannot be made, saying why.
    pub fn new(mut graph: Graph, frames: u32, ring: usize) -> LinkBox {
        let (env, registry) = (env(), crate::registry());
        provide(&env, host_state(), 0);
        registry.annotate(&mut graph).unwrap_or_else(|e| panic!("{e}"));
        let verified = verify(graph).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let schedule = Schedule::compile(&verified, &registry, &env);
        let schedule = schedule.unwrap_or_else(|e| panic!("{e}"));
        let config = PoolConfig { frames, huge_pages: HugePages::Never, ..PoolConfig::default() };
        let pool = Pool::new(config).expect("memory for a pool");
        let limits = Limits::within(pool.frames());
        let mut engine = Engine::new(schedule, pool.cache(), limits);
        engine.start();
        let (worker, peer) = join(engine, ring);
        LinkBox { worker, peer, cache: pool.cache(), pool, received: Burst::new(), now: 0 }
    }

    /// Puts frames into the link, as far as it has room and the pool has buffers; how many those
    /// were. Frames too long for a buffer are cut off.
    pub fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) -> usize {
        let mut packets = VecDeque::new();
        for frame in frames {
            let Some(mut packet) = self.cache.alloc() else { break };
            let frame = frame.as_ref();
            packet.append(&frame[..frame.len().min(packet.tailroom())]);
            packets.push_back(packet);
        }
        let sent = self.peer.tx(&mut self.cache, &mut packets).expect("the worker is there");
        packets.into_iter().for_each(|packet| self.cache.free(packet));
        self.peer.flush(&mut self.cache).expect("the worker is there");
        sent
    }

    /// One turn of the worker, `nanos` later.
    pub fn turn(&mut self, nanos: Nanos) -> Turn {
        self.now += nanos;
        let turn = self.worker.turn(self.now);
        assert!(turn.lost.is_empty(), "{turn:?}");
        turn
    }

    /// Turns without time passing until nothing happens. Panics if that never comes.
    pub fn settle(&mut self) {
        let quiet = (0..1000).any(|_| self.turn(0).is_idle());
        assert!(quiet, "the graph does not come to rest");
    }

    /// The frames from the worker, in its order.
    pub fn received(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let n @ 1.. =
            self.peer.rx(&mut self.cache, &mut self.received, BURST).expect("the worker is there")
        {
            for packet in (0..n).filter_map(|i| self.received.take(i)) {
                frames.push(packet.data().to_vec());
                self.cache.free(packet);
            }
        }
        frames
    }

    /// The worker's counters.
    pub fn counters(&mut self) -> Arc<Counters> {
        self.worker.engine().counters()
    }

    /// How many buffers an owner without a cache could get now.
    pub fn available(&self) -> usize {
        self.pool.available()
    }

    /// Ends both sides, and asserts that every buffer has come home.
    pub fn finish(self) {
        let LinkBox { mut worker, peer, cache, pool, received, .. } = self;
        assert_eq!(worker.engine().counters().faults(), [], "no block panics");
        drop((worker, peer, received, cache));
        let census = pool.census();
        assert!(census.is_complete(), "buffers are conserved: {census}");
    }
}

impl std::fmt::Debug for LinkBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LinkBox({:?} at {} ns)", self.worker, self.now)
    }
}

/// A worker with one end of a new link, and the other end's queue.
fn join(engine: Engine, ring: usize) -> (Worker, Box<dyn LinkQueue>) {
    let config = MemoryConfig { ring, ..MemoryConfig::default() };
    let (mut near, mut far) = pair(&config).expect("no descriptors are needed");
    let entry = engine.entry(SOURCE).expect("the graph has a node `RxQueue`");
    let attach = |queue| Attached { link: 0, entry, queue };
    let queues = near.take_queues().into_iter().map(attach).collect();
    let worker = Worker::new(engine, queues).expect("a descriptor for the bell");
    (worker, far.take_queues().remove(0))
}
