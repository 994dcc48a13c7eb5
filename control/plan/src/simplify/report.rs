//! The effect of simplification, in numbers and names.

use weever_graph::{Attr, Graph, NodeId};

/// The size of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Its nodes.
    pub nodes: usize,
    /// Nodes that a received packet's task can run: steps of the schedule from the source on.
    pub steps: usize,
    /// The number of nodes on the longest path.
    pub depth: usize,
}

impl Size {
    /// The size of a graph.
    pub fn of(graph: &Graph) -> Size {
        let sources = graph.iter().filter(|(_, n)| n.has(&Attr::Source)).map(|(id, _)| id);
        let mut depths: Vec<Option<usize>> = vec![None; graph.len()];
        let mut depth = 0;
        for source in sources {
            depth = depth.max(longest(graph, source, &mut depths));
        }
        let steps = depths.iter().flatten().count();
        Size { nodes: graph.len(), steps, depth }
    }
}

fn longest(graph: &Graph, id: NodeId, known: &mut [Option<usize>]) -> usize {
    if let Some(depth) = known[id.index()] {
        return depth;
    }
    let targets = graph.node(id).ports.iter().flat_map(|p| &p.targets);
    let below = targets.map(|t| longest(graph, *t, known)).max().unwrap_or(0);
    known[id.index()] = Some(below + 1);
    below + 1
}

/// The effect of simplification on a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimplifyReport {
    /// The size before.
    pub before: Size,
    /// The size after.
    pub after: Size,
    /// Nodes that became edges, sorted.
    pub folded: Vec<String>,
    /// Ports by which packets are handed over to the whole graph: node, port.
    pub foreign: Vec<(String, String)>,
    /// Removed nodes, those that became edges included, sorted.
    pub removed: Vec<String>,
    names: Vec<String>,
}

impl SimplifyReport {
    pub(super) fn of(graph: &Graph) -> SimplifyReport {
        let names = graph.iter().map(|(_, n)| n.name.clone()).collect();
        SimplifyReport { before: Size::of(graph), names, ..SimplifyReport::default() }
    }

    pub(super) fn finish(&mut self, graph: &Graph) {
        self.after = Size::of(graph);
        self.folded.sort();
        let mut names = std::mem::take(&mut self.names);
        names.retain(|n| graph.find(n).is_none());
        names.sort();
        self.removed = names;
    }
}
