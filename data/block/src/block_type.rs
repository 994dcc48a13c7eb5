//! Block types: how a kind of block is described, and how an instance is made for a node from its
//! parameters and the state that the blocks of a stack share.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_graph::{Effects, Node};
use weever_packet::{Burst, Mask};

use crate::{Block, Cx};

/// A port of a block type.
#[derive(Clone, Copy, Debug)]
pub struct PortDoc {
    /// Its name in Unicorn.
    pub name: &'static str,
    /// Which packets leave by it.
    pub doc: &'static str,
}

/// A parameter of a block type, set by `attr "name=value"`.
#[derive(Clone, Copy, Debug)]
pub struct ParamDoc {
    /// Its name.
    pub name: &'static str,
    /// The value when the node does not set it.
    pub default: &'static str,
    /// Its effect, with its unit.
    pub doc: &'static str,
}

/// A kind of block: its documentation, its shape and how to make one.
///
/// Ports `false` and `true` come first, in this order, where a type has them.
#[derive(Clone, Copy, Debug)]
pub struct BlockType {
    /// The name that `implementation` in Unicorn refers to.
    pub name: &'static str,
    /// One sentence: its function.
    pub summary: &'static str,
    /// Its ports, in the order in which the block numbers them.
    pub ports: &'static [PortDoc],
    /// Its spawn edges' labels, in the order in which the block numbers them.
    pub spawns: &'static [&'static str],
    /// Its notify edges' labels, likewise.
    pub notifies: &'static [&'static str],
    /// Its effects on the buffer.
    pub effects: Effects,
    /// Where its state lives when several workers run the graph.
    pub state: StateKind,
    /// Its parameters.
    pub params: &'static [ParamDoc],
    /// Its own counters' names, in the order in which the block numbers them.
    pub counters: &'static [&'static str],
    /// Makes a block for a node.
    pub make: fn(&Build<'_>) -> Result<Box<dyn Block>, BuildError>,
}

/// How the state of a block type lives (design/0000 §4.4). Every worker has a block of its own for each
/// node, and this says which tasks that block sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StateKind {
    /// There is none.
    #[default]
    None,
    /// Each worker's block has its own, or all of them look at one that the environment shares. Any
    /// worker may run it for any packet.
    Replicated,
    /// Each flow's is at one worker, its owner: the first that [claims](crate::Cx::claim_flow) it,
    /// until it is moved. Packets that arrive elsewhere are handed over by
    /// [`Block::flow_of`](crate::Block::flow_of), so the node must be a cut vertex of the nodes
    /// that its tasks reach, like one that blocks.
    Sharded,
    /// There is one, at the node's home: tasks for it are handed over to that worker.
    SingleHomed,
}

impl StateKind {
    /// Its name in the manual.
    pub fn name(self) -> &'static str {
        match self {
            StateKind::None => "none",
            StateKind::Replicated => "replicated",
            StateKind::Sharded => "sharded",
            StateKind::SingleHomed => "single-homed",
        }
    }
}

/// Why a node could not be given an implementation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nothing is registered under the node's implementation name.
    #[error("node {node}: no block type `{implementation}`{hint}")]
    UnknownType {
        /// The node.
        node: String,
        /// The name that was looked up.
        implementation: String,
        /// A suggestion, or nothing.
        hint: String,
    },
    /// The node's ports, spawn or notify edges are not those of the type.
    #[error("node {node}: block type `{implementation}` has {what} `{name}`, the node has not")]
    Missing {
        /// The node.
        node: String,
        /// The block type.
        implementation: String,
        /// `port`, `spawn edge` or `notify edge`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The node has a port or edge that the type does not know.
    #[error("node {node}: {what} `{name}` is not one of block type `{implementation}` ({known})")]
    Unknown {
        /// The node.
        node: String,
        /// The block type.
        implementation: String,
        /// `port`, `spawn edge`, `notify edge` or `parameter`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Those that the type has.
        known: String,
    },
    /// A parameter's value is unusable.
    #[error("node {node}: parameter {key}={value}: {problem}")]
    Param {
        /// The node.
        node: String,
        /// The parameter.
        key: String,
        /// The value given.
        value: String,
        /// The fault and the remedy.
        problem: String,
    },
    /// A predicate of the node's cannot be run.
    #[error("node {node}: {problem}")]
    Predicate {
        /// The node.
        node: String,
        /// The test that cannot be run, and why.
        problem: String,
    },
    /// The environment lacks something the block needs.
    #[error("node {node}: {what} is missing from the environment")]
    Environment {
        /// The node.
        node: String,
        /// The missing thing.
        what: &'static str,
    },
}

