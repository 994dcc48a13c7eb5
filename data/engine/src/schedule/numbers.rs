//! The numbers of entries: a place has the same one on every worker, whatever part of the graph each
//! has, so that what crosses between them is found without a search.

use std::collections::HashMap;

use weever_block::Registry;
use weever_graph::{Attr, Effects, Graph, NodeId};

use super::Entry;

/// Which number each node has at which tasks may start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    of: HashMap<String, Entry>,
    count: usize,
}

impl Numbers {
    /// Of the nodes of `graphs` where tasks may start, and of those called `more`. Numbers stay, so
    /// that tasks which wait under them stay where they are, whatever else changes.
    pub(crate) fn next(
        previous: &Numbers,
        graphs: &[&Graph],
        registry: &Registry,
        more: &[&str],
    ) -> Numbers {
        let is_there = |name: &str| graphs.iter().any(|graph| graph.find(name).is_some());
        let stay = previous.of.iter().filter(|(name, _)| is_there(name));
        let mut of: HashMap<String, Entry> = stay.map(|(name, n)| (name.clone(), *n)).collect();
        // A number whose node goes now is not given to another before the next change: tasks may
        // still wait under it.
        let mut is_taken = vec![false; previous.count];
        previous.of.values().for_each(|entry| is_taken[entry.index()] = true);
        let mut free = (0..previous.count).filter(|n| !is_taken[*n]).chain(previous.count..);
        for graph in graphs {
            let more = more.iter().filter_map(|name| graph.find(name));
            for start in starts(graph, registry).into_iter().chain(more) {
                let name = &graph.node(start).name;
                if !of.contains_key(name)
                    && let Some(number) = free.next()
                {
                    of.insert(name.clone(), Entry(number as u32));
                }
            }
        }
        let used = of.values().map(|entry| entry.index() + 1).max().unwrap_or(0);
        Numbers { of, count: previous.count.max(used) }
    }

    /// The number of the node called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<Entry> {
        self.of.get(name).copied()
    }

    /// Every number with its node's name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Entry)> {
        self.of.iter().map(|(name, entry)| (name.as_str(), *entry))
    }

    /// One more than the largest, those that are free included.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

/// Where tasks may start; the same set that verification has checked, and the nodes that block.
fn starts(graph: &Graph, registry: &Registry) -> Vec<NodeId> {
    let mut is_start = vec![true; graph.len()];
    for (_, target) in graph.dataflow() {
        is_start[target.index()] = false;
    }
    for (id, node) in graph.iter() {
        let effects = node.effects.or_else(|| registry.type_of(node).ok().map(|t| t.effects));
        let blocks = effects.is_some_and(|e| e.contains(Effects::BLOCKS));
        if blocks || node.has(&Attr::Source) || node.has(&Attr::Init) {
            is_start[id.index()] = true;
        }
        for edge in node.spawns.iter().chain(&node.notifies) {
            is_start[edge.target.index()] = true;
        }
    }
    graph.iter().map(|(id, _)| id).filter(|id| is_start[id.index()]).collect()
}
