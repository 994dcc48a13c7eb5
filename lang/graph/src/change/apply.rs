//! From a graph and a change set to the graph that results.

use weever_suggest::did_you_mean;

use super::{Change, ChangeError, ChangeSet, EdgeName, Outlet, Waiting};
use crate::{Attr, Edge, Graph, Node, NodeId, Predicate};

/// The graph that results from applying `changes` to `graph`, which itself stays as it is. The result
/// is not verified yet: a change set is judged by its whole result.
///
/// # Errors
/// The first step that cannot be carried out, with the name of the node and what to do.
pub fn apply(graph: &Graph, changes: &ChangeSet) -> Result<Graph, ChangeError> {
    let mut next = graph.clone();
    for change in &changes.changes {
        step(&mut next, change)?;
    }
    successors(&next, changes)?;
    Ok(next)
}

fn step(graph: &mut Graph, change: &Change) -> Result<(), ChangeError> {
    match change {
        Change::Describe { name, helpers } => {
            graph.name.clone_from(name);
            graph.helpers.clone_from(helpers);
        }
        Change::Add { node } => drop(add(graph, node)?),
        Change::Remove { node, .. } => graph.remove(find(graph, node)?),
        Change::Bind { edge, predicates } => bind(graph, edge, predicates)?,
        Change::Unbind { edge } => unbind(graph, edge)?,
        Change::Splice { node, out, edge } => splice(graph, node, out, edge)?,
        Change::Replace { node, .. } => replace(graph, node)?,
        Change::Set { node, key, value } => {
            let id = find(graph, node)?;
            set(graph.node_mut(id), key, value);
        }
    }
    Ok(())
}

fn successors(graph: &Graph, changes: &ChangeSet) -> Result<(), ChangeError> {
    for change in &changes.changes {
        if let Change::Remove { node, waiting: Waiting::To(to) } = change
            && graph.find(to).is_none()
        {
            return Err(ChangeError::NowhereToGo { node: node.clone(), to: to.clone() });
        }
    }
    Ok(())
}

fn find(graph: &Graph, node: &str) -> Result<NodeId, ChangeError> {
    let no_such = || ChangeError::NoSuchNode { node: node.into(), hint: hint(graph, node) };
    graph.find(node).ok_or_else(no_such)
}

fn hint(graph: &Graph, node: &str) -> String {
    let names = graph.iter().map(|(_, node)| node.name.as_str());
    did_you_mean(node, names).map(|hint| format!("; {hint}")).unwrap_or_default()
}

fn add(graph: &mut Graph, node: &Node) -> Result<NodeId, ChangeError> {
    if graph.find(&node.name).is_some() {
        return Err(ChangeError::Exists { node: node.name.clone() });
    }
    Ok(graph.add(bare(node)))
}

/// A node without its edges.
pub(super) fn bare(node: &Node) -> Node {
    let mut bare = node.clone();
    bare.ports.iter_mut().for_each(|port| port.targets.clear());
    bare.spawns.clear();
    bare.notifies.clear();
    bare
}

fn bind(graph: &mut Graph, edge: &EdgeName, predicates: &[Predicate]) -> Result<(), ChangeError> {
    let (from, target) = (find(graph, &edge.from)?, find(graph, &edge.to)?);
    let bound = || ChangeError::Bound { edge: edge.clone() };
    let node = graph.node_mut(from);
    let (edges, label) = match &edge.at {
        Outlet::Port(port) => {
            let at = position(node, port)?;
            let targets = &mut node.ports[at].targets;
            if targets.contains(&target) {
                return Err(bound());
            }
            targets.push(target);
            return Ok(());
        }
        Outlet::Spawn(label) => (&mut node.spawns, label),
        Outlet::Notify(label) => (&mut node.notifies, label),
    };
    if edges.iter().any(|e| e.label == *label && e.target == target) {
        return Err(bound());
    }
    edges.push(Edge { label: label.clone(), target, predicates: predicates.to_vec() });
    Ok(())
}

fn unbind(graph: &mut Graph, edge: &EdgeName) -> Result<(), ChangeError> {
    let (from, target) = (find(graph, &edge.from)?, find(graph, &edge.to)?);
    let node = graph.node_mut(from);
    let removed = match &edge.at {
        Outlet::Port(port) => {
            let at = position(node, port)?;
            take_out(&mut node.ports[at].targets, |t| *t == target)
        }
        Outlet::Spawn(l) => take_out(&mut node.spawns, |e| e.label == *l && e.target == target),
        Outlet::Notify(l) => take_out(&mut node.notifies, |e| e.label == *l && e.target == target),
    };
    if removed { Ok(()) } else { Err(ChangeError::NotBound { edge: edge.clone() }) }
}

fn take_out<T>(items: &mut Vec<T>, is: impl Fn(&T) -> bool) -> bool {
    let before = items.len();
    items.retain(|item| !is(item));
    items.len() < before
}

fn splice(graph: &mut Graph, node: &Node, out: &str, edge: &EdgeName) -> Result<(), ChangeError> {
    let Outlet::Port(port) = &edge.at else {
        return Err(ChangeError::NotDataflow { edge: edge.clone() });
    };
    let (from, target) = (find(graph, &edge.from)?, find(graph, &edge.to)?);
    let at = position(graph.node(from), port)?;
    if !graph.node(from).ports[at].targets.contains(&target) {
        return Err(ChangeError::NotBound { edge: edge.clone() });
    }
    let middle = add(graph, node)?;
    let out = position(graph.node(middle), out)?;
    graph.node_mut(middle).ports[out].targets.push(target);
    let targets = &mut graph.node_mut(from).ports[at].targets;
    targets.iter_mut().filter(|t| **t == target).for_each(|t| *t = middle);
    targets.dedup();
    Ok(())
}

fn replace(graph: &mut Graph, node: &Node) -> Result<(), ChangeError> {
    let id = find(graph, &node.name)?;
    let old = graph.node_mut(id);
    let mut new = bare(node);
    for port in &mut new.ports {
        if let Some(same) = old.ports.iter().find(|p| p.name == port.name) {
            port.targets.clone_from(&same.targets);
        }
    }
    new.spawns = std::mem::take(&mut old.spawns);
    new.notifies = std::mem::take(&mut old.notifies);
    *old = new;
    Ok(())
}

pub(super) fn set(node: &mut Node, key: &str, value: &str) {
    let old = node.attrs.iter_mut().find_map(|attr| match attr {
        Attr::Param { key: k, value } if k == key => Some(value),
        _ => None,
    });
    match old {
        Some(old) => *old = value.into(),
        None => node.attrs.push(Attr::Param { key: key.into(), value: value.into() }),
    }
}

fn position(node: &Node, port: &str) -> Result<usize, ChangeError> {
    let names = || node.ports.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
    node.port(port).ok_or_else(|| ChangeError::NoSuchPort {
        node: node.name.clone(),
        port: port.into(),
        known: if node.ports.is_empty() { "none".into() } else { names() },
    })
}
