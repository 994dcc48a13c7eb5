//! The reference semantics of a graph: one packet at a time, slowly, as the thesis describes it.
//!
//! A task takes nodes from a stack, runs each once, and pushes the successors of the enabled port
//! (Dragonet thesis §2.2.3, §3.2.2). Operators are evaluated whenever they are reached, until they
//! are decided. There are no masks, bounds or counters per node; every task is recorded. The
//! interpreter is tested against this module.
//!
//! Where the thesis leaves the order open (nodes of one task that no edge orders), requests are
//! carried out in the order of the schedule.

mod task;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weever_block::{Block, Env, Priority, Registry, TABLE, When};
use weever_graph::{Attr, NodeId, NodeKind, Verified};
use weever_packet::{Buffer, Nanos, PoolCache};

use crate::CompileError;

/// The fate of a task's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new task at this node took it.
    Spawned(NodeId),
    /// It was sent by this link.
    Sent(u16),
    /// The block of this node took it.
    Collected(NodeId),
    /// The task waits at this node for this key.
    Blocked(NodeId, u64),
    /// It was dropped at a port of this node, for this reason.
    Dropped(NodeId, String),
    /// It did its duty and ended at this node.
    Used(NodeId),
    /// Nothing took it, or the task had no buffer.
    Unclaimed,
}

/// A task that has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it started.
    pub start: NodeId,
    /// The packet as it was at the start.
    pub packet: Option<Vec<u8>>,
    /// The nodes that it reached, in topological order, each with the name of the port that it
    /// enabled.
    pub enabled: Vec<(NodeId, Option<String>)>,
    /// The fate of its buffer.
    pub outcome: Outcome,
}

struct Node {
    block: Option<Box<dyn Block>>,
    /// Port names in the block's numbering.
    ports: Vec<String>,
    /// The targets of spawn and notify edges, likewise.
    spawns: Vec<NodeId>,
    notifies: Vec<NodeId>,
    needs_buffer: bool,
}

/// The executor.
pub struct Reference<'g> {
    graph: &'g Verified,
    nodes: Vec<Node>,
    queues: Queues,
    pool: PoolCache,
    /// The tasks that ran, in order.
    pub records: Vec<Record>,
    /// The packets sent, each with its link.
    pub sent: Vec<(u16, Buffer)>,
    /// Second dispositions, which were ignored.
    pub conflicts: u64,
    /// Increments of blocks' own counters: node, counter, by how much.
    pub counts: Vec<(NodeId, u32, u64)>,
}

impl<'g> Reference<'g> {
    /// Makes blocks of its own for `graph`.
    ///
    /// # Errors
    /// As [`Schedule::compile`](crate::Schedule::compile).
    pub fn new(
        graph: &'g Verified,
        registry: &Registry,
        env: &Env,
        pool: PoolCache,
    ) -> Result<Reference<'g>, CompileError> {
        let nodes = graph.iter().map(|(id, _)| node(graph, id, registry, env));
        Ok(Reference {
            graph,
            nodes: nodes.collect::<Result<_, _>>()?,
            queues: Queues::default(),
            pool,
            records: Vec::new(),
            sent: Vec::new(),
            conflicts: 0,
            counts: Vec::new(),
        })
    }

    /// Enqueues a task for every node with the attribute `init`.
    pub fn start(&mut self) {
        for (id, _) in self.graph.iter().filter(|(_, n)| n.has(&Attr::Init)) {
            self.queues.enqueue(Priority::High, id, None);
        }
    }

    /// Runs a task at once, before all that are queued.
    pub fn inject(&mut self, start: NodeId, buffer: Option<Buffer>, now: Nanos) {
        self.run_task(start, buffer, now);
    }

    /// Runs queued tasks until none is left or `budget` have run.
    pub fn run(&mut self, now: Nanos, budget: usize) -> usize {
        self.queues.start_delayed(now);
        self.queues.start_possible(&mut self.pool);
        for done in 0..budget {
            match self.queues.next() {
                Some((start, buffer)) => self.run_task(start, buffer, now),
                None => return done,
            }
        }
        budget
    }

    /// How many tasks are blocked.
    pub fn blocked(&self) -> usize {
        self.queues.blocked()
    }

    /// How many tasks start later.
    pub fn delayed(&self) -> usize {
        self.queues.delayed()
    }
}

