//! Why a config node cannot have a value.

use crate::config::ValueError;
use crate::{Graph, Node, NodeId};

/// Why a value cannot be applied. The graph is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No node has the name.
    #[error("there is no node `{0}`; use the full name, with those of its clusters")]
    NoNode(String),
    /// The node is of another kind.
    #[error("`{0}` is no config node, or already has its value")]
    NotConfig(String),
    /// The configuration space cannot be read.
    #[error("the type of `{node}` cannot be read: {reason}")]
    BadType {
        /// The node.
        node: String,
        /// The fault of its type.
        reason: String,
    },
    /// The value lies outside the configuration space.
    #[error("the value for `{node}` is outside its type: {reason}")]
    OutsideType {
        /// The node.
        node: String,
        /// The part of the value, and the reason.
        reason: ValueError,
    },
    /// The node has no such port.
    #[error("`{node}` has no port `{port}`; it has {known}")]
    NoPort {
        /// The node.
        node: String,
        /// The value.
        port: String,
        /// The ports it has.
        known: String,
    },
    /// The table does not fit the node.
    #[error("the table for `{node}` does not fit it: {reason}")]
    BadTable {
        /// The node.
        node: String,
        /// The part that does not fit.
        reason: String,
    },
    /// A spawn or notify edge needs the node to stay.
    #[error("`{node}` would vanish, but `{edge}` starts or ends there; give it a table instead")]
    StillNeeded {
        /// The node.
        node: String,
        /// The edge's label.
        edge: String,
    },
    /// An edge's end is neither new nor a neighbour of the node.
    #[error("the value for `{node}` connects `{end}`, which is neither new nor its neighbour")]
    NotLocal {
        /// The node.
        node: String,
        /// The end.
        end: String,
    },
}

/// The position of a node's port.
pub(super) fn require_port(node: &Node, name: &str) -> Result<usize, ConfigError> {
    node.port(name).ok_or_else(|| ConfigError::NoPort {
        node: node.name.clone(),
        port: name.into(),
        known: node.ports.iter().map(|p| format!("`{}`", p.name)).collect::<Vec<_>>().join(", "),
    })
}

pub(super) fn name_of(graph: &Graph, id: NodeId) -> String {
    graph.node(id).name.clone()
}
