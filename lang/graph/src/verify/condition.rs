//! The condition under which a node runs, in terms of the choices of earlier nodes.
//!
//! A fact names the port by which a node left in this task. A clause is a conjunction of facts, a
//! condition a disjunction of clauses. Conditions are *necessary*: forgetting a fact or joining clauses
//! makes them weaker, never wrong, so two nodes with contradicting conditions never run in the same
//! task. That keeps the analysis sound within bounded space.

use std::collections::HashMap;

use super::index::Index;
use crate::{Graph, Node, NodeId, NodeKind, Op, PortId};

/// More clauses than this are joined into one.
const MAX_CLAUSES: usize = 64;
/// Ports from this one on share a bit.
const LAST_BIT: u32 = 127;

/// Facts sorted by node: it leaves by one of these ports.
type Clause = Vec<(NodeId, u128)>;

/// A disjunction; without clauses it never holds.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    clauses: Vec<Clause>,
    /// What every clause implies. Most conditions that contradict each other do so here.
    shared: Clause,
}

impl Condition {
    fn never() -> Condition {
        Condition { clauses: Vec::new(), shared: Vec::new() }
    }

    fn of(clause: Clause) -> Condition {
        Condition { clauses: vec![clause.clone()], shared: clause }
    }

    fn always() -> Condition {
        Condition::of(Vec::new())
    }

    pub(crate) fn is_never(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Whether both can hold in one task, as far as the analysis can tell.
    pub(crate) fn compatible(&self, other: &Condition) -> bool {
        let mut candidates = self.clauses.iter().filter(|clause| agree(clause, &other.shared));
        agree(&self.shared, &other.shared)
            && candidates.any(|a| other.clauses.iter().any(|b| agree(a, b)))
    }

    fn or(mut self, other: Condition) -> Condition {
        if self.is_never() {
            self.shared = other.shared;
        } else if !other.is_never() {
            self.shared = common(&self.shared, &other.shared);
        }
        for clause in other.clauses {
            if !self.clauses.contains(&clause) {
                self.clauses.push(clause);
            }
        }
        if self.clauses.iter().any(Vec::is_empty) {
            return Condition::always();
        }
        if self.clauses.len() > MAX_CLAUSES { self.joined() } else { self }
    }

    fn and(&self, other: &Condition) -> Condition {
        if self.clauses.len() * other.clauses.len() > MAX_CLAUSES {
            return self.clone().joined().and_clauses(&other.clone().joined());
        }
        self.and_clauses(other)
    }

    fn and_clauses(&self, other: &Condition) -> Condition {
        let Some(shared) = conjunction(&self.shared, &other.shared) else {
            return Condition::never();
        };
        let pairs = self.clauses.iter().flat_map(|a| other.clauses.iter().map(move |b| (a, b)));
        let clauses = pairs.filter_map(|(a, b)| conjunction(a, b)).collect();
        Condition { clauses, shared }
    }

    fn joined(self) -> Condition {
        let joined = self.clauses.into_iter().reduce(|a, b| common(&a, &b));
        joined.map_or_else(Condition::never, Condition::of)
    }

    /// Forgets all but the latest `limit` facts of each clause.
    fn bounded(mut self, limit: usize) -> Condition {
        for clause in self.clauses.iter_mut().chain([&mut self.shared]) {
            if clause.len() > limit {
                clause.drain(..clause.len() - limit);
            }
        }
        self
    }
}

/// Whether both clauses can hold: [`conjunction`] without making one.
fn agree(a: &Clause, b: &Clause) -> bool {
    // Nodes of a task have mostly come the same way for a while.
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let ((x, p), (y, q)) = (a[i], b[j]);
        if x == y && p & q == 0 {
            return false;
        }
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    true
}

/// The condition that holds when both clauses do; nothing if they contradict each other.
fn conjunction(a: &Clause, b: &Clause) -> Option<Clause> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let ((x, p), (y, q)) = (a[i], b[j]);
        if x == y && p & q == 0 {
            return None;
        }
        out.push(if x == y { (x, p & q) } else { a[i].min(b[j]) });
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    out.extend(&a[i..]);
    out.extend(&b[j..]);
    Some(out)
}

