//! The arena.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use crate::{Node, NodeId, PortId};

/// Nodes joined by edges. Built once, then read; a change makes a new graph (design/0000 §4.4).
///
/// ```
/// use weever_graph::{Attr, Graph, Node, NodeId, NodeKind, Port, verify};
///
/// let mut graph = Graph::new("example");
/// let mut source = Node::new("Source", NodeKind::Function);
/// source.attrs.push(Attr::Source);
/// source.ports.push(Port { name: "out".into(), targets: vec![NodeId(1)], ..Port::default() });
/// graph.add(source);
/// graph.add(Node::new("Sink", NodeKind::Function));
///
/// // Only a graph without errors can be executed; each finding names a node and a remedy.
/// let verified = verify(graph).expect("it is sound");
/// assert_eq!(verified.find("Sink"), Some(NodeId(1)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The graph's name.
    pub name: String,
    /// SMT-LIB declarations that the nodes' semantics use.
    pub helpers: Option<String>,
    nodes: Vec<Node>,
    names: NameIndex,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), helpers: None, nodes: Vec::new(), names: NameIndex::default() }
    }

    /// Adds a node and returns its id. Names are checked by verification, not here.
    pub fn add(&mut self, node: Node) -> NodeId {
        let id =
            NodeId(u32::try_from(self.nodes.len()).expect("a graph has fewer than 2^32 nodes"));
        self.names.add(&node.name, id);
        self.nodes.push(node);
        id
    }

    /// The node called `name`. Takes constant time after a first call that indexes all names, as long as
    /// few nodes are changed.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.names.find(name, &self.nodes)
    }

    /// The node at `id`. Panics if `id` is of another, larger graph.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The node at `id`, to change. Panics if `id` is of another, larger graph.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.names.may_change(id);
        &mut self.nodes[id.index()]
    }

    /// Takes out the node at `id` and every edge to it. Ids above it go down by one.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let gone = self.nodes.remove(id.index());
        self.names.remove(&gone.name, id, &self.nodes);
        let moved = |old: NodeId| NodeId(old.0 - u32::from(old > id));
        for node in &mut self.nodes {
            for port in &mut node.ports {
                port.targets.retain(|t| *t != id);
                port.targets.iter_mut().for_each(|t| *t = moved(*t));
            }
            for edges in [&mut node.spawns, &mut node.notifies] {
                edges.retain(|e| e.target != id);
                edges.iter_mut().for_each(|e| e.target = moved(e.target));
            }
        }
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Every node with its id, in the order of adding.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(i, n)| (NodeId(i as u32), n))
    }

    /// Every dataflow edge as (port, target).
    pub fn dataflow(&self) -> impl Iterator<Item = (PortId, NodeId)> + '_ {
        self.iter().flat_map(|(node, n)| {
            n.ports.iter().enumerate().flat_map(move |(port, p)| {
                p.targets.iter().map(move |t| (PortId { node, port: port as u32 }, *t))
            })
        })
    }
}

/// Smaller graphs are searched.
const MIN_INDEXED: usize = 32;

/// If more nodes may have other names than when they were indexed, all are indexed anew.
const MAX_CHANGED: usize = 64;

/// The ids of names, by their hashes. It may be out of date, since nodes can be renamed: every hit is
/// compared with the node, and a name that is not there is looked for among those that may be new.
#[derive(Clone, Default)]
struct NameIndex {
    ids: OnceLock<HashMap<u64, NodeId, BuildHasherDefault<Hashed>>>,
    /// Nodes that may have been renamed since. Empty without an index.
    changed: Vec<NodeId>,
}

