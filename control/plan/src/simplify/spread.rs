//! The packets that get to every node and leave by every port: predicates aggregated along the edges
//! (Dragonet thesis §2.3.2).

use std::collections::HashSet;

use weever_graph::{Attr, Effects, Graph, Node, NodeId, NodeKind, Op, PortId};

use super::meaning::{PacketSet, by_entries, meaning};

/// The packets that reach each node.
pub(super) struct Spread {
    /// By node: the packets for which it runs. An operator runs when it has an outcome.
    pub(super) runs: Vec<PacketSet>,
    /// The leaving packets, by node and port.
    pub(super) ports: Vec<Vec<PacketSet>>,
}

impl Spread {
    /// Whether any packet, or a task without one, gets to `id`.
    pub(super) fn reaches(&self, id: NodeId) -> bool {
        !self.runs[id.index()].is_never()
    }

    /// Whether anything leaves by `port`.
    pub(super) fn takes(&self, port: PortId) -> bool {
        !self.ports[port.node.index()][port.port as usize].is_never()
    }
}

/// The starts of tasks that no edge of the graph starts.
pub(super) struct TaskStarts<'a> {
    /// The packets that can arrive at the nodes with the attribute `source`.
    pub(super) arriving: &'a PacketSet,
    /// The names of the others.
    pub(super) entrances: &'a HashSet<String>,
    /// Nodes that count as reached by anything.
    pub(super) forced: &'a [NodeId],
}

/// Spreads packets from the starts; spawned tasks start anew, with unknown packets.
pub(super) fn spread(graph: &Graph, starts: &TaskStarts<'_>) -> Spread {
    let order = order(graph);
    let incoming = incoming(graph);
    let mut started: Vec<Option<PacketSet>> =
        graph.iter().map(|(id, node)| first_start(id, node, starts)).collect();
    loop {
        let mut now = Spread {
            runs: vec![PacketSet::never(); graph.len()],
            ports: graph.iter().map(|(_, n)| vec![PacketSet::never(); n.ports.len()]).collect(),
        };
        for id in &order {
            let at = NodeView { graph, id: *id, incoming: &incoming[id.index()] };
            at.visit(&mut now, started[id.index()].as_ref());
        }
        if !start_more(graph, &now, &mut started) {
            return now;
        }
    }
}

/// Starts tasks at the spawn and notify targets of the nodes that run. Returns whether any of this is
/// new.
fn start_more(graph: &Graph, now: &Spread, started: &mut [Option<PacketSet>]) -> bool {
    let mut more = false;
    for (_, node) in graph.iter().filter(|(id, _)| now.reaches(*id)) {
        for edge in node.spawns.iter().chain(&node.notifies) {
            let start = &mut started[edge.target.index()];
            more |= start.as_ref() != Some(&PacketSet::always());
            *start = Some(PacketSet::always());
        }
    }
    more
}

fn first_start(id: NodeId, node: &Node, starts: &TaskStarts<'_>) -> Option<PacketSet> {
    if starts.entrances.contains(&node.name) || starts.forced.contains(&id) {
        return Some(PacketSet::always());
    }
    node.has(&Attr::Source).then(|| starts.arriving.clone())
}

struct NodeView<'a> {
    graph: &'a Graph,
    id: NodeId,
    incoming: &'a [PortId],
}

impl NodeView<'_> {
    fn visit(&self, now: &mut Spread, start: Option<&PacketSet>) {
        let node = self.graph.node(self.id);
        let at = self.id.index();
        if let NodeKind::Operator(op) = node.kind {
            let outcome = match start {
                Some(start) => [start.clone(), start.clone()],
                None => self.outcome(op, now),
            };
            now.runs[at] = outcome[0].clone().or(&outcome[1]);
            now.ports[at] = outcome.into_iter().take(node.ports.len()).collect();
            return;
        }
        let start = start.cloned().unwrap_or_else(PacketSet::never);
        let leaving = |p: &PortId| &now.ports[p.node.index()][p.port as usize];
        let runs = self.incoming.iter().fold(start, |all, p| all.or(leaving(p)));
        if !runs.is_never() {
            now.ports[at] = leaving_by(node, &runs);
        }
        now.runs[at] = runs;
    }

    /// `false` and `true` of an operator (design/0000 §4.2): an operand is a source node.
    fn outcome(&self, op: Op, now: &Spread) -> [PacketSet; 2] {
        let mut sources: Vec<NodeId> = self.incoming.iter().map(|p| p.node).collect();
        sources.sort_unstable();
        sources.dedup();
        let of = |source: NodeId, name: &str| {
            let from = |p: &&PortId| p.node == source && self.name(**p) == name;
            let port = self.incoming.iter().find(from);
            port.map_or_else(PacketSet::never, |p| {
                now.ports[p.node.index()][p.port as usize].clone()
            })
        };
        let each = |name: &'static str| sources.iter().map(move |s| of(*s, name));
        let every = |name| match sources.is_empty() {
            true => PacketSet::never(),
            false => each(name).fold(PacketSet::always(), |all, c| all.and(&c)),
        };
        let some = |name| each(name).fold(PacketSet::never(), |any, c| any.or(&c));
        match op {
            Op::And => [some("false"), every("true")],
            Op::Or => [every("false"), some("true")],
            Op::Nand => [every("true"), some("false")],
            Op::Nor => [some("true"), every("false")],
        }
    }

    fn name(&self, port: PortId) -> &str {
        &self.graph.node(port.node).ports[port.port as usize].name
    }
}

fn leaving_by(node: &Node, runs: &PacketSet) -> Vec<PacketSet> {
    // Knowledge of a packet does not apply to packets made from it.
    let changes = Effects::WRITES.union(Effects::MOVES_HEAD);
    let forgets = node.effects.is_some_and(|e| e.intersects(changes));
    let after = if forgets { PacketSet::always() } else { runs.clone() };
    match &node.kind {
        NodeKind::Table(table) => by_entries(table, node.ports.len(), &after),
        _ => node.ports.iter().map(|p| after.and(&meaning(&p.predicate, true))).collect(),
    }
}

/// The ports that lead to each node.
pub(super) fn incoming(graph: &Graph) -> Vec<Vec<PortId>> {
    let mut incoming: Vec<Vec<PortId>> = vec![Vec::new(); graph.len()];
    for (port, target) in graph.dataflow() {
        let ports = &mut incoming[target.index()];
        if ports.last() != Some(&port) {
            ports.push(port);
        }
    }
    incoming
}

/// Every node after its predecessors.
fn order(graph: &Graph) -> Vec<NodeId> {
    let mut waiting = vec![0usize; graph.len()];
    for (_, target) in graph.dataflow() {
        waiting[target.index()] += 1;
    }
    let roots = graph.iter().map(|(id, _)| id).filter(|id| waiting[id.index()] == 0);
    let (mut order, mut next): (Vec<NodeId>, usize) = (roots.collect(), 0);
    while let Some(id) = order.get(next).copied() {
        next += 1;
        for target in graph.node(id).ports.iter().flat_map(|p| &p.targets) {
            waiting[target.index()] -= 1;
            if waiting[target.index()] == 0 {
                order.push(*target);
            }
        }
    }
    order
}
