//! The engine as a block sees it while it runs.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use weever_packet::{Buffer, Mask, Nanos, PoolCache};

use crate::flows::{FlowClaim, FlowKey, FlowOwners};

/// The context of one call of a block. Edges and counters are numbered as the block's
/// [`BlockType`](crate::BlockType) lists them.
pub struct Cx<'a> {
    /// The worker's time in nanoseconds, read once per turn of its loop; monotonic.
    pub now: Nanos,
    /// The number of the worker that runs the block; 0 where there is one only.
    pub worker: u16,
    pool: &'a mut PoolCache,
    requests: &'a mut Requests,
    flows: Option<&'a FlowOwners>,
    downstream: Option<&'a dyn Downstream>,
}

/// The room behind a block, as the engine knows it.
pub trait Downstream {
    /// How many more packets may wait for a link to send them; 0 for a link that does not exist.
    fn link_room(&self, link: u16) -> usize;

    /// How many more tasks may wait for a time, a buffer or a descriptor.
    fn delayed_room(&self) -> usize;
}

impl<'a> Cx<'a> {
    /// A context over the worker's cache. For engines and tests.
    pub fn new(now: Nanos, pool: &'a mut PoolCache, requests: &'a mut Requests) -> Cx<'a> {
        Cx { now, worker: 0, pool, requests, flows: None, downstream: None }
    }

    /// The same on a worker of this number, with the owners of the node's flows, where several workers share them, and
    /// the room behind the block. In one step: it is made for each call of a block.
    #[inline(always)]
    pub fn on_worker(
        (now, worker): (Nanos, u16),
        pool: &'a mut PoolCache,
        requests: &'a mut Requests,
        flows: Option<&'a FlowOwners>,
        downstream: &'a dyn Downstream,
    ) -> Cx<'a> {
        Cx { now, worker, pool, requests, flows, downstream: Some(downstream) }
    }

    /// How many more packets the queue of link number `link` takes; packets beyond that are dropped
    /// there. A block that has much to send, such as a connection with a large window, sends no more
    /// than this and goes on later. Packets that the batch has sent so far, by this block or by others,
    /// are not counted yet.
    pub fn link_room(&self, link: u16) -> usize {
        self.downstream.map_or(usize::MAX, |downstream| downstream.link_room(link))
    }

    /// Makes this worker the owner of a new flow; for types whose state is sharded. Ask before you
    /// make state for it: two workers may receive its first packets. If it is
    /// [elsewhere](FlowClaim::Elsewhere), [`send_to_owner`](Self::send_to_owner).
    pub fn claim_flow(&mut self, flow: FlowKey) -> FlowClaim {
        self.flows.map_or(FlowClaim::Mine, |flows| flows.claim(flow, self.worker))
    }

    /// Ends a flow of this worker, with its state.
    pub fn release_flow(&mut self, flow: FlowKey) {
        if let Some(flows) = self.flows {
            flows.release(flow, self.worker);
        }
    }

    /// Has one task start at this node again, on the worker that owns the flow.
    pub fn send_to_owner(&mut self, task: usize, flow: FlowKey) {
        self.claim(Claim::Owner { flow }, 1 << task);
    }

    /// An empty buffer, or `None` when the pool is exhausted.
    pub fn alloc(&mut self) -> Option<Buffer> {
        self.pool.alloc()
    }

    /// Bytes of the longest packet that such a buffer holds behind its headroom: longer packets
    /// come in a large frame, and no link takes them.
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

    /// Starts a HIGH task with the buffer of each of `tasks` along spawn edge `edge`, `delay` nanoseconds from now
    /// (0: at once): for tasks that look again at what another worker has now, without keeping this one awake. When
    /// too many tasks wait for their time already, it is a counted drop at the edge.
    pub fn spawn_later(&mut self, edge: usize, tasks: Mask, delay: Nanos) {
        match delay {
            0 => self.spawn(edge, tasks),
            _ => self.claim(Claim::SpawnLater { edge: edge as u32, delay }, tasks),
        }
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

    /// Blocks one task at this node until `key` is notified here. The task then starts at this node
    /// again. When too many wait already, it is a counted drop.
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
        let edge = edge as u32;
        self.requests.spawns.push(SpawnRequest {
            edge,
            buffer,
            when: When::After(delay),
            priority,
        });
    }

    /// Starts a new task along spawn edge `edge` with an empty buffer, as soon as the pool has one: at once, as
    /// a rule. Tasks that wait for a buffer get theirs in the order of asking. `false`: too many tasks wait
    /// already, and none will bring the buffer; this counts as a drop at the edge.
    pub fn spawn_with_buffer(&mut self, edge: usize, priority: Priority) -> bool {
        let (edge, buffer) = (edge as u32, None);
        let waits = |request: &&SpawnRequest| !matches!(request.when, When::After(0));
        let before = self.requests.spawns.iter().filter(waits).count();
        self.requests.spawns.push(SpawnRequest { edge, buffer, when: When::Buffer, priority });
        self.downstream.is_none_or(|downstream| downstream.delayed_room() > before)
    }

    /// Starts a new task without a buffer along spawn edge `edge` when `fd` can be read, or has been
    /// closed at its other end. A busy worker looks every few turns. The task reads without blocking
    /// until nothing is left, and asks again.
    pub fn spawn_when_readable(&mut self, edge: usize, fd: Arc<OwnedFd>, priority: Priority) {
        let (edge, buffer, when) = (edge as u32, None, When::Readable(fd));
        self.requests.spawns.push(SpawnRequest { edge, buffer, when, priority });
    }

    /// Wakes the tasks that wait for `key` at the target of notify edge `edge`, in the order in
    /// which they blocked.
    pub fn notify(&mut self, edge: usize, key: u64) {
        self.requests.notifies.push((edge as u32, Some(key)));
    }

    /// Wakes all tasks that wait at the target of notify edge `edge`, for blocks that no longer
    /// know which keys are waited for. A task woken without cause checks again and blocks again.
    pub fn notify_all(&mut self, edge: usize) {
        self.requests.notifies.push((edge as u32, None));
    }

    /// Has [`Block::poll`](crate::Block::poll) called at `at`, or never if there is no time. It
    /// replaces the block's earlier request: a block has one deadline, the earliest of its own
    /// timers. It needs no frame and no task, so their bounds do not apply.
    pub fn set_deadline(&mut self, at: Option<Nanos>) {
        self.requests.deadline = Some(at);
    }

    /// Adds `n` to the block's counter number `counter`.
    pub fn count(&mut self, counter: usize, n: u64) {
        if n != 0 {
            self.requests.counts.push((counter as u32, n));
        }
    }
}

