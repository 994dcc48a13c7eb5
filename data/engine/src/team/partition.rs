//! The graphs of a team's workers: what runs, the whole graph split by queues between workers (Dragonet
//! thesis §3.3.2), and the part of it that each worker runs.

use std::sync::Arc;

use weever_block::{PARTS, Registry, WORKER};
use weever_graph::{Attr, Edge, Graph, Node, NodeId, NodeKind, Port, PortId, Verified, verify};

use super::TeamError;
use crate::counters::Cells;
use crate::mailbox::{Mailbox, Waker};
use crate::moves::{FlowOrder, MoveInbox};
use crate::schedule::{CompiledGraph, DEFAULT, FROM_QUEUE, Homes, Idps, TO_QUEUE, Update};
use crate::slots::Slots;

/// The publisher's side of a worker.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) name: String,
    pub(super) mailbox: Arc<Mailbox<Update>>,
    pub(super) waker: Waker,
    /// Orders to move flows away.
    pub(super) moves: Arc<MoveInbox>,
    /// The start node of each link's packets.
    pub(super) sources: Vec<(u16, String)>,
}

impl WorkerHandle {
    /// Orders the worker to list or to move flows.
    pub(super) fn order(&self, order: FlowOrder) {
        self.moves.put(order);
        self.waker.wake();
    }
}

/// The graph that the workers run, or will run at their next turn.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) logical: Verified,
    /// By worker; the first runs the whole graph.
    pub(super) plans: Vec<Arc<CompiledGraph>>,
    pub(super) idps: Idps,
    pub(super) slots: Slots,
    /// By worker.
    pub(super) cells: Vec<Arc<Cells>>,
    pub(super) epoch: u64,
}

/// Adds the effects of block types to the nodes and verifies the graph.
pub(super) fn annotate_and_verify(
    mut graph: Graph,
    registry: &Registry,
) -> Result<Verified, TeamError> {
    registry.annotate(&mut graph)?;
    Ok(verify(graph)?)
}

/// The graph as the workers execute it.
///
/// A node that cannot run where it should: there is no such worker, or its packets are still needed
/// where they come from.
pub(super) fn partition(
    logical: &Verified,
    registry: &Registry,
    homes: Homes,
) -> Result<Verified, TeamError> {
    check_tags(logical, homes)?;
    if homes == Homes::ONE {
        return Ok(logical.clone());
    }
    let mut graph = Graph::clone(logical);
    for (id, node) in logical.iter() {
        let Some(home) = homes.of(node, registry) else { continue };
        let from_elsewhere =
            |port: &PortId| homes.of(logical.node(port.node), registry) != Some(home);
        let edges = logical.dataflow().filter(|(_, to)| *to == id).map(|(port, _)| port);
        let cut: Vec<PortId> = edges.filter(from_elsewhere).collect();
        if !cut.is_empty() {
            cut_edges(&mut graph, id, home, &cut)?;
        }
    }
    registry.annotate(&mut graph)?;
    let count_reasons = |errors| count_reasons(logical, errors);
    verify(graph).map_err(count_reasons)
}

fn check_tags(graph: &Graph, homes: Homes) -> Result<(), TeamError> {
    for (_, node) in graph.iter() {
        let Some(tag) = node.param(WORKER) else { continue };
        if !tag.parse().is_ok_and(|worker: u16| worker < homes.workers) {
            let (node, tag) = (node.name.clone(), tag.to_string());
            return Err(TeamError::NoWorker { node, tag, workers: homes.workers });
        }
    }
    Ok(())
}

/// Replaces the edges from `ports` to `to` by a queue.
fn cut_edges(graph: &mut Graph, to: NodeId, home: u16, ports: &[PortId]) -> Result<(), TeamError> {
    let target = graph.node(to);
    let name = target.name.clone();
    if matches!(target.kind, NodeKind::Operator(_)) {
        return Err(TeamError::Split { node: name, why: "an operator has one place".into() });
    }
    let mut from = Node::new(format!("{FROM_QUEUE}{name}"), NodeKind::Function);
    from.clusters.clone_from(&target.clusters);
    let mut into = Node::new(format!("{TO_QUEUE}{name}"), NodeKind::Function);
    into.clusters.clone_from(&target.clusters);
    from.implementation = Some("FromQueue".into());
    from.attrs.push(Attr::Param { key: WORKER.into(), value: home.to_string() });
    from.ports.push(Port { name: "out".into(), targets: vec![to], ..Port::default() });
    let from = graph.add(from);
    into.implementation = Some("ToQueue".into());
    into.spawns.push(Edge { label: "queue".into(), target: from, predicates: Vec::new() });
    let into = graph.add(into);
    for port in ports {
        let targets = &mut graph.node_mut(port.node).ports[port.port as usize].targets;
        targets.iter_mut().filter(|t| **t == to).for_each(|t| *t = into);
        targets.dedup();
    }
    Ok(())
}

