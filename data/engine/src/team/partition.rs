//! Splits a graph for several workers (Dragonet thesis §3.3.2): edges that lead to a node on
//! another worker are cut and replaced by explicit queues.

use weever_block::{Registry, WORKER};
use weever_graph::{Attr, Edge, Graph, Node, NodeId, NodeKind, Port, PortId, Verified, verify};

use super::TeamError;
use crate::schedule::{FROM_QUEUE, Homes, TO_QUEUE};

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
