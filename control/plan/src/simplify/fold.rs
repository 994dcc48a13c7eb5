//! Replaces nodes with a known outcome by edges.

use std::collections::HashSet;

use weever_graph::{
    Attr, Effects, Graph, Node, NodeId, NodeKind, Op, Port, PortId, Predicate, verify,
};

use super::meaning::{PacketSet, meaning};
use super::sever::{only, operands};
use super::spread::{Spread, incoming};

/// What devices have done, or will do.
#[derive(Clone, Copy)]
pub(super) struct Done<'a> {
    /// True of every packet that is received.
    pub(super) vouched: &'a PacketSet,
    /// True of every packet on the wire.
    pub(super) filled: &'a PacketSet,
}

/// Replaces the nodes that can be replaced, and returns their names.
pub(super) fn fold(
    graph: &mut Graph,
    spread: &Spread,
    done: Done<'_>,
    entrances: &HashSet<String>,
) -> Vec<String> {
    let started = started(graph, entrances);
    let mut gone: HashSet<NodeId> = HashSet::new();
    let ids: Vec<NodeId> = graph.iter().map(|(id, _)| id).collect();
    for id in ids.into_iter().filter(|id| !started[id.index()]) {
        let mut next = graph.clone();
        let folded = match graph.node(id).kind {
            NodeKind::Function => fold_function(&mut next, id, spread, done),
            NodeKind::Operator(_) => fold_operator(&mut next, id),
            NodeKind::Config(_) | NodeKind::Table(_) => false,
        };
        // The verifier may need a test that never fails to tell two branches apart.
        if folded && verify(next.clone()).is_ok() {
            *graph = next;
            gone.insert(id);
        }
    }
    let names = gone.iter().map(|id| graph.node(*id).name.clone()).collect();
    *graph = only(graph, |id| !gone.contains(&id));
    names
}

/// The nodes at which tasks start, which must stay.
fn started(graph: &Graph, entrances: &HashSet<String>) -> Vec<bool> {
    let ends = |n: &Node| n.has(&Attr::Source) || n.has(&Attr::Init) || n.has(&Attr::Sink);
    let mut started: Vec<bool> =
        graph.iter().map(|(_, n)| ends(n) || entrances.contains(&n.name)).collect();
    for edge in graph.iter().flat_map(|(_, n)| n.spawns.iter().chain(&n.notifies)) {
        started[edge.target.index()] = true;
    }
    started
}

/// A validator or classifier that only reads, and always takes the same port; or a node of the send side
/// whose work the links do.
fn fold_function(graph: &mut Graph, id: NodeId, spread: &Spread, done: Done<'_>) -> bool {
    let node = graph.node(id);
    let needless = |port: &usize| may_go(node, *port, done.vouched);
    let port = only_port(node, id, spread).filter(needless);
    let Some(port) = port.or_else(|| left_to_links(node, done.filled)) else { return false };
    let out = &node.ports[port];
    if node.drop_reason(&out.name).is_some() {
        return false;
    }
    let incoming = incoming(graph);
    let is_operator = |t: &&NodeId| matches!(graph.node(**t).kind, NodeKind::Operator(_));
    let operators: Vec<NodeId> = out.targets.iter().filter(is_operator).copied().collect();
    let others: Vec<NodeId> = out.targets.iter().filter(|t| !is_operator(t)).copied().collect();
    let name = out.name.clone();
    let needless = |x: &NodeId| is_needless(graph, id, *x, &name, &incoming);
    if incoming[id.index()].is_empty() || out.targets.is_empty() || !operators.iter().all(needless)
    {
        return false;
    }
    hang_on(graph, &incoming[id.index()], id, &others);
    graph.node_mut(id).ports.iter_mut().for_each(|p| p.targets.clear());
    true
}

/// The only port by which packets leave, of several.
fn only_port(node: &Node, id: NodeId, spread: &Spread) -> Option<usize> {
    let taken = |port: &usize| spread.takes(PortId { node: id, port: *port as u32 });
    let mut ports = (0..node.ports.len()).filter(taken);
    let only = ports.next()?;
    (node.ports.len() > 1 && ports.next().is_none()).then_some(only)
}