/// Translates verification errors about a queue into terms of the given graph.
fn count_reasons(logical: &Graph, errors: Vec<weever_graph::GraphError>) -> TeamError {
    // The queues were added after all other nodes.
    let of_cut = errors.iter().find(|e| e.node.index() >= logical.len());
    let queue = of_cut.and_then(|e| e.message.split('`').find(|part| part.starts_with(TO_QUEUE)));
    match (of_cut, queue) {
        (Some(error), Some(queue)) => TeamError::Split {
            node: queue.trim_start_matches(TO_QUEUE).into(),
            why: error.message.clone(),
        },
        _ => TeamError::Unsound(errors),
    }
}

/// Selects the part of the whole graph (as workers execute it) that a worker runs; `None`: all of
/// it. Called for every worker but the default one, number 0, at every change. Nodes in a part keep
/// their names, and their edges lead either where they did or to a node that hands packets over to
/// the default worker, since any kind of packet may arrive. Tasks for nodes that a worker does not
/// have go to the default worker.
pub type Fit = dyn Fn(&Verified, u16) -> Option<Graph> + Send + Sync;

/// The current selection of parts.
#[derive(Clone, Default)]
pub(super) struct PartSelection(pub(super) Option<Arc<Fit>>);

impl std::fmt::Debug for PartSelection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartSelection({})", if self.0.is_some() { "parts" } else { "all" })
    }
}

impl PartSelection {
    /// The part of each member, `None` for those that run the whole graph.
    ///
    /// # Errors
    /// [`TeamError::Unfit`]: a part that would lose packets or state.
    pub(super) fn parts(
        &self,
        whole: &Verified,
        handles: &[WorkerHandle],
        registry: &Registry,
        homes: Homes,
    ) -> Result<Vec<Option<Verified>>, TeamError> {
        let part = |(member, handle): (u16, &WorkerHandle)| {
            let fit = self.0.as_ref().filter(|_| member != DEFAULT);
            let part = fit.and_then(|fit| fit(whole, member)).filter(|part| *part != **whole);
            let check = |part| Check { whole, handle, member, registry, homes }.run(part);
            part.map(check).transpose()
        };
        (0..).zip(handles).map(part).collect()
    }
}

struct Check<'a> {
    whole: &'a Verified,
    handle: &'a WorkerHandle,
    member: u16,
    registry: &'a Registry,
    homes: Homes,
}

impl Check<'_> {
    fn run(&self, part: Graph) -> Result<Verified, TeamError> {
        let unfit = |why| TeamError::Unfit { worker: self.handle.name.clone(), why };
        let part =
            annotate_and_verify(part, self.registry).map_err(|error| unfit(error.to_string()))?;
        match self.problem(&part) {
            Some(why) => Err(unfit(why)),
            None => Ok(part),
        }
    }

    fn problem(&self, part: &Graph) -> Option<String> {
        let lacks = |name: &str| part.find(name).is_none();
        if let Some((link, source)) = self.handle.sources.iter().find(|(_, source)| lacks(source)) {
            return Some(format!(
                "packets of link {link} start at `{source}`, which its part does not contain"
            ));
        }
        let home = |graph: &Graph, id: NodeId| self.homes.of(graph.node(id), self.registry);
        for (id, node) in part.iter() {
            // Worker 0 has the whole graph, and may run what parts do not have.
            let is_stub = |at: NodeId| {
                let left_out = self.whole.node(at).param(PARTS).is_some();
                left_out && home(part, id) == Some(DEFAULT)
            };
            let moved = |at: &NodeId| home(self.whole, *at) != home(part, id) && !is_stub(*at);
            if self.whole.find(&node.name).filter(moved).is_some() {
                return Some(format!(
                    "node `{}` runs on another worker in the whole graph",
                    node.name
                ));
            }
        }
        for (id, node) in self.whole.iter().filter(|(_, node)| lacks(&node.name)) {
            if home(self.whole, id) == Some(self.member) && is_started(self.whole, id) {
                return Some(format!(
                    "other workers start tasks at `{}`, which its part does not contain",
                    node.name
                ));
            }
        }
        None
    }
}

/// Whether an edge starts tasks at a node.
fn is_started(graph: &Graph, id: NodeId) -> bool {
    let edges = graph.iter().flat_map(|(_, node)| node.spawns.iter().chain(&node.notifies));
    edges.into_iter().any(|edge| edge.target == id)
}