/// The inputs from which a block type makes a block.
#[derive(Debug)]
pub struct Build<'a> {
    /// The node: name, parameters, and for a table its entries.
    pub node: &'a Node,
    /// Its type.
    pub block_type: &'static BlockType,
    /// The shared state of this stack's blocks.
    pub env: &'a Env,
}

impl Build<'_> {
    /// The value of parameter `key`, or its default, read as a `T`.
    ///
    /// Panics when the type does not declare `key`: that is a bug of the type.
    pub fn param<T: FromStr>(&self, key: &str) -> Result<T, BuildError>
    where
        T::Err: std::fmt::Display,
    {
        let declared = self.block_type.params.iter().find(|p| p.name == key);
        let default =
            declared.expect("a block reads only parameters that its type declares").default;
        let value = self.node.param(key).unwrap_or(default);
        value.parse().map_err(|e: T::Err| self.bad_param(key, value, &e.to_string()))
    }

    /// An error about parameter `key`.
    pub fn bad_param(&self, key: &str, value: &str, problem: &str) -> BuildError {
        BuildError::Param {
            node: self.node.name.clone(),
            key: key.into(),
            value: value.into(),
            problem: problem.into(),
        }
    }

    /// The `T` of the environment, or an error that names `what` as missing.
    pub fn env<T: std::any::Any + Send + Sync>(
        &self,
        what: &'static str,
    ) -> Result<std::sync::Arc<T>, BuildError> {
        let missing = || BuildError::Environment { node: self.node.name.clone(), what };
        self.env.get::<T>().ok_or_else(missing)
    }
}

/// How many ways a shortcut may know.
pub const MAX_WAYS: usize = 32;

/// How many counters of blocks a shortcut may add to.
pub const MAX_COUNTERS: usize = 8;

/// The tasks that have taken each way of a shortcut, and those that blocks on the way would count.
#[derive(Debug, Default)]
pub struct Ways {
    tasks: [Mask; MAX_WAYS],
    /// The ways that have tasks, a bit each: few have, and the others need not be looked at.
    taken: u32,
    /// The counters that have tasks, likewise.
    counting: u32,
    counted: [Mask; MAX_COUNTERS],
}

impl Ways {
    /// Sends a task along way number `way`.
    ///
    /// Panics for a way that cannot be: that is a bug of the shortcut.
    #[inline]
    pub fn take(&mut self, way: usize, task: usize) {
        self.tasks[way] |= 1 << task;
        self.taken |= 1 << way;
    }

    /// Counts a task that has taken a way: adds one to counter number `counter` of the
    /// [run](crate::CompiledRun::counters) once the task is on its way.
    ///
    /// Panics for a counter that cannot be: that is a bug of the shortcut.
    #[inline]
    pub fn count(&mut self, counter: usize, task: usize) {
        self.counted[counter] |= 1 << task;
        self.counting |= 1 << counter;
    }

