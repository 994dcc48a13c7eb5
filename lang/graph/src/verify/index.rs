//! The things that the checks share: the incoming edges of each node, the start nodes of tasks, a topological
//! order or the cycle that prevents it, and the list of findings.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use crate::{Attr, Effects, Finding, Graph, GraphError, Kind, Node, NodeId, PortId, Severity};

/// A set of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSet(Vec<u64>);

impl NodeSet {
    pub(crate) fn new(nodes: usize) -> NodeSet {
        NodeSet(vec![0; nodes.div_ceil(64)])
    }

    /// Whether it was not there before.
    pub(crate) fn insert(&mut self, id: NodeId) -> bool {
        let (word, bit) = (&mut self.0[id.index() / 64], 1 << (id.index() % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(crate) fn contains(&self, id: NodeId) -> bool {
        self.0[id.index() / 64] >> (id.index() % 64) & 1 == 1
    }
}

/// Incoming edges and start nodes of a graph in which all edges have targets.
pub(crate) struct Index {
    /// Per node, the ports that lead to it, each once.
    pub(crate) incoming: Vec<Vec<PortId>>,
    /// The starts of tasks that the graph declares: `init`, `source`, spawn and notify targets.
    pub(crate) declared_starts: Vec<NodeId>,
}

impl Index {
    pub(crate) fn new(graph: &Graph) -> Index {
        let mut incoming = vec![Vec::new(); graph.len()];
        for (port, target) in graph.dataflow() {
            let ports: &mut Vec<PortId> = &mut incoming[target.index()];
            if ports.last() != Some(&port) {
                ports.push(port);
            }
        }
        Index { incoming, declared_starts: declared_starts(graph) }
    }

    /// Nodes that nothing leads to.
    pub(crate) fn roots(&self) -> impl Iterator<Item = NodeId> + '_ {
        let rootless = |(i, ports): (usize, &Vec<PortId>)| ports.is_empty().then_some(id_at(i));
        self.incoming.iter().enumerate().filter_map(rootless)
    }

    /// Every node where a task may start: the declared ones, all roots, since a caller may start
    /// a task at any of them, and those where a blocked task goes on.
    pub(crate) fn starts(&self, graph: &Graph) -> Vec<NodeId> {
        let blocks = |n: &Node| n.effects.is_some_and(|e| e.contains(Effects::BLOCKS));
        let blocking = graph.iter().filter(|(_, n)| blocks(n)).map(|(id, _)| id);
        let mut all: Vec<NodeId> =
            self.declared_starts.iter().copied().chain(self.roots()).chain(blocking).collect();
        all.sort();
        all.dedup();
        all
    }
}

pub(crate) fn id_at(index: usize) -> NodeId {
    NodeId(index as u32)
}

fn declared_starts(graph: &Graph) -> Vec<NodeId> {
    let mut starts = Vec::new();
    for (id, node) in graph.iter() {
        if node.has(&Attr::Init) || node.has(&Attr::Source) {
            starts.push(id);
        }
        starts.extend(node.spawns.iter().chain(&node.notifies).map(|e| e.target));
    }
    starts.sort();
    starts.dedup();
    starts
}

/// The nodes that dataflow leads to from `from`, without `from` itself.
pub(crate) fn descendants(graph: &Graph, from: NodeId) -> NodeSet {
    let mut behind = NodeSet::new(graph.len());
    reached_from(graph, from)[1..].iter().for_each(|id| _ = behind.insert(*id));
    behind
}

/// `from`, then the nodes that dataflow leads to from there, in no particular order.
pub(crate) fn reached_from(graph: &Graph, from: NodeId) -> Vec<NodeId> {
    let mut seen = NodeSet::new(graph.len());
    seen.insert(from);
    let (mut reached, mut next) = (vec![from], 0);
    while let Some(id) = reached.get(next).copied() {
        next += 1;
        for target in graph.node(id).ports.iter().flat_map(|p| &p.targets) {
            if seen.insert(*target) {
                reached.push(*target);
            }
        }
    }
    reached
}

/// Every node after all that lead to it; where that leaves a choice, in the order of adding.
/// Otherwise one cycle, in the direction of its edges.
pub(crate) fn topological(graph: &Graph, index: &Index) -> Result<Vec<NodeId>, Vec<NodeId>> {
    let mut waiting: Vec<usize> = graph.iter().map(|_| 0).collect();
    for (_, target) in graph.dataflow() {
        waiting[target.index()] += 1;
    }
    let mut ready: BinaryHeap<Reverse<NodeId>> = graph
        .iter()
        .filter(|(id, _)| waiting[id.index()] == 0)
        .map(|(id, _)| Reverse(id))
        .collect();
    let mut order = Vec::with_capacity(graph.len());
    while let Some(Reverse(id)) = ready.pop() {
        order.push(id);
        for target in graph.node(id).ports.iter().flat_map(|p| &p.targets) {
            waiting[target.index()] -= 1;
            if waiting[target.index()] == 0 {
                ready.push(Reverse(*target));
            }
        }
    }
    match waiting.iter().position(|w| *w > 0) {
        None => Ok(order),
        Some(stuck) => Err(cycle_behind(index, &waiting, id_at(stuck))),
    }
}

/// Walks backwards among the nodes that never became ready: each has such a predecessor, so the
/// walk must meet itself.
fn cycle_behind(index: &Index, waiting: &[usize], from: NodeId) -> Vec<NodeId> {
    let mut seen_at = vec![None; waiting.len()];
    let mut walk: Vec<NodeId> = Vec::new();
    let mut at = from;
    while seen_at[at.index()].is_none() {
        seen_at[at.index()] = Some(walk.len());
        walk.push(at);
        let stuck = index.incoming[at.index()].iter().map(|p| p.node);
        match stuck.into_iter().find(|n| waiting[n.index()] > 0) {
            Some(previous) => at = previous,
            None => break,
        }
    }
    let mut cycle = walk.split_off(seen_at[at.index()].unwrap_or(0));
    cycle.reverse();
    cycle
}

pub(crate) struct FindingList<'a> {
    graph: &'a Graph,
    findings: Vec<Finding>,
    known: HashSet<(Kind, NodeId, String)>,
}

impl<'a> FindingList<'a> {
    pub(crate) fn new(graph: &'a Graph) -> FindingList<'a> {
        FindingList { graph, findings: Vec::new(), known: HashSet::new() }
    }

    /// Adds a finding about `node`, once.
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        node: NodeId,
        message: String,
        remedy: impl Into<String>,
    ) {
        if self.known.insert((kind, node, message.clone())) {
            let span = self.graph.node(node).span;
            self.findings.push(Finding { kind, node, span, message, remedy: remedy.into() });
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.findings.iter().any(|f| f.severity() == Severity::Error)
    }

    /// Everything found, in the order of severity and then of the text.
    pub(crate) fn into_findings(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|f| (std::cmp::Reverse(f.severity()), f.node));
        self.findings
    }

    /// The errors, if there are any; else the rest.
    pub(crate) fn into_result(self) -> Result<Vec<Finding>, Vec<GraphError>> {
        let failed = self.has_errors();
        let mut findings = self.into_findings();
        if failed {
            findings.retain(|f| f.severity() == Severity::Error);
            return Err(findings);
        }
        Ok(findings)
    }
}