/// The queue that a new task joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// First in, first out, before every LOW task.
    #[default]
    High,
    /// When nothing HIGH is left: polling and housekeeping.
    Low,
}

/// Where a task's buffer goes when its last node has run: its disposition (design/0000 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A new task along the spawn edge gets it.
    Spawn {
        /// The edge, numbered as in [`BlockType::spawns`](crate::BlockType::spawns).
        edge: u32,
        /// The new task's priority.
        priority: Priority,
    },
    /// A new HIGH task along the spawn edge gets it, later.
    SpawnLater {
        /// The edge, numbered as in [`BlockType::spawns`](crate::BlockType::spawns).
        edge: u32,
        /// In so many nanoseconds.
        delay: Nanos,
    },
    /// The link sends it, on the queue in its metadata.
    Transmit {
        /// The link, numbered by the worker.
        link: u16,
    },
    /// The block that claimed it, by [`Block::collect`](crate::Block::collect).
    Collect,
    /// The task starts at this node again, on the worker that owns the flow.
    Owner {
        /// The flow.
        flow: FlowKey,
    },
    /// The task waits at this node for a notify with `key`, and then starts here again.
    Block {
        /// The key it waits for.
        key: u64,
    },
}

/// A new task that does not take over the current task's buffer.
#[derive(Debug)]
pub struct SpawnRequest {
    /// The spawn edge, numbered as in [`BlockType::spawns`](crate::BlockType::spawns).
    pub edge: u32,
    /// The new task's buffer, if it has one.
    pub buffer: Option<Buffer>,
    /// When it starts.
    pub when: When,
    /// The new task's priority.
    pub priority: Priority,
}

/// When a new task starts.
#[derive(Clone, Debug)]
pub enum When {
    /// So many nanoseconds later; 0: at once.
    After(Nanos),
    /// When the pool has a free buffer, which the task gets.
    Buffer,
    /// When the descriptor can be read.
    Readable(Arc<OwnedFd>),
}

/// Everything a block asked for during one call. The engine empties it after each node.
#[derive(Debug, Default)]
pub struct Requests {
    /// Dispositions, with the tasks that they are for.
    pub claims: Vec<(Claim, Mask)>,
    /// New tasks.
    pub spawns: Vec<SpawnRequest>,
    /// Wake-ups: notify edge and key; without a key, of all that wait there.
    pub notifies: Vec<(u32, Option<u64>)>,
    /// Increments of the block's own counters.
    pub counts: Vec<(u32, u64)>,
    /// When the block wants to be polled, if it has said so.
    pub deadline: Option<Option<Nanos>>,
}

impl Requests {
    /// Room enough that a burst of 64 never allocates.
    pub fn new() -> Requests {
        Requests {
            claims: Vec::with_capacity(64),
            spawns: Vec::with_capacity(128),
            notifies: Vec::with_capacity(64),
            counts: Vec::with_capacity(64),
            deadline: None,
        }
    }

    /// Forgets all requests; buffers of new tasks are freed.
    pub fn clear(&mut self) {
        self.claims.clear();
        self.spawns.clear();
        self.notifies.clear();
        self.counts.clear();
        self.deadline = None;
    }

    /// Whether nothing was asked for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.counts.is_empty() && !self.has_rare()
    }

    /// Whether there is anything but dispositions and counts.
    #[inline]
    pub fn has_rare(&self) -> bool {
        !self.spawns.is_empty() || !self.notifies.is_empty() || self.deadline.is_some()
    }
}
