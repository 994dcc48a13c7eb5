//! What a graph means: one packet at a time, slowly, in the order of the thesis's own words.
//!
//! A task takes nodes from a stack, runs each once, and pushes the successors of the port that
//! was enabled (Dragonet thesis §2.2.3, §3.2.2). Operators are evaluated each time they are
//! reached, until they are decided. There are no masks, no bounds and no counters per node; what
//! happened is recorded, task by task. Every engine is tested against this one.
//!
//! Where the thesis leaves an order open (nodes of one task that no edge orders), what they ask
//! for is carried out in the order of the schedule.

mod queues;
mod task;

use weever_block::{Block, Env, Priority, Registry, TABLE};
use weever_graph::{Attr, NodeId, NodeKind, Verified};
use weever_packet::{Buffer, Nanos, PoolCache};

use crate::CompileError;
use queues::Queues;

/// What became of a task's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new task at this node has it.
    Spawned(NodeId),
    /// It was sent by this link.
    Sent(u16),
    /// The block of this node took it.
    Collected(NodeId),
    /// The task waits at this node for this key.
    Blocked(NodeId, u64),
    /// It was dropped, for the reason that this node gives for this port.
    Dropped(NodeId, String),
    /// Nobody took it. Also of tasks without a buffer.
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
    /// What became of its buffer.
    pub outcome: Outcome,
}

struct Node {
    block: Option<Box<dyn Block>>,
    /// The names of the ports, as the block numbers them.
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
    /// What ran, in order.
    pub records: Vec<Record>,
    /// What was sent, with its link.
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
