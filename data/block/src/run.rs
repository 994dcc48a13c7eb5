//! Runs of nodes that are compiled together: the seam between a schedule and what executes a run.
//!
//! ```text
//!  graph ──RunCompiler──► CompiledRun: ways, for the schedule's counters and what comes next
//!                                    └ program ──RunProgram──► a Shortcut for each worker
//! ```
//!
//! A compiler looks at predicates and at what blocks declare, once for a graph; its program is shared by
//! all workers, each of which makes an executor of its own. Another back end is another compiler.

use std::fmt::Debug;
use std::sync::Arc;

use weever_graph::{Graph, NodeId, PortId};

use crate::{BlockType, BuildError, Env, Shortcut};

/// A way of packets through a run: the nodes that they pass, operators left out, each with the number of
/// the port in the graph by which they leave it. Every node that is reached and not listed is an end.
pub type NodeWay = Vec<(NodeId, u32)>;

/// A counter of a block's own: its node, and the number that the block gives it.
pub type OwnCounter = (NodeId, u32);

/// The place in a graph at which a run would begin.
pub struct RunStart<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Its nodes in the order in which they run.
    pub order: &'a [NodeId],
    /// The node at which it begins.
    pub node: NodeId,
    /// By node: the ports that lead to it, each once.
    pub incoming: &'a [Vec<PortId>],
    /// The type of a node's block; none of operators.
    pub type_of: &'a dyn Fn(NodeId) -> Option<&'static BlockType>,
}

/// Compiles runs of nodes.
pub trait RunCompiler: Debug + Send + Sync {
    /// The run that begins at a node; `None` if nothing is gained there. Does not block, and is a function of
    /// the graph alone.
    fn compile(&self, start: &RunStart<'_>) -> Option<CompiledRun>;

    /// All that the run depends on before its first node, as a number: while that is the same, and neither the
    /// node nor one behind it changes, the run stays.
    fn before(&self, start: &RunStart<'_>) -> u64;
}

/// A run of nodes: how packets may pass it, and the program that decides how each does.
#[derive(Clone, Debug)]
pub struct CompiledRun {
    /// The ways, at most [`MAX_WAYS`](crate::MAX_WAYS). They differ in a port.
    pub ways: Vec<NodeWay>,
    /// The counters that the program adds to, at most [`MAX_COUNTERS`](crate::MAX_COUNTERS).
    pub counters: Vec<OwnCounter>,
    /// The program. Its executors number the ways and counters as they are here.
    pub program: Arc<dyn RunProgram>,
}

/// The compiled form of a run, without state.
pub trait RunProgram: Debug + Send + Sync {
    /// Makes what runs it, for one worker.
    ///
    /// # Errors
    /// The environment lacks something that the nodes of the run need.
    fn executor(&self, env: &Env) -> Result<Box<dyn Shortcut>, BuildError>;
}
