//! From two graphs to the change set between them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::apply::{bare, set};
use super::{Change, ChangeSet, EdgeName, Handover, Outlet, Waiting};
use crate::{Attr, Graph, Node, Predicate, Span};

/// The changes that turn `running` into `wanted`: [`apply`](super::apply) then yields `wanted`,
/// up to the order of nodes and edges and to places in source texts. Nodes are the same if they have
/// the same name. Tasks that wait at a node which goes start at the one that takes its place under
/// another name, and are dropped if there is none; state is kept where it can be. Change the steps for
/// anything else.
pub fn diff(running: &Graph, wanted: &Graph) -> ChangeSet {
    let (old_nodes, new_nodes) = (by_name(running), by_name(wanted));
    let (old_edges, new_edges) = (edges(running), edges(wanted));
    let mut changes = Vec::new();
    if (&running.name, &running.helpers) != (&wanted.name, &wanted.helpers) {
        let (name, helpers) = (wanted.name.clone(), wanted.helpers.clone());
        changes.push(Change::Describe { name, helpers });
    }
    // The edges of nodes that go, go with them.
    let stays = |e: &EdgeName| new_nodes.contains_key(&*e.from) && new_nodes.contains_key(&*e.to);
    let surplus = old_edges.iter().filter(|(e, p)| stays(e) && new_edges.get(e) != Some(p));
    changes.extend(surplus.map(|(edge, _)| Change::Unbind { edge: edge.clone() }));
    let renamed = renamed(running, wanted);
    for (_, node) in running.iter().filter(|(_, n)| !new_nodes.contains_key(&*n.name)) {
        let to = renamed.get(&*node.name).map(|to| Waiting::To((*to).to_owned()));
        changes.push(Change::Remove { node: node.name.clone(), waiting: to.unwrap_or_default() });
    }
    for (_, node) in wanted.iter() {
        match old_nodes.get(&*node.name) {
            None => changes.push(Change::Add { node: Box::new(bare(node)) }),
            Some(old) => contents(old, node, &mut changes),
        }
    }
    let missing = new_edges.into_iter().filter(|(e, p)| old_edges.get(e) != Some(p));
    changes.extend(missing.map(|(edge, predicates)| Change::Bind { edge, predicates }));
    ChangeSet { changes }
}

/// Nodes that go and at which tasks start, with their new names: a name is given if exactly one such
/// node that comes and exactly one that goes have the same implementation.
fn renamed<'a>(running: &'a Graph, wanted: &'a Graph) -> HashMap<&'a str, &'a str> {
    let (go, come) = (starts_without(running, wanted), starts_without(wanted, running));
    let only = |node: &Node, others: &[&'a Node]| {
        let mut alike = others.iter().filter(|other| same_implementation(node, other));
        alike.next().filter(|_| alike.next().is_none()).copied()
    };
    let heir = |gone: &&'a Node| {
        let heir = only(gone, &come)?;
        only(heir, &go)?;
        Some((&*gone.name, &*heir.name))
    };
    go.iter().filter_map(heir).collect()
}

/// The nodes of a graph at which tasks start, as spawn and notify edges say, and that the other one
/// does not have.
fn starts_without<'a>(graph: &'a Graph, other: &Graph) -> Vec<&'a Node> {
    let edges = graph.iter().flat_map(|(_, node)| node.spawns.iter().chain(&node.notifies));
    let starts: BTreeSet<_> = edges.map(|edge| edge.target).collect();
    let nodes = starts.into_iter().map(|id| graph.node(id));
    nodes.filter(|node| other.find(&node.name).is_none()).collect()
}

/// Whether one block can serve both nodes: they say the same to an implementation. Edges, reasons of
/// drops and the place in the source may differ.
pub fn same_implementation(a: &Node, b: &Node) -> bool {
    let ports = |n: &Node| n.ports.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    a.kind == b.kind
        && a.implementation_name() == b.implementation_name()
        && ports(a) == ports(b)
        && params(a) == params(b)
}

/// Their order does not matter, but the first of several for one key counts.
fn params(node: &Node) -> BTreeMap<&str, &str> {
    let mut params = BTreeMap::new();
    for attr in &node.attrs {
        if let Attr::Param { key, value } = attr {
            params.entry(key.as_str()).or_insert(value.as_str());
        }
    }
    params
}

fn contents(old: &Node, new: &Node, changes: &mut Vec<Change>) {
    let (old, new) = (plain(old), plain(new));
    if old == new {
        return;
    }
    let mut patched = old;
    let mut sets = Vec::new();
    for attr in &new.attrs {
        if let Attr::Param { key, value } = attr
            && patched.param(key) != Some(value)
        {
            set(&mut patched, key, value);
            let (node, key, value) = (new.name.clone(), key.clone(), value.clone());
            sets.push(Change::Set { node, key, value });
        }
    }
    if patched == new {
        changes.extend(sets);
    } else {
        changes.push(Change::Replace { node: Box::new(new), state: Handover::Keep });
    }
}

/// The node without the place where it was written.
fn plain(node: &Node) -> Node {
    Node { span: Span::default(), ..bare(node) }
}

fn by_name(graph: &Graph) -> HashMap<&str, &Node> {
    graph.iter().map(|(_, node)| (node.name.as_str(), node)).collect()
}

fn edges(graph: &Graph) -> BTreeMap<EdgeName, Vec<Predicate>> {
    let mut all = BTreeMap::new();
    for (_, node) in graph.iter() {
        let mut add = |at, to, predicates| {
            let to = graph.node(to).name.clone();
            all.insert(EdgeName { from: node.name.clone(), at, to }, predicates);
        };
        for port in &node.ports {
            for target in &port.targets {
                add(Outlet::port(&port.name), *target, Vec::new());
            }
        }
        for edge in &node.spawns {
            add(Outlet::spawn(&edge.label), edge.target, edge.predicates.clone());
        }
        for edge in &node.notifies {
            add(Outlet::notify(&edge.label), edge.target, edge.predicates.clone());
        }
    }
    all
}