fn node(
    graph: &Verified,
    id: NodeId,
    registry: &Registry,
    env: &Env,
) -> Result<Node, CompileError> {
    let node = graph.node(id);
    let in_graph = || node.ports.iter().map(|p| p.name.clone()).collect();
    match node.kind {
        NodeKind::Config(_) => Err(CompileError::NotConfigured { node: node.name.clone() }),
        NodeKind::Operator(_) => Ok(Node {
            block: None,
            ports: in_graph(),
            spawns: Vec::new(),
            notifies: Vec::new(),
            needs_buffer: false,
        }),
        NodeKind::Function | NodeKind::Table(_) => {
            let block_type = registry.type_of(node)?;
            let by_type = || block_type.ports.iter().map(|p| p.name.to_string()).collect();
            let effects = node.effects.unwrap_or(block_type.effects);
            let edge = |edges: &[weever_graph::Edge], label: &str| {
                let edge = edges.iter().find(|e| e.label == label);
                edge.expect("the registry checks edges").target
            };
            Ok(Node {
                block: Some(registry.build(node, env)?),
                ports: if block_type.name == TABLE { in_graph() } else { by_type() },
                spawns: block_type.spawns.iter().map(|l| edge(&node.spawns, l)).collect(),
                notifies: block_type.notifies.iter().map(|l| edge(&node.notifies, l)).collect(),
                needs_buffer: effects.contains(weever_graph::Effects::NEEDS_BUFFER),
            })
        }
    }
}

type Task = (NodeId, Option<Buffer>);

struct Waiting {
    node: NodeId,
    key: u64,
    buffer: Option<Buffer>,
}

struct Later {
    due: Nanos,
    priority: Priority,
    task: Task,
}

#[derive(Default)]
pub(super) struct Queues {
    /// Woken tasks by the node they start at; the node woken first comes first.
    woken: Vec<(NodeId, VecDeque<Option<Buffer>>)>,
    high: VecDeque<Task>,
    low: VecDeque<Task>,
    waiting: Vec<Waiting>,
    later: Vec<Later>,
    /// Tasks that wait for a buffer or a descriptor.
    conditional: Vec<(When, Priority, NodeId)>,
}

impl Queues {
    pub(super) fn enqueue(&mut self, priority: Priority, start: NodeId, buffer: Option<Buffer>) {
        match priority {
            Priority::High => self.high.push_back((start, buffer)),
            Priority::Low => self.low.push_back((start, buffer)),
        }
    }

    pub(super) fn enqueue_at(
        &mut self,
        due: Nanos,
        priority: Priority,
        start: NodeId,
        buffer: Option<Buffer>,
    ) {
        self.later.push(Later { due, priority, task: (start, buffer) });
        self.later.sort_by_key(|later| later.due);
    }

    pub(super) fn start_delayed(&mut self, now: Nanos) {
        while self.later.first().is_some_and(|later| later.due <= now) {
            let Later { priority, task, .. } = self.later.remove(0);
            self.enqueue(priority, task.0, task.1);
        }
    }

    pub(super) fn enqueue_when(&mut self, when: When, priority: Priority, start: NodeId) {
        self.conditional.push((when, priority, start));
    }

    /// Starts the tasks for which there is a buffer, or whose descriptor can be read.
    pub(super) fn start_possible(&mut self, pool: &mut PoolCache) {
        for (when, priority, start) in std::mem::take(&mut self.conditional) {
            let buffer = if matches!(when, When::Buffer) { pool.alloc() } else { None };
            let starts = match &when {
                When::After(_) => true,
                When::Buffer => buffer.is_some(),
                When::Readable(fd) => is_readable(fd),
            };
            if starts {
                self.enqueue(priority, start, buffer);
            } else {
                self.conditional.push((when, priority, start));
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<Task> {
        if let Some((start, queue)) = self.woken.first_mut() {
            let task = queue.pop_front().map(|buffer| (*start, buffer));
            if queue.is_empty() {
                self.woken.remove(0);
            }
            return task;
        }
        self.high.pop_front().or_else(|| self.low.pop_front())
    }

    pub(super) fn block(&mut self, node: NodeId, key: u64, buffer: Option<Buffer>) {
        self.waiting.push(Waiting { node, key, buffer });
    }

    pub(super) fn wake(&mut self, node: NodeId, key: Option<u64>) {
        let (awake, asleep): (Vec<_>, Vec<_>) = self
            .waiting
            .drain(..)
            .partition(|w| w.node == node && key.is_none_or(|key| w.key == key));
        self.waiting = asleep;
        for waiting in awake {
            match self.woken.iter_mut().find(|(start, _)| *start == node) {
                Some((_, queue)) => queue.push_back(waiting.buffer),
                None => self.woken.push((node, VecDeque::from([waiting.buffer]))),
            }
        }
    }

    pub(super) fn blocked(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn delayed(&self) -> usize {
        self.later.len() + self.conditional.len()
    }
}

fn is_readable(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
