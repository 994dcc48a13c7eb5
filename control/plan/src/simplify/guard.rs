//! Packets for which a graph is not made go to the whole graph.
//!
//! A packet that contradicts the knowledge about a queue leaves some node by a port that was thought
//! unused. If that port leads to nodes that are still there, the packet may go on. Otherwise the port's
//! edge leads to a node that hands the packet over, to start from the beginning. Nothing else may
//! happen to the packet here: the verifier checks this, and where it objects, the nodes behind the port
//! stay. Nodes that run at another worker keep their names, so that tasks can be sent there.

use std::collections::HashSet;

use weever_graph::{Attr, Edge, Effects, Graph, Node, NodeId, NodeKind, Port, PortId, verify};

use super::meaning::PacketSet;
use super::report::SimplifyReport;
use super::sever::{only, operands, settle_operators};
use super::spread::{Spread, TaskStarts, spread};

/// How packets get from a queue's graph to the whole one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The name of the node that hands over.
    pub foreign: String,
    /// Its implementation.
    pub implementation: String,
    /// The label of its spawn edge.
    pub label: String,
    /// The name of the node at the default worker where the whole graph starts for them.
    pub whole: String,
    /// The default worker.
    pub worker: u16,
}

impl Default for HandOver {
    fn default() -> HandOver {
        HandOver {
            foreign: "RxForeign".into(),
            implementation: "Foreign".into(),
            label: "whole".into(),
            whole: "RxWhole".into(),
            worker: 0,
        }
    }
}

impl HandOver {
    /// The whole graph with the node where packets come in that other graphs were not made for. It
    /// leads where the node with the attribute `source` leads.
    pub fn with_entrance(&self, graph: &Graph, pass_on: &str) -> Graph {
        let mut graph = graph.clone();
        let source = graph.iter().find(|(_, n)| n.has(&Attr::Source));
        if let Some((_, source)) = source.filter(|_| graph.find(&self.whole).is_none()) {
            let targets = source.ports.first().map(|p| p.targets.clone()).unwrap_or_default();
            let mut whole = stub(&self.whole, pass_on, self.worker);
            whole.ports[0].targets = targets;
            whole.effects = None;
            graph.add(whole);
        }
        graph
    }
}

/// The part of `graph` that `arriving` packets need, with an edge to the whole graph wherever others
/// would leave it; the graph itself, should the verifier not be able to follow.
pub(super) fn guard(
    graph: &Graph,
    arriving: &PacketSet,
    entrances: &HashSet<String>,
    to: &HandOver,
    pass_on: &str,
    report: &mut SimplifyReport,
) -> Graph {
    let mut forced: Vec<NodeId> = Vec::new();
    loop {
        let spread = spread(graph, &TaskStarts { arriving, entrances, forced: &forced });
        let kept = kept(graph, &spread);
        let frontier = frontier(graph, &spread, &kept);
        let objections = objections(graph, &kept, &frontier);
        if objections.is_empty() {
            let guarded = cut(graph, &kept, &frontier, to, pass_on);
            if verify(guarded.clone()).is_err() {
                return graph.clone();
            }
            report.foreign = frontier.iter().map(|p| named(graph, *p)).collect();
            return guarded;
        }
        let behind = objections.iter().flat_map(|p| targets(graph, *p));
        forced.extend(behind.filter(|t| !kept[t.index()]));
    }
}

fn targets(graph: &Graph, port: PortId) -> impl Iterator<Item = NodeId> + '_ {
    graph.node(port.node).ports[port.port as usize].targets.iter().copied()
}

fn named(graph: &Graph, port: PortId) -> (String, String) {
    let node = graph.node(port.node);
    (node.name.clone(), node.ports[port.port as usize].name.clone())
}

/// The nodes that `spread` reaches, the sources, and operators with all operands kept: each operand may
/// agree with the plan while their combination contradicts it.
fn kept(graph: &Graph, spread: &Spread) -> Vec<bool> {
    let is_kept = |(id, node): (NodeId, &Node)| spread.reaches(id) || node.has(&Attr::Source);
    let mut kept: Vec<bool> = graph.iter().map(is_kept).collect();
    let operands = operands(graph);
    loop {
        let decided = |(id, node): &(NodeId, &Node)| {
            let operands = &operands[id.index()];
            matches!(node.kind, NodeKind::Operator(_))
                && !kept[id.index()]
                && !operands.is_empty()
                && operands.iter().all(|o| kept[o.index()])
        };
        let Some((id, _)) = graph.iter().find(decided) else { return kept };
        kept[id.index()] = true;
    }
}

/// The ports by which only foreign packets leave the kept part.
fn frontier(graph: &Graph, spread: &Spread, kept: &[bool]) -> Vec<PortId> {
    let mut frontier = Vec::new();
    for (node, n) in graph.iter().filter(|(id, _)| kept[id.index()]) {
        let ports = (0..n.ports.len() as u32).map(|port| PortId { node, port });
        let leaves = |p: &PortId| targets(graph, *p).any(|t| !kept[t.index()]);
        frontier.extend(ports.filter(|p| !spread.takes(*p) && leaves(p)));
    }
    frontier
}

