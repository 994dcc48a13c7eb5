//! The executable form of a graph: blocks and flat arrays of steps.

mod blocks;
mod builder;
mod compile;
mod ids;
mod kept;
mod program;
mod shortcut;
#[cfg(test)]
mod tests;
mod update;

use std::sync::Arc;

use weever_block::{Block, Shortcut};

pub use blocks::CompileError;
pub(crate) use blocks::{BlockMaker, FROM, FROM_QUEUE, TO, TO_QUEUE};
pub(crate) use compile::CompileOptions;
pub(crate) use ids::{DEFAULT, EntryNumbers, Homes, NodeRef, Places};
pub use ids::{Entry, Idp, Idps};
#[cfg(test)]
pub(crate) use program::EntryPlan;
pub(crate) use program::{
    CompiledGraph, End, EntryCode, NO_NODE, NextPlace, NodePlan, Operand, Program, SpawnEdge, Step,
    StepKind, TASKS_SLOT, TaskMasks, Wake, WayPlan, span,
};
pub use update::Update;
pub(crate) use update::{Removed, Transition};

/// A graph ready to run: one block per F- and T-node, and the steps of each entry.
///
/// Entries are the nodes at which tasks may start: those with the attribute `source` or `init`, the
/// targets of spawn and notify edges, nodes that may block, and nodes without incoming edges.
pub struct Schedule {
    pub(crate) plan: Arc<CompiledGraph>,
    /// By place; `None` for an O-node, which the engine runs itself.
    pub(crate) blocks: Vec<Option<Box<dyn Block>>>,
    /// Indexed by their numbers in the program.
    pub(crate) shortcuts: Vec<Option<Box<dyn Shortcut>>>,
    /// Makes further blocks.
    pub(crate) maker: Arc<BlockMaker>,
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

    /// The compiled runs: the node at which each begins, and how many ways it has. For people and tests.
    pub fn runs(&self) -> impl Iterator<Item = (&str, usize)> {
        let program = &self.plan.program;
        let known = program.shortcuts.iter().enumerate();
        known.filter_map(|(number, source)| Some((number, source.as_ref()?))).map(
            |(number, source)| {
                let codes = program.entries.iter().map(|entry| &entry.code);
                let plans =
                    codes.flat_map(|code| code.shortcuts.iter().map(move |plan| (code, plan)));
                let mut plans = plans.filter(|(_, plan)| plan.number as usize == number);
                let ways =
                    plans.next().map_or(&[][..], |(code, plan)| &code.ways[span(&plan.ways)]);
                let open = ways.iter().flatten().count();
                (&*program.nodes[source.place as usize].name, open)
            },
        )
    }

    /// Every entry with its node's name.
    pub fn entries(&self) -> impl Iterator<Item = (Entry, &str)> {
        self.plan.entries().map(|(name, entry)| (entry, name))
    }
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = &self.plan.program.entries;
        let steps: usize = entries.iter().map(|entry| entry.code.steps.len()).sum();
        let entries = entries.len();
        write!(f, "Schedule({entries} entries, {steps} steps)")
    }
}
