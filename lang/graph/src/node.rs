//! Nodes, ports and edges, and the entries of T-nodes: a match over packet fields, stored by entries rather
//! than by nodes (design/0000 §4.1).

use crate::nic::{FeatureModel, Queues, RssModel, TableModel};
use crate::{Attr, Effects, Field, Predicate};

/// Where a node was written: byte offsets into its source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// The logical operator of an O-node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// True when every operand is true, false when one is false.
    And,
    /// True when one operand is true, false when every one is false.
    Or,
    /// [`Op::And`] with the ports swapped.
    Nand,
    /// [`Op::Or`] with the ports swapped.
    Nor,
}

/// The kind of a node (design/0000 §1).
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// F-node: enables exactly one of its ports per packet, or consumes the packet.
    Function,
    /// O-node: port 0 is `false`, port 1 is `true`.
    Operator(Op),
    /// C-node: not executable until it has a value.
    Config(ConfigSpec),
    /// T-node: a match over packet fields; a C-node for a table becomes one.
    Table(TableSpec),
}

/// The configuration space of a config node before it has a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigSpec {
    /// The configuration space, as Unicorn's type text; empty: an enumeration of the ports' names.
    pub ty: Option<String>,
    /// The configuration function's name.
    pub function: Option<String>,
    /// The filter table of a NIC that the node represents; its function is derived from it.
    pub table: Option<Box<TableModel>>,
    /// The spreading by hash that the node represents.
    pub rss: Option<Box<RssModel>>,
    /// The feature of a device that the node represents.
    pub feature: Option<Box<FeatureModel>>,
}

/// An output of a node. It may lead to several nodes, all of which it enables, or to none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Port {
    /// The port's name, unique within its node.
    pub name: String,
    /// The nodes it enables, in the order they were written.
    pub targets: Vec<NodeId>,
    /// The condition on packets that leave here; [`Predicate::True`] says nothing.
    pub predicate: Predicate,
    /// The predicate in SMT-LIB, kept as text.
    pub semantics: Option<String>,
}

/// A spawn or notify edge: it starts at a node, not at a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The label by which the implementation names the edge.
    pub label: String,
    /// Where the task starts, or where the woken tasks are blocked.
    pub target: NodeId,
    /// The conditions on packets that take this edge.
    pub predicates: Vec<Predicate>,
}

/// The parameter that every node may have: `ends=PORT,…` names ports at which a packet has done its
/// duty, for example at a node that has used its contents. Packets that leave there and go to no node
/// end there, and are no drops.
pub const ENDS: &str = "ends";

/// A node of a [`Graph`](crate::Graph).
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Full name: the names of its clusters and its own, without separator.
    pub name: String,
    /// The clusters it lies in, outermost first. They only name things.
    pub clusters: Vec<String>,
    /// The node's kind.
    pub kind: NodeKind,
    /// Its outputs. A node with ports `false` and `true` has them at 0 and 1 (thesis §3.2.1).
    pub ports: Vec<Port>,
    /// Its spawn edges.
    pub spawns: Vec<Edge>,
    /// Its notify edges.
    pub notifies: Vec<Edge>,
    /// Its attributes.
    pub attrs: Vec<Attr>,
    /// The implementation function, if it is not the node's own name.
    pub implementation: Option<String>,
    /// The effects of the implementation on the buffer, once they are known.
    pub effects: Option<Effects>,
    /// The receive queues that the node represents, in a PRG.
    pub queues: Option<Queues>,
    /// The place in the source text, for diagnostics.
    pub span: Span,
}

impl Node {
    /// A node without ports or edges.
    pub fn new(name: impl Into<String>, kind: NodeKind) -> Node {
        Node {
            name: name.into(),
            clusters: Vec::new(),
            kind,
            ports: Vec::new(),
            spawns: Vec::new(),
            notifies: Vec::new(),
            attrs: Vec::new(),
            implementation: None,
            effects: None,
            queues: None,
            span: Span::default(),
        }
    }

    /// The name under which the implementation is registered.
    pub fn implementation_name(&self) -> &str {
        self.implementation.as_deref().unwrap_or(&self.name)
    }

    /// Whether the node carries `attr`.
    pub fn has(&self, attr: &Attr) -> bool {
        self.attrs.contains(attr)
    }

    /// The position of the port called `name`.
    pub fn port(&self, name: &str) -> Option<usize> {
        self.ports.iter().position(|p| p.name == name)
    }

    /// The value of the parameter `key`, if an attribute sets it.
    pub fn param(&self, key: &str) -> Option<&str> {
        self.attrs.iter().find_map(|a| match a {
            Attr::Param { key: k, value } if k == key => Some(value.as_str()),
            _ => None,
        })
    }

    /// Whether packets have done their duty at this port ([`ENDS`]).
    pub fn ends_at(&self, port: &str) -> bool {
        self.param(ENDS).is_some_and(|ports| ports.split(',').any(|name| name.trim() == port))
    }

    /// The reason for which a packet that ends at port `name` is dropped, if one is given.
    pub fn drop_reason(&self, name: &str) -> Option<&str> {
        self.attrs.iter().find_map(|a| match a {
            Attr::Drop { port, reason } if port == name => Some(reason.as_str()),
            _ => None,
        })
    }
}

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

/// One field's part of an entry: `field & mask == value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Bits that count; 0 is a wildcard.
    pub mask: u128,
    /// Their required value; no bit outside `mask`.
    pub value: u128,
}

/// An entry of a table. Where several match, the higher priority wins, then the earlier entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Written to the packet's metadata on a hit.
    pub id: u32,
    /// One key per field of the table, in the table's order.
    pub keys: Vec<Key>,
    /// Larger wins.
    pub priority: u32,
    /// The port by which a hit leaves.
    pub port: u32,
}

/// The value of a T-node: its fields and its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSpec {
    /// The fields, in the order of [`Entry::keys`].
    pub fields: Vec<Field>,
    /// The entries.
    pub entries: Vec<Entry>,
    /// The port for packets that match none.
    pub miss: u32,
    /// The number of entries that fit.
    pub capacity: usize,
}

/// A node's name without those of its clusters, which the picture shows around it.
pub(crate) fn short_name(node: &Node) -> &str {
    let own = node.name.strip_prefix(&node.clusters.concat());
    own.filter(|name| !name.is_empty()).unwrap_or(&node.name)
}

/// The name of an operator.
pub(crate) fn operator_name(op: Op) -> &'static str {
    match op {
        Op::And => "AND",
        Op::Or => "OR",
        Op::Nand => "NAND",
        Op::Nor => "NOR",
    }
}
