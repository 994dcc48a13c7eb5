//! Graphs of random specifications.

use weever_block::BlockType;
use weever_graph::{Attr, Edge, Graph, Node, NodeId, NodeKind, Op, Port, Verified, verify};

use super::registry;

/// A node of a random graph. Numbers are reduced to those possible at its place.
#[derive(Clone, Debug)]
pub(crate) struct NodeSpec {
    pub(crate) kind: u8,
    pub(crate) targets: Vec<u16>,
    pub(crate) spawn: u16,
    pub(crate) seed: u64,
}

/// Kinds below this have no state.
pub(crate) const STATELESS: u8 = 17;
pub(crate) const KINDS: u8 = 21;
/// Where a run begins, and where it goes on.
pub(crate) const QUICK_KINDS: [u8; 2] = [21, 22];

fn shape(kind: u8) -> (NodeKind, &'static str) {
    match kind {
        0..=2 => (NodeKind::Function, "Two"),
        3 => (NodeKind::Function, "One"),
        4 | 5 => (NodeKind::Function, "Three"),
        6 => (NodeKind::Function, "Needy"),
        7 => (NodeKind::Function, "Eater"),
        8 => (NodeKind::Function, "Sender"),
        9 => (NodeKind::Operator(Op::Nand), ""),
        10 => (NodeKind::Operator(Op::Nor), ""),
        11 | 12 => (NodeKind::Operator(Op::And), ""),
        13 | 14 => (NodeKind::Operator(Op::Or), ""),
        15 => (NodeKind::Function, "Mover"),
        16 => (NodeKind::Function, "Parent"),
        17 | 18 => (NodeKind::Function, "Blocker"),
        21 => (NodeKind::Function, "Quick"),
        22 => (NodeKind::Function, "Swift"),
        _ => (NodeKind::Function, "Waker"),
    }
}

fn is_operator(kind: u8) -> bool {
    matches!(shape(kind).0, NodeKind::Operator(_))
}

/// The block type of a specification; none of an operator.
fn block_type(spec: &NodeSpec) -> Option<&'static BlockType> {
    registry().iter().find(|t| t.name == shape(spec.kind).1)
}

/// Builds a graph of the specs: edges lead from earlier to later ones. `reverse` adds them to the
/// graph the other way round, so that its order is not that of adding.
pub(crate) fn graph(specs: &[NodeSpec], reverse: bool) -> Verified {
    let mut specs = specs.to_vec();
    // Spawn edges lead forwards, so that every run ends; the last node has nowhere to spawn to.
    if let Some(last) = specs.last_mut().filter(|s| matches!(shape(s.kind).1, "Mover" | "Parent")) {
        last.kind = 0;
    }
    let plan = Plan { specs: &specs, reverse };
    let mut nodes: Vec<Node> = (0..specs.len()).map(|i| plan.node(i)).collect();
    if reverse {
        nodes.reverse();
    }
    let mut graph = Graph::new("random");
    nodes.into_iter().for_each(|node| {
        graph.add(node);
    });
    verify(graph).expect("random graphs are sound")
}

/// The nodes that a graph is to be made of.
struct Plan<'a> {
    specs: &'a [NodeSpec],
    reverse: bool,
}

impl Plan<'_> {
    fn id(&self, i: usize) -> NodeId {
        NodeId(if self.reverse { self.specs.len() - 1 - i } else { i } as u32)
    }

    fn node(&self, i: usize) -> Node {
        let spec = &self.specs[i];
        let mut node = Node::new(format!("n{i}"), shape(spec.kind).0);
        if let Some(block_type) = block_type(spec) {
            // A node with a parameter of its own is not on the usual way.
            if !QUICK_KINDS.contains(&spec.kind) || spec.seed % 16 == 1 {
                node.attrs.push(Attr::parse(&format!("seed={}", spec.seed)));
            }
            node.implementation = Some(block_type.name.into());
        }
        let named = |name: &str| Port { name: name.into(), ..Port::default() };
        node.ports = port_names(spec).into_iter().map(named).collect();
        self.connect(i, &mut node);
        if spec.seed & 1 == 0 && !is_operator(spec.kind) {
            let port = node.ports[0].name.clone();
            node.attrs.push(Attr::Drop { port, reason: format!("reason {i}") });
        }
        if i == 0 {
            node.attrs.extend([Attr::Source, Attr::Init]);
        }
        self.start_and_wake(i, &mut node);
        node
    }

    /// Dataflow edges, from one port after the other.
    fn connect(&self, i: usize, node: &mut Node) {
        let later = self.specs.len() - i - 1;
        for (nth, target) in self.specs[i].targets.iter().enumerate().filter(|_| later > 0) {
            let to = i + 1 + *target as usize % later;
            let port = nth % node.ports.len();
            let port = &mut node.ports[port];
            let boolean = matches!(port.name.as_str(), "true" | "false");
            if boolean || !is_operator(self.specs[to].kind) {
                port.targets.push(self.id(to));
            }
        }
    }

    /// Spawn edges to a later node, notify edges to a blocker.
    fn start_and_wake(&self, i: usize, node: &mut Node) {
        let spec = &self.specs[i];
        let Some(block_type) = block_type(spec) else { return };
        let edges = |labels: &[&str], to: usize| -> Vec<Edge> {
            let target = self.id(to);
            let edge = |label: &&str| Edge { label: (*label).into(), target, predicates: vec![] };
            labels.iter().map(edge).collect()
        };
        let later = self.specs.len() - i - 1;
        let to = if later == 0 { i } else { i + 1 + spec.spawn as usize % later };
        node.spawns = edges(block_type.spawns, to);
        node.spawns.reverse();
        let all = self.specs.iter().enumerate();
        let blockers: Vec<usize> =
            all.filter(|(_, s)| shape(s.kind).1 == "Blocker").map(|(at, _)| at).collect();
        let nth = spec.spawn as usize % blockers.len().max(1);
        node.notifies = edges(block_type.notifies, blockers.get(nth).copied().unwrap_or(i));
    }
}

/// A graph may list ports in another order than the type.
fn port_names(spec: &NodeSpec) -> Vec<&'static str> {
    let Some(block_type) = block_type(spec) else { return vec!["false", "true"] };
    let mut names: Vec<&str> = block_type.ports.iter().map(|port| port.name).collect();
    if names.len() == 3 {
        names.rotate_left(spec.seed as usize % 3);
    }
    names
}