/// The condition that holds when either clause does.
fn common(a: &Clause, b: &Clause) -> Clause {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let ((x, p), (y, q)) = (a[i], b[j]);
        if x == y {
            out.push((x, p | q));
        }
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    out
}

/// The conditions of a whole graph for tasks that start at one node.
pub(crate) struct Conditions<'a> {
    graph: &'a Graph,
    fact_limit: usize,
    /// The nodes that the task can reach, in a topological order, and the place of each of them by its number.
    reached: &'a [NodeId],
    places: &'a [u32],
    /// By place: when the node runs.
    runs: Vec<Condition>,
    /// For an O-node: when it is `false`, when `true`.
    operators: HashMap<NodeId, [Condition; 2]>,
    never: Condition,
}

impl<'a> Conditions<'a> {
    /// `reached` must be the nodes that the task can reach, in a topological order, where it starts first; `places`
    /// has the place there of each of them, and any number for other nodes.
    pub(crate) fn new(
        graph: &'a Graph,
        index: &Index,
        reached: &'a [NodeId],
        places: &'a [u32],
    ) -> Self {
        let start = reached[0];
        let mut all = Conditions {
            graph,
            fact_limit: ((1 << 20) / graph.len().max(1)).clamp(8, 512),
            reached,
            places,
            runs: Vec::with_capacity(reached.len()),
            operators: HashMap::new(),
            never: Condition::never(),
        };
        for id in reached {
            let incoming = &index.incoming[id.index()];
            let runs = if *id == start { Condition::always() } else { all.any_of(incoming) };
            if let NodeKind::Operator(op) = graph.node(*id).kind {
                let outcome = if *id == start {
                    [Condition::always(), Condition::always()]
                } else {
                    all.operator(op, incoming)
                };
                all.operators.insert(*id, outcome);
            }
            all.runs.push(runs);
        }
        all
    }

    /// When `id` runs.
    pub(crate) fn of(&self, id: NodeId) -> &Condition {
        let place = self.places[id.index()] as usize;
        let is_reached = self.reached.get(place) == Some(&id);
        self.runs.get(place).filter(|_| is_reached).unwrap_or(&self.never)
    }

    /// When the task leaves by `port`.
    pub(crate) fn of_port(&self, port: PortId) -> Condition {
        let node = self.graph.node(port.node);
        let outcome = match node.kind {
            NodeKind::Operator(_) => self.operators.get(&port.node),
            _ => None,
        };
        let base = match outcome {
            Some(outcome) => &outcome[port.port.min(1) as usize],
            None => self.of(port.node),
        };
        if node.ports.len() < 2 {
            return base.clone();
        }
        let fact = vec![(port.node, 1 << port.port.min(LAST_BIT))];
        base.and_clauses(&Condition::of(fact)).bounded(self.fact_limit)
    }

    fn any_of(&self, ports: &[PortId]) -> Condition {
        ports.iter().fold(Condition::never(), |all, p| all.or(self.of_port(*p)))
    }

    /// `false` and `true` of an operator (design/0000 §4.2): an operand is a source node.
    fn operator(&self, op: Op, incoming: &[PortId]) -> [Condition; 2] {
        let mut sources: Vec<NodeId> = incoming.iter().map(|p| p.node).collect();
        sources.sort();
        sources.dedup();
        let outcome = |source: NodeId, name: &str| {
            let from = |p: &&PortId| p.node == source && self.port_name(**p) == name;
            incoming.iter().find(from).map_or_else(Condition::never, |p| self.of_port(*p))
        };
        let every = |name: &str| {
            let each = sources.iter().map(|s| outcome(*s, name));
            each.fold(Condition::always(), |all, c| all.and(&c).bounded(self.fact_limit))
        };
        let some =
            |name: &str| sources.iter().fold(Condition::never(), |a, s| a.or(outcome(*s, name)));
        match op {
            Op::And => [some("false"), every("true")],
            Op::Or => [every("false"), some("true")],
            Op::Nand => [every("true"), some("false")],
            Op::Nor => [some("true"), every("false")],
        }
    }

    fn port_name(&self, port: PortId) -> &str {
        let node: &Node = self.graph.node(port.node);
        &node.ports[port.port as usize].name
    }
}