/// Keys that are hashes already.
#[derive(Clone, Copy, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl NameIndex {
    fn add(&mut self, name: &str, id: NodeId) {
        if let Some(ids) = self.ids.get_mut() {
            ids.entry(hash(name)).or_insert(id);
        }
    }

    fn may_change(&mut self, id: NodeId) {
        if self.ids.get().is_none() || self.changed.contains(&id) {
            return;
        }
        self.changed.push(id);
        if self.changed.len() > MAX_CHANGED {
            *self = NameIndex::default();
        }
    }

    /// The node at `id` is gone, and ids above it have gone down by one.
    fn remove(&mut self, name: &str, id: NodeId, nodes: &[Node]) {
        let Some(ids) = self.ids.get_mut() else { return };
        self.changed.retain(|at| *at != id);
        self.changed.iter_mut().filter(|at| **at > id).for_each(|at| at.0 -= 1);
        ids.retain(|_, at| *at != id);
        for at in ids.values_mut().filter(|at| **at > id) {
            at.0 -= 1;
        }
        // Names may be double until verification finds out.
        if let Some(other) = nodes.iter().position(|node| node.name == name) {
            self.add(name, NodeId(other as u32));
        }
    }

    fn find(&self, name: &str, nodes: &[Node]) -> Option<NodeId> {
        let is = |id: &NodeId| nodes.get(id.index()).is_some_and(|node| node.name == name);
        let search = || nodes.iter().position(|node| node.name == name).map(|at| NodeId(at as u32));
        if nodes.len() < MIN_INDEXED {
            return search();
        }
        let ids = self.ids.get_or_init(|| {
            let mut ids = HashMap::with_capacity_and_hasher(nodes.len(), Default::default());
            for (node, id) in nodes.iter().zip(0..) {
                ids.entry(hash(&node.name)).or_insert(NodeId(id));
            }
            ids
        });
        match ids.get(&hash(name)).copied() {
            Some(id) if is(&id) => Some(id),
            // It has another name by now, or its name has the same hash.
            Some(_) => search(),
            None => self.changed.iter().copied().find(is),
        }
    }
}

/// Graphs are equal regardless of earlier searches in them.
impl PartialEq for NameIndex {
    fn eq(&self, _: &NameIndex) -> bool {
        true
    }
}

impl std::fmt::Debug for NameIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NameIndex")
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeKind;

    #[test]
    fn a_node_is_found_by_its_present_name() {
        let mut graph = Graph::new("g");
        for i in 0..100 {
            graph.add(Node::new(format!("n{i}"), NodeKind::Function));
        }
        assert_eq!(graph.find("n70"), Some(NodeId(70)));
        graph.node_mut(NodeId(70)).name = "other".into();
        assert_eq!((graph.find("n70"), graph.find("other")), (None, Some(NodeId(70))));
        assert_eq!(graph.add(Node::new("late", NodeKind::Function)), NodeId(100));
        assert_eq!(graph.find("late"), Some(NodeId(100)));
        graph.remove(NodeId(3));
        assert_eq!((graph.find("n3"), graph.find("n4")), (None, Some(NodeId(3))));
        assert_eq!(graph.find("late"), Some(NodeId(99)));
        assert_eq!(graph.find("other"), Some(NodeId(69)), "the renamed node has gone down too");
    }

    #[test]
    fn names_are_found_after_many_have_changed() {
        let mut graph = Graph::new("g");
        for i in 0..200 {
            graph.add(Node::new(format!("n{i}"), NodeKind::Function));
        }
        for i in 0..200 {
            let (old, new) = (format!("n{i}"), format!("m{i}"));
            assert_eq!((graph.find(&old), graph.find(&new)), (Some(NodeId(i)), None));
            graph.node_mut(NodeId(i)).name = new.clone();
            assert_eq!((graph.find(&old), graph.find(&new)), (None, Some(NodeId(i))));
        }
        // Of two nodes with one name, the other is found when the first gets another.
        graph.node_mut(NodeId(20)).name = "m10".into();
        graph.node_mut(NodeId(10)).name = "x".into();
        assert_eq!((graph.find("m10"), graph.find("x")), (Some(NodeId(20)), Some(NodeId(10))));
    }
}
