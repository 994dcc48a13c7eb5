//! Makes the blocks of graphs.

use weever_block::{Block, BuildError, Env, Registry, Shortcut, ShortcutType};
use weever_graph::{Graph, NodeId, NodeKind};

use super::program::CompiledGraph;

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
    /// The blocks of a graph, by node.
    pub(super) fn blocks(
        &self,
        graph: &Graph,
    ) -> Result<Vec<Option<Box<dyn Block>>>, CompileError> {
        graph.iter().map(|(id, _)| self.block(graph, id)).collect()
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

    /// The shortcuts of a graph, by their numbers.
    pub(super) fn shortcuts(
        &self,
        plan: &CompiledGraph,
    ) -> Result<Vec<Box<dyn Shortcut>>, CompileError> {
        let build = |(node, shortcut): &(NodeId, &'static ShortcutType)| {
            Ok(self.registry.build_shortcut(shortcut, plan.graph.node(*node), &self.env)?)
        };
        plan.program.shortcut_types.iter().map(build).collect()
    }
}