/// Whether the node has no other effect that matters: it only reads, or the NIC has already recorded
/// its result.
fn may_go(node: &Node, port: usize, vouched: &PacketSet) -> bool {
    let reads = Effects::READS.union(Effects::NEEDS_BUFFER);
    let Some(effects) = node.effects else { return false };
    if !node.spawns.is_empty() || !node.notifies.is_empty() {
        return false;
    }
    let others = node.ports.iter().enumerate().filter(|(i, _)| *i != port);
    let done_before = || {
        let mut others = others;
        others.all(|(_, p)| vouched.and(&meaning(&p.predicate, true)).is_never())
    };
    reads.contains(effects)
        || (reads.union(Effects::MARKS).contains(effects)
            && node.has(&Attr::Offload)
            && done_before())
}

/// The port behind which packets are as the links make them, if making them so is all that the node does.
fn left_to_links(node: &Node, filled: &PacketSet) -> Option<usize> {
    let writes = Effects::READS.union(Effects::NEEDS_BUFFER).union(Effects::WRITES);
    let effects = node.effects?;
    let only_fills = effects.contains(Effects::WRITES)
        && writes.union(Effects::MARKS).contains(effects)
        && node.has(&Attr::Offload)
        && node.spawns.is_empty()
        && node.notifies.is_empty();
    let is_filled = |p: &Port| {
        p.predicate != Predicate::True && filled.and(&meaning(&p.predicate, false)).is_never()
    };
    only_fills.then(|| node.ports.iter().position(is_filled)).flatten()
}

/// Whether an operator has the same outcome without an operand that always has the outcome `name`: the
/// one that decides nothing, and another operand runs only when this one does.
fn is_needless(
    graph: &Graph,
    operand: NodeId,
    operator: NodeId,
    name: &str,
    incoming: &[Vec<PortId>],
) -> bool {
    let NodeKind::Operator(op) = graph.node(operator).kind else { return false };
    let neutral = match op {
        Op::And | Op::Nand => "true",
        Op::Or | Op::Nor => "false",
    };
    let before = &incoming[operand.index()];
    let runs_within = |other: NodeId| {
        let ports = &incoming[other.index()];
        let plain = !matches!(graph.node(other).kind, NodeKind::Operator(_));
        plain && !ports.is_empty() && ports.iter().all(|p| before.contains(p))
    };
    let others = &operands(graph)[operator.index()];
    name == neutral && others.iter().any(|o| *o != operand && runs_within(*o))
}

/// Has the ports that led to `id` lead to `targets` instead.
fn hang_on(graph: &mut Graph, ports: &[PortId], id: NodeId, targets: &[NodeId]) {
    for port in ports {
        let list = &mut graph.node_mut(port.node).ports[port.port as usize].targets;
        list.retain(|t| *t != id);
        for target in targets {
            if !list.contains(target) {
                list.push(*target);
            }
        }
    }
}

/// An `and` or `or` of one operand.
fn fold_operator(graph: &mut Graph, id: NodeId) -> bool {
    let node = graph.node(id).clone();
    let operands = operands(graph).swap_remove(id.index());
    let ([operand], NodeKind::Operator(Op::And | Op::Or)) = (&operands[..], &node.kind) else {
        return false;
    };
    let source = graph.node(*operand);
    let reason_lost =
        |name: &str| node.drop_reason(name).is_some() && source.drop_reason(name).is_none();
    if node.ports.iter().any(|p| reason_lost(&p.name)) {
        return false;
    }
    let ports = incoming(graph).swap_remove(id.index());
    for port in ports {
        let name = &graph.node(port.node).ports[port.port as usize].name;
        let same = node.ports.iter().find(|p| p.name == *name);
        let targets = same.map(|p| p.targets.clone()).unwrap_or_default();
        hang_on(graph, &[port], id, &targets);
    }
    graph.node_mut(id).ports.iter_mut().for_each(|p| p.targets.clear());
    true
}