    /// Whether tasks are to be counted.
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.counting != 0
    }

    /// Removes the counter with the lowest number that has tasks; returns it with them.
    pub fn take_counted(&mut self) -> Option<(usize, Mask)> {
        take_lowest(&mut self.counting, &mut self.counted)
    }

    /// The one way that all of these tasks, and no others, have taken.
    #[inline]
    pub fn only(&self, tasks: Mask) -> Option<usize> {
        let way = self.taken.trailing_zeros() as usize % MAX_WAYS;
        (self.taken.is_power_of_two() && self.tasks[way] == tasks).then_some(way)
    }

    /// Whether no task has taken any.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Removes the way with the lowest number that has tasks; returns it with them.
    #[inline]
    pub fn take_first(&mut self) -> Option<(usize, Mask)> {
        take_lowest(&mut self.taken, &mut self.tasks)
    }

    /// Forgets all tasks.
    pub fn clear(&mut self) {
        while self.take_first().is_some() {}
        while self.take_counted().is_some() {}
    }
}

/// Removes the lowest number that has tasks, a bit each in `having`; returns it with them.
#[inline(always)]
fn take_lowest<const N: usize>(having: &mut u32, tasks: &mut [Mask; N]) -> Option<(usize, Mask)> {
    if *having == 0 {
        return None;
    }
    let lowest = having.trailing_zeros() as usize % N;
    *having &= *having - 1;
    Some((lowest, std::mem::take(&mut tasks[lowest])))
}

/// Judges packets in one step where the nodes of its ways would do it one after the other: what executes a
/// [compiled run](crate::CompiledRun).
///
/// Only for nodes without state of their own that neither take packets away nor start or wake anything for
/// those that go the usual way, and count nothing but what the [run](crate::CompiledRun::counters) names.
pub trait Shortcut: Send {
    /// Sends those tasks of `input`, each with a packet, along a way that its nodes would send there.
    /// Leaves their packets and metadata as those nodes would. A task
    /// that takes no way goes through the nodes as ever: of its packet's metadata, only that may
    /// have been written which those nodes write again before they read it, or would leave as it is.
    /// The same holds for the nodes at which a way ends.
    fn run(&mut self, cx: &Cx<'_>, burst: &mut Burst, input: Mask, ways: &mut Ways);

    /// The same for a task that is alone: returns its way instead of noting it in `ways`, which takes its counts only.
    fn run_alone(
        &mut self,
        cx: &Cx<'_>,
        burst: &mut Burst,
        task: usize,
        ways: &mut Ways,
    ) -> Option<usize> {
        self.run(cx, burst, 1 << task, ways);
        ways.take_first().map(|(way, _)| way)
    }
}

/// Shared state by type: addresses, neighbours, sockets. Blocks look it up when they are built,
/// never per packet, and keep the `Arc`.
///
/// Its contents are read by many and written by one: a type must offer reads that do not lock
/// (design/0000 §4.4). Clones share the contents.
#[derive(Clone, Default)]
pub struct Env {
    entries: Arc<Mutex<Entries>>,
}

type Entries = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

impl Env {
    /// An empty environment.
    pub fn new() -> Env {
        Env::default()
    }

    /// Provides the `T` of this stack, in place of an earlier one.
    pub fn provide<T: Any + Send + Sync>(&self, value: Arc<T>) {
        self.lock().insert(TypeId::of::<T>(), value);
    }

    /// The `T` of this stack, if one was provided.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let found = self.lock().get(&TypeId::of::<T>()).cloned();
        found.and_then(|any| any.downcast::<T>().ok())
    }

    /// The `T` of this stack, made on first use.
    pub fn get_or_default<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let made = |slot: &mut Entries| -> Arc<dyn Any + Send + Sync> {
            let entry = slot.entry(TypeId::of::<T>());
            Arc::clone(
                entry.or_insert_with(|| Arc::new(T::default()) as Arc<dyn Any + Send + Sync>),
            )
        };
        let any = made(&mut self.lock());
        any.downcast::<T>().expect("the key is the type")
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Env({} entries)", self.lock().len())
    }
}
