//! Checks of the nodes that one task can run: conflicting effects, blocking nodes, double enabling.

use super::condition::Conditions;
use super::index::FindingList;
use super::index::{Index, NodeSet, descendants, reached_from};
use crate::{Effects, Graph, Kind, NodeId, NodeKind, PortId};

/// A node with more incoming edges has only these compared with each other.
const MAX_EDGES_COMPARED: usize = 256;

/// Runs every check for every place where a task may start.
pub(crate) fn check(graph: &Graph, index: &Index, order: &[NodeId], report: &mut FindingList) {
    let mut reach = Reach { graph, known: vec![None; graph.len()] };
    // The place of each node among those that a task reaches.
    let mut places = vec![0; graph.len()];
    let mut position = vec![0; graph.len()];
    for (at, id) in order.iter().enumerate() {
        position[id.index()] = at;
    }
    for start in index.starts(graph) {
        let mut reached = reached_from(graph, start);
        reached.sort_by_key(|id| position[id.index()]);
        for (id, place) in reached.iter().zip(0..) {
            places[id.index()] = place;
        }
        let conditions = Conditions::new(graph, index, &reached, &places);
        let task = Task { graph, index, reached: &reached, conditions };
        task.conflicts(&mut reach, report);
        task.blocking(&mut reach, report);
        task.enabled_twice(report);
    }
}

/// Reachability, computed for the queried nodes.
struct Reach<'a> {
    graph: &'a Graph,
    /// By node.
    known: Vec<Option<NodeSet>>,
}

impl Reach<'_> {
    fn leads(&mut self, from: NodeId, to: NodeId) -> bool {
        let known = &mut self.known[from.index()];
        known.get_or_insert_with(|| descendants(self.graph, from)).contains(to)
    }
}

struct Task<'a> {
    graph: &'a Graph,
    index: &'a Index,
    /// The nodes that the task can reach, in a topological order.
    reached: &'a [NodeId],
    conditions: Conditions<'a>,
}

impl Task<'_> {
    fn runnable(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.reached.iter().copied().filter(|id| !self.conditions.of(*id).is_never())
    }

    fn edges(&self, node: NodeId) -> impl Iterator<Item = (PortId, NodeId)> + '_ {
        self.graph.node(node).ports.iter().enumerate().flat_map(move |(port, p)| {
            p.targets.iter().map(move |t| (PortId { node, port: port as u32 }, *t))
        })
    }

    fn effects(&self, id: NodeId) -> Effects {
        self.graph.node(id).effects.unwrap_or_default()
    }

    fn name(&self, id: NodeId) -> &str {
        &self.graph.node(id).name
    }

    fn conflicts(&self, reach: &mut Reach, report: &mut FindingList) {
        let touching: Vec<NodeId> =
            self.runnable().filter(|id| self.effects(*id) != Effects::NONE).collect();
        for (i, a) in touching.iter().enumerate() {
            for b in &touching[i + 1..] {
                // `touching` is in topological order, so only `a` can lead to `b`.
                if self.effects(*a).conflicts(self.effects(*b))
                    && !reach.leads(*a, *b)
                    && self.conditions.of(*a).compatible(self.conditions.of(*b))
                {
                    self.report_conflict((*a).min(*b), (*a).max(*b), report);
                }
            }
        }
    }

    fn report_conflict(&self, a: NodeId, b: NodeId, report: &mut FindingList) {
        let (a_does, b_does) = (effect_list(self.effects(a)), effect_list(self.effects(b)));
        let message = format!(
            "`{}` ({a_does}) and `{}` ({b_does}) can both run on one packet, in either order",
            self.name(a),
            self.name(b),
        );
        let remedy = "order them by an edge, or let one F-node choose between them";
        report.add(Kind::ConflictingEffects, a, message, remedy);
    }

    /// A task that blocks resumes at the blocking node with nothing else remembered. So when the
    /// node runs, no earlier node may have enabled anything that does not come before it.
    fn blocking(&self, reach: &mut Reach, report: &mut FindingList) {
        let blockers = self.runnable().filter(|id| self.effects(*id).contains(Effects::BLOCKS));
        for blocker in blockers {
            let when = self.conditions.of(blocker);
            let before: Vec<NodeId> =
                self.reached.iter().copied().filter(|id| reach.leads(*id, blocker)).collect();
            for (port, target) in before.iter().flat_map(|id| self.edges(*id)) {
                let stays = target == blocker || before.contains(&target);
                if !stays && self.conditions.of_port(port).compatible(when) {
                    self.report_blocking(blocker, port.node, target, report);
                }
            }
        }
    }

    fn report_blocking(&self, blocker: NodeId, from: NodeId, to: NodeId, report: &mut FindingList) {
        let (name, from, to) = (self.name(blocker), self.name(from), self.name(to));
        let message = format!(
            "`{name}` may block its task while the edge from `{from}` to `{to}` is enabled: \
             the task would forget it"
        );
        let remedy = format!("let `{to}` follow `{name}`, precede it, or run in a spawned task");
        report.add(Kind::BlockingNotCut, blocker, message, remedy);
    }

    fn enabled_twice(&self, report: &mut FindingList) {
        for id in self.runnable() {
            let incoming = &self.index.incoming[id.index()];
            let operator = matches!(self.graph.node(id).kind, NodeKind::Operator(_));
            if operator || incoming.len() < 2 {
                continue;
            }
            if let Some((a, b)) = self.both_enabled(incoming) {
                let message = format!(
                    "`{}` can be enabled by both {} and {} in one task; it runs once",
                    self.name(id),
                    self.port_text(a),
                    self.port_text(b),
                );
                let remedy = "join the two with an OR node if that is meant";
                report.add(Kind::EnabledTwice, id, message, remedy);
            }
        }
    }

    fn both_enabled(&self, incoming: &[PortId]) -> Option<(PortId, PortId)> {
        let compared = incoming.iter().take(MAX_EDGES_COMPARED);
        let when: Vec<_> = compared.map(|p| (*p, self.conditions.of_port(*p))).collect();
        let mut pairs =
            when.iter().enumerate().flat_map(|(i, a)| when[i + 1..].iter().map(move |b| (a, b)));
        pairs.find(|(a, b)| a.1.compatible(&b.1)).map(|(a, b)| (a.0, b.0))
    }

    fn port_text(&self, port: PortId) -> String {
        let node = self.graph.node(port.node);
        format!("`{}.{}`", node.name, node.ports[port.port as usize].name)
    }
}

fn effect_list(effects: Effects) -> String {
    effects.names().collect::<Vec<_>>().join(", ")
}
