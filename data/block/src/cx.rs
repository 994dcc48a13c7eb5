//! What a block sees of the world while it runs.

use weever_packet::{Buffer, Mask, Nanos, PoolCache};

use crate::{Claim, Priority, Requests, SpawnRequest};

/// The context of one call of a block. Edges and counters are numbered as the block's
/// [`BlockType`](crate::BlockType) lists them.
pub struct Cx<'a> {
    /// The worker's time in nanoseconds, read once per turn of its loop; monotonic.
    pub now: Nanos,
    pool: &'a mut PoolCache,
    requests: &'a mut Requests,
}

impl<'a> Cx<'a> {
    /// A context over the worker's cache. For engines and tests.
    pub fn new(now: Nanos, pool: &'a mut PoolCache, requests: &'a mut Requests) -> Cx<'a> {
        Cx { now, pool, requests }
    }

    /// An empty buffer, or `None` when the pool is exhausted.
    pub fn alloc(&mut self) -> Option<Buffer> {
        self.pool.alloc()
    }

    /// Bytes of the longest packet that such a buffer holds behind its headroom: what is longer came
    /// in a large frame, and no link takes it.
    #[inline]
    pub fn room(&self) -> usize {
        self.pool.room()
    }

    /// Frees a buffer that the block owns, faster than dropping it.
    pub fn free(&mut self, buffer: Buffer) {
        self.pool.free(buffer);
    }

    fn claim(&mut self, claim: Claim, tasks: Mask) {
        if tasks != 0 {
            self.requests.claims.push((claim, tasks));
        }
    }

    /// Starts a HIGH task with the buffer of each of `tasks` along spawn edge `edge`.
    pub fn spawn(&mut self, edge: usize, tasks: Mask) {
        self.claim(Claim::Spawn { edge: edge as u32, priority: Priority::High }, tasks);
    }

    /// Has the buffers of `tasks` sent by link number `link`, on the queue in their metadata.
    pub fn transmit(&mut self, link: u16, tasks: Mask) {
        self.claim(Claim::Transmit { link }, tasks);
    }

    /// Takes the buffers of `tasks`: they reach [`Block::collect`](crate::Block::collect) when
    /// their tasks have ended.
    pub fn consume(&mut self, tasks: Mask) {
        self.claim(Claim::Collect, tasks);
    }

    /// Blocks one task at this node until somebody notifies `key` here. The task then starts at
    /// this node again. When too many wait already, it is a counted drop.
    pub fn block(&mut self, task: usize, key: u64) {
        self.claim(Claim::Block { key }, 1 << task);
    }

    /// Starts a new task along spawn edge `edge`, `delay` nanoseconds from now (0: at once), with
    /// a buffer of its own or none.
    pub fn spawn_new(
        &mut self,
        edge: usize,
        buffer: Option<Buffer>,
        delay: Nanos,
        priority: Priority,
    ) {
        self.requests.spawns.push(SpawnRequest { edge: edge as u32, buffer, delay, priority });
    }

    /// Wakes the tasks that wait for `key` at the target of notify edge `edge`, in the order in
    /// which they blocked.
    pub fn notify(&mut self, edge: usize, key: u64) {
        self.requests.notifies.push((edge as u32, Some(key)));
    }

    /// Wakes all tasks that wait at the target of notify edge `edge`, whatever for: a way out for
    /// who cannot tell any more whom to wake. What is woken for nothing looks again and waits on.
    pub fn notify_all(&mut self, edge: usize) {
        self.requests.notifies.push((edge as u32, None));
    }

    /// Adds `n` to the block's counter number `counter`.
    pub fn count(&mut self, counter: usize, n: u64) {
        if n != 0 {
            self.requests.counts.push((counter as u32, n));
        }
    }
}
