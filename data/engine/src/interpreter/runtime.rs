//! What outlives a batch: the queues of tasks and packets, the frames, the counters.

use std::sync::Arc;

use weever_block::{Priority, SpawnRequest};
use weever_packet::{Nanos, PoolCache};
use weever_timer::Wheel;

use super::blocked::Blocked;
use super::lane::Task;
use super::outbox::Outboxes;
use super::peers::Peers;
use super::tasks::Tasks;
use crate::Limits;
use crate::counters::{Cells, Counter, total};
use crate::schedule::{Entry, Program, SpawnEdge};

/// A task that starts later.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub(crate) entry: Entry,
    priority: Priority,
    pub(crate) task: Task,
    pub(crate) full: Counter,
}

#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) limits: Limits,
    pub(crate) tasks: Tasks,
    pub(crate) blocked: Blocked,
    pub(crate) delayed: Wheel<Delayed>,
    pub(crate) outboxes: Outboxes,
    pub(crate) counters: Arc<Cells>,
    /// The other workers, if there are any.
    pub(crate) peers: Option<Box<Peers>>,
    /// The number of the graph that runs.
    pub(crate) epoch: u64,
    /// After the queues, so that what they hold goes home while the pool is there.
    pub(crate) pool: PoolCache,
}

impl Runtime {
    pub(crate) fn new(
        entries: usize,
        counters: Arc<Cells>,
        pool: PoolCache,
        limits: Limits,
    ) -> Runtime {
        Runtime {
            tasks: Tasks::new(entries, &limits),
            blocked: Blocked::new(&limits),
            delayed: Wheel::new(limits.tick, limits.delayed, 0),
            outboxes: Outboxes::new(&limits),
            counters,
            peers: None,
            epoch: 0,
            pool,
            limits,
        }
    }

    /// Enqueues a new task, or has it wait for its time.
    pub(crate) fn spawn(
        &mut self,
        program: &Program,
        edge: &SpawnEdge,
        request: SpawnRequest,
        now: Nanos,
    ) {
        let SpawnRequest { buffer, delay, priority, .. } = request;
        self.counters.add(edge.spawned, 1);
        if delay == 0 {
            return self.start_now(program, edge, priority, buffer);
        }
        if self.delayed.len() >= self.limits.delayed {
            return self.refuse(buffer, edge.full);
        }
        if self.delayed.is_empty() {
            // Brings an idle wheel up to date, so that the timer lies at a low level.
            self.delayed.poll(now);
        }
        let delayed = Delayed { entry: edge.entry, priority, task: buffer, full: edge.full };
        self.delayed.insert(now.saturating_add(delay), delayed);
        self.counters.set(total::DELAYED, self.delayed.len() as u64);
    }

    fn start_now(&mut self, program: &Program, edge: &SpawnEdge, priority: Priority, task: Task) {
        let full = if self.is_home(program.home(edge.entry)) { edge.full } else { edge.ring_full };
        self.enqueue(program, edge.entry, priority, task, full);
    }

    /// Enqueues the tasks whose time has come.
    pub(crate) fn start_delayed(&mut self, program: &Program, now: Nanos) {
        if self.delayed.is_empty() {
            return;
        }
        while let Some(Delayed { entry, priority, task, full }) = self.delayed.poll(now) {
            self.enqueue(program, entry, priority, task, full);
        }
        self.counters.set(total::DELAYED, self.delayed.len() as u64);
    }

    pub(crate) fn refuse(&mut self, task: Task, full: Counter) {
        self.counters.add(full, 1);
        if let Some(buffer) = task {
            self.pool.free(buffer);
        }
    }

    /// Blocks a task at `node`, or drops it where too many are blocked.
    pub(crate) fn block(&mut self, program: &Program, node: u32, key: u64, task: Task) {
        let plan = &program.nodes[node as usize];
        let blocked = match plan.entry {
            Some(entry) => self.blocked.block(entry, key, task, self.tasks.woken()),
            None => Err(task),
        };
        if let Err(task) = blocked {
            self.refuse(task, plan.block_full);
        }
        self.counters.set(total::BLOCKED, self.blocked.len() as u64);
    }
}