/// The ports of the frontier at which handing over would not be all that happens.
fn objections(graph: &Graph, kept: &[bool], frontier: &[PortId]) -> Vec<PortId> {
    // First, because a conflict is reported at the first of the two nodes.
    let mut trial = Graph::new("trial");
    for _ in frontier {
        let name = format!("foreign {}", trial.len());
        let mut foreign = Node::new(name, NodeKind::Function);
        foreign.effects = Some(hands_over());
        trial.add(foreign);
    }
    let offset = frontier.len() as u32;
    let shifted = |id: NodeId| NodeId(id.0 + offset);
    for (id, node) in graph.iter() {
        trial.add(shift(node, kept[id.index()], &shifted));
    }
    for (i, port) in frontier.iter().enumerate() {
        let ports = &mut trial.node_mut(shifted(port.node)).ports;
        ports[port.port as usize].targets = vec![NodeId(i as u32)];
    }
    let Err(errors) = verify(trial) else { return Vec::new() };
    let mut at: Vec<usize> = errors.iter().map(|e| e.node.index()).collect();
    at.sort_unstable();
    at.dedup();
    at.into_iter().filter_map(|i| frontier.get(i).copied()).collect()
}

fn hands_over() -> Effects {
    Effects::READS.union(Effects::NEEDS_BUFFER).union(Effects::CONSUMES)
}

/// The node, with its ids moved. A node that changes state must not see a packet twice, so it counts as
/// taking it.
fn shift(node: &Node, kept: bool, shifted: &dyn Fn(NodeId) -> NodeId) -> Node {
    let mut node = node.clone();
    if node.effects.is_some_and(|e| e.contains(Effects::STATEFUL)) {
        node.effects = node.effects.map(|e| e.union(Effects::CONSUMES));
    }
    for port in &mut node.ports {
        match kept {
            true => port.targets.iter_mut().for_each(|t| *t = shifted(*t)),
            false => port.targets.clear(),
        }
    }
    for edge in node.spawns.iter_mut().chain(&mut node.notifies) {
        edge.target = shifted(edge.target);
    }
    node
}

fn cut(graph: &Graph, kept: &[bool], frontier: &[PortId], to: &HandOver, pass_on: &str) -> Graph {
    let mut out = graph.clone();
    let before = operands(graph);
    if !frontier.is_empty() {
        let whole = out.find(&to.whole);
        let whole = whole.unwrap_or_else(|| out.add(stub(&to.whole, pass_on, to.worker)));
        let foreign = out.add(foreign(to, whole));
        for port in frontier {
            out.node_mut(port.node).ports[port.port as usize].targets = vec![foreign];
        }
    }
    let stays =
        |id: NodeId| kept.get(id.index()).is_none_or(|k| *k) || out.node(id).name == to.whole;
    let dead: Vec<bool> = out.iter().map(|(id, _)| !stays(id)).collect();
    for at in 0..out.len() {
        let node = out.node_mut(NodeId(at as u32));
        for port in &mut node.ports {
            port.targets.retain(|t| !dead[t.index()] && !dead[at]);
        }
    }
    settle_operators(&mut out, &before);
    only(&out, |id| !dead[id.index()])
}

fn foreign(to: &HandOver, whole: NodeId) -> Node {
    let mut node = Node::new(to.foreign.clone(), NodeKind::Function);
    node.implementation = Some(to.implementation.clone());
    node.effects = Some(hands_over());
    node.spawns.push(Edge { label: to.label.clone(), target: whole, predicates: Vec::new() });
    node
}

/// Where a node runs, if several workers share a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The node runs at each worker.
    Any,
    /// At the worker that the graph is for, where others may start tasks.
    Here,
    /// At the worker of this number: only its name is needed here.
    Elsewhere(u16),
}

/// The names of the nodes where tasks start here that no edge starts here: those with `init`, roots
/// that are no edge's target, and nodes that other workers start.
pub(super) fn entrances(graph: &Graph, home: &dyn Fn(&Node) -> Home) -> HashSet<String> {
    let mut led_to = vec![false; graph.len()];
    graph.dataflow().for_each(|(_, to)| led_to[to.index()] = true);
    let mut started = vec![false; graph.len()];
    for edge in graph.iter().flat_map(|(_, n)| n.spawns.iter().chain(&n.notifies)) {
        started[edge.target.index()] = true;
    }
    let is_entrance = |(id, node): &(NodeId, &Node)| {
        let (led_to, started) = (led_to[id.index()], started[id.index()]);
        let root = !led_to && !started && !node.has(&Attr::Source);
        match home(node) {
            Home::Elsewhere(_) => false,
            Home::Here if started => true,
            Home::Here | Home::Any => node.has(&Attr::Init) || root,
        }
    };
    graph.iter().filter(is_entrance).map(|(_, n)| n.name.clone()).collect()
}

/// Replaces each node that runs at another worker by a node that leads nowhere.
pub(super) fn stand_in(graph: &mut Graph, home: &dyn Fn(&Node) -> Home, pass_on: &str) {
    let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
    for id in ids {
        if let Home::Elsewhere(worker) = home(graph.node(id)) {
            let stub = stub(&graph.node(id).name, pass_on, worker);
            let old = graph.node_mut(id);
            let (clusters, span) = (std::mem::take(&mut old.clusters), old.span);
            *old = Node { clusters, span, ..stub };
        }
    }
}

/// A node of this name that runs at a worker.
pub(super) fn stub(name: &str, pass_on: &str, worker: u16) -> Node {
    let mut stub = Node::new(name, NodeKind::Function);
    stub.implementation = Some(pass_on.into());
    stub.ports.push(Port { name: "out".into(), ..Port::default() });
    stub.attrs.push(Attr::Param { key: "worker".into(), value: worker.to_string() });
    // Packets that arrive here go on at that worker: no drop.
    stub.attrs.push(Attr::Param { key: "ends".into(), value: "out".into() });
    stub.effects = Some(Effects::READS.union(Effects::NEEDS_BUFFER));
    stub
}
