//! What a graph is compiled to, without its blocks: the same for every worker.

use weever_graph::Verified;

use super::program::NO_NODE;
use super::{Entry, Program};
use crate::counters::Layout;

/// A compiled graph.
#[derive(Debug)]
pub(crate) struct Blueprint {
    pub(crate) graph: Verified,
    pub(crate) program: Program,
    pub(crate) layout: Layout,
}

impl Blueprint {
    /// The name of every entry's node.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, Entry)> {
        let entries = self.program.entries.iter().enumerate();
        let entries = entries.filter(|(_, plan)| plan.node != NO_NODE);
        entries.map(|(i, plan)| {
            let name = &*self.program.nodes[plan.node as usize].name;
            (name, Entry(i as u32))
        })
    }
}
