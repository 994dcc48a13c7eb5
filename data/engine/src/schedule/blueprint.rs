//! What a graph is compiled to, without its blocks: the same for every worker that runs it.

use weever_graph::Verified;

use super::program::NO_NODE;
use super::{Entry, Numbers, Program};
use crate::counters::Layout;

/// A compiled graph.
#[derive(Debug)]
pub(crate) struct Blueprint {
    pub(crate) graph: Verified,
    pub(crate) program: Program,
    pub(crate) layout: Layout,
    /// The same for every worker of a team.
    pub(crate) numbers: Numbers,
}

impl Blueprint {
    /// Where tasks for the node called `name` start, here or elsewhere.
    pub(crate) fn start_of(&self, name: &str) -> Option<Entry> {
        let entry = self.numbers.get(name)?;
        (!self.program.entries[entry.index()].is_hole()).then_some(entry)
    }

    /// The name of every entry's node, of those that are here.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, Entry)> {
        let entries = self.program.entries.iter().enumerate();
        let entries = entries.filter(|(_, plan)| plan.node != NO_NODE);
        entries.map(|(i, plan)| {
            let name = &*self.program.nodes[plan.node as usize].name;
            (name, Entry(i as u32))
        })
    }
}
