//! Makes the blocks of graphs, among them the engine's own: the two ends of an edge between workers.

use weever_block::{Block, BlockType, BuildError, Burst, Cx, Env, Mask, PortDoc, Ports};
use weever_block::{Registry, Shortcut, StateKind};
use weever_graph::{Effects, Graph, NodeId, NodeKind};

use super::program::{CompiledGraph, ShortcutSource};

/// Why a verified graph cannot be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A node has no implementation, or none that fits.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A config node without a value.
    #[error("node {node}: a config node cannot run; configure it first")]
    NotConfigured {
        /// The node.
        node: String,
    },
}

/// Makes the blocks of graphs.
#[derive(Debug)]
pub(crate) struct BlockMaker {
    pub(crate) registry: Registry,
    pub(crate) env: Env,
}

impl BlockMaker {
    /// The blocks of a graph, by place.
    pub(super) fn blocks(
        &self,
        plan: &CompiledGraph,
    ) -> Result<Vec<Option<Box<dyn Block>>>, CompileError> {
        let mut blocks = Vec::with_capacity(room(plan.places.len()));
        blocks.resize_with(plan.places.len(), || None);
        for ((id, _), node) in plan.graph.iter().zip(&plan.nodes) {
            blocks[node.place as usize] = self.block(&plan.graph, id)?;
        }
        Ok(blocks)
    }

    /// A node's block; none for an operator.
    pub(crate) fn block(
        &self,
        graph: &Graph,
        id: NodeId,
    ) -> Result<Option<Box<dyn Block>>, CompileError> {
        let node = graph.node(id);
        match node.kind {
            NodeKind::Function | NodeKind::Table(_) => {
                Ok(Some(self.registry.build(node, &self.env)?))
            }
            NodeKind::Operator(_) | NodeKind::Config(_) => Ok(None),
        }
    }

    /// The shortcuts of a graph, by their numbers. Numbers of earlier graphs may have none.
    pub(super) fn shortcuts(
        &self,
        plan: &CompiledGraph,
    ) -> Result<Vec<Option<Box<dyn Shortcut>>>, CompileError> {
        let build = |source: &Option<ShortcutSource>| {
            let there = source.as_ref().filter(|source| plan.id_at(source.place).is_some());
            Ok(there.map(|source| source.program.executor(&self.env)).transpose()?)
        };
        plan.program.shortcuts.iter().map(build).collect()
    }
}

/// How many blocks there is room for when there are so many places, so that few changes need more.
pub(super) fn room(places: usize) -> usize {
    places.next_power_of_two().max(64)
}

/// The name prefix of the sending end; the target node's name follows.
pub(crate) const TO_QUEUE: &str = "ToQueue_";
/// The name prefix of the receiving end.
pub(crate) const FROM_QUEUE: &str = "FromQueue_";

/// Ends the task; its packet continues in a new task at the other end. Nothing else of the task may
/// remain, so the node must be a cut vertex, like one that blocks.
pub(crate) static TO: BlockType = BlockType {
    name: "ToQueue",
    summary: "Hands packets over to the worker where the next node is at home.",
    ports: &[],
    spawns: &["queue"],
    notifies: &[],
    effects: Effects::CONSUMES.union(Effects::BLOCKS),
    state: StateKind::None,
    params: &[],
    counters: &[],
    make: |_| Ok(Box::new(To)),
};

/// The receiving end.
pub(crate) static FROM: BlockType = BlockType {
    name: "FromQueue",
    summary: "Where packets arrive that other workers have handed over.",
    ports: &[PortDoc { name: "out", doc: "every packet" }],
    spawns: &[],
    effects: Effects::NONE,
    make: |_| Ok(Box::new(From)),
    ..TO
};

struct To;

impl Block for To {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.spawn(0, input);
    }
}

struct From;

impl Block for From {
    fn run(&mut self, _: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        ports.enable(0, input);
    }
}
