//! Names of places in a graph.

/// A node's place in its [`Graph`](crate::Graph); stable until the graph is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The index into the graph's node arena.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One output of one node: `port` counts in the order of [`Node::ports`](crate::Node::ports).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId {
    /// The node that owns the port.
    pub node: NodeId,
    /// The port's position within the node.
    pub port: u32,
}
