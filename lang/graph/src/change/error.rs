//! Why a change cannot be made.

use super::{EdgeName, Outlet};

/// The fault of a step of a change set. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// A step names a node that is not there.
    #[error("there is no node `{node}`{hint}")]
    NoSuchNode {
        /// The name.
        node: String,
        /// A suggestion, or nothing.
        hint: String,
    },
    /// An added node has a name that is taken.
    #[error("there is a node `{node}` already; replace it, or choose another name")]
    Exists {
        /// The name.
        node: String,
    },
    /// A step names a port that the node lacks.
    #[error("node `{node}` has no port `{port}`; it has {known}")]
    NoSuchPort {
        /// The node.
        node: String,
        /// The port.
        port: String,
        /// The ports it has.
        known: String,
    },
    /// An edge is added that is there.
    #[error("the edge {edge} is there already; leave the step out")]
    Bound {
        /// The edge.
        edge: EdgeName,
    },
    /// An edge is removed that is not there.
    #[error("there is no edge {edge}; the picture of the running graph shows those there are")]
    NotBound {
        /// The edge.
        edge: EdgeName,
    },
    /// A node is put into an edge that is not dataflow.
    #[error("a node cannot be put into {edge}: only dataflow edges can be cut; name a port")]
    NotDataflow {
        /// The edge.
        edge: EdgeName,
    },
    /// The tasks of a removed node shall go to a node that will not be there.
    #[error("tasks that wait at `{node}` cannot go to `{to}`, which is not in the new graph")]
    NowhereToGo {
        /// The node that is removed.
        node: String,
        /// The node to which its tasks were to go.
        to: String,
    },
}

impl std::fmt::Display for EdgeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let EdgeName { from, at, to } = self;
        match at {
            Outlet::Port(port) => write!(f, "`{from}.{port}` → `{to}`"),
            Outlet::Spawn(label) => write!(f, "`{from}` spawns `{label}` → `{to}`"),
            Outlet::Notify(label) => write!(f, "`{from}` notifies `{label}` → `{to}`"),
        }
    }
}
