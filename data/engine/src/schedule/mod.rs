//! A graph as it is executed: blocks, and flat arrays of steps.

mod blueprint;
mod board;
mod builder;
mod compile;
mod homes;
mod idps;
mod nodes;
mod numbers;
mod program;
mod shortcut;
#[cfg(test)]
mod tests;
mod update;

use weever_block::{Block, BuildError, Shortcut};

use std::sync::Arc;

pub(crate) use blueprint::Blueprint;
pub(crate) use board::Board;
pub(crate) use compile::Recipe;
pub(crate) use homes::{DEFAULT, Homes};
pub use idps::{Idp, Idps};
pub(crate) use numbers::Numbers;
pub(crate) use program::{
    DropSlot, Operand, Program, SpawnEdge, Step, StepKind, TASKS_SLOT, Wake, WayPlan, span,
};
pub(crate) use update::Removed;
pub(crate) use update::Transition;
pub use update::Update;

/// A place where tasks may start, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry(pub(crate) u32);

impl Entry {
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why a verified graph has no schedule.
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

/// A graph ready to run: one block per F- and T-node, and the steps of each entry.
///
/// Entries are the nodes where tasks may start: those with the attribute `source` or `init`, the
/// targets of spawn and notify edges, nodes that may block, and nodes that nothing leads to.
pub struct Schedule {
    pub(crate) plan: Arc<Blueprint>,
    /// By node; `None` for an O-node, which the engine runs itself.
    pub(crate) blocks: Vec<Option<Box<dyn Block>>>,
    /// By their numbers in the program.
    pub(crate) shortcuts: Vec<Box<dyn Shortcut>>,
}

impl Schedule {
    /// The entry at the node called `node`.
    pub fn entry(&self, node: &str) -> Option<Entry> {
        self.plan.program.entry(node)
    }

    /// The node names of every entry's steps, in the order of execution. For people and tests.
    pub fn steps(&self, entry: Entry) -> impl Iterator<Item = &str> {
        let program = &self.plan.program;
        program.steps(entry).iter().map(|step| &*program.nodes[step.node as usize].name)
    }

    /// The shortcuts: the node at which each begins, its name, and how many ways the graph has of
    /// it. For people and tests.
    pub fn shortcuts(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        let program = &self.plan.program;
        program.shortcut_types.iter().enumerate().map(|(number, (node, shortcut))| {
            let plan = program.shortcuts.iter().find(|plan| plan.number as usize == number);
            let ways = plan.map_or(&[][..], |plan| &program.ways[span(&plan.ways)]);
            let open = ways.iter().flatten().count();
            (&*program.nodes[node.index()].name, shortcut.name, open)
        })
    }

    /// Every entry with its node's name.
    pub fn entries(&self) -> impl Iterator<Item = (Entry, &str)> {
        self.plan.entries().map(|(name, entry)| (entry, name))
    }
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (entries, steps) = (self.plan.program.entries.len(), self.plan.program.steps.len());
        write!(f, "Schedule({entries} entries, {steps} steps)")
    }
}
