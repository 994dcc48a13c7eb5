//! Errors of building a team or changing its graph.

use std::time::Duration;

use weever_block::BuildError;
use weever_graph::{ChangeError, GraphError};

use crate::CompileError;

/// An error of building or changing a team. Except for [`TeamError::NotAdopted`], nothing has
/// changed on any worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// A team without members.
    #[error("a stack needs at least one worker")]
    Empty,
    /// A step of the change is impossible.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The resulting graph is unsound.
    #[error("{}", list(.0))]
    Unsound(Vec<GraphError>),
    /// A node has no implementation, or none that fits.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A queue's packets start at a node that does not exist.
    #[error("{worker}: packets of link {link} start at `{node}`, which is not in the graph")]
    NoSource {
        /// The worker.
        worker: String,
        /// The link's number.
        link: u16,
        /// The node's name.
        node: String,
    },
    /// A node names a worker that does not exist.
    #[error("node {node}: worker={tag}: there is no such worker; use 0 to {}", .workers - 1)]
    NoWorker {
        /// The node.
        node: String,
        /// The attribute's value.
        tag: String,
        /// How many workers there are.
        workers: u16,
    },
    /// A node cannot run on another worker than those before it.
    #[error(
        "node {node} cannot run on a worker of its own: its packets would be needed on both \
         workers ({why}); give the nodes beside it the same worker, or lead to it by a spawn edge"
    )]
    Split {
        /// The node.
        node: String,
        /// The obstacle.
        why: String,
    },
    /// A worker's part of the graph is unsuitable.
    #[error("{worker} cannot run this part of the graph: {why}")]
    Unfit {
        /// The worker.
        worker: String,
        /// The obstacle.
        why: String,
    },
    /// A running node cannot move to another worker.
    #[error(
        "node {node} is at home on worker {from} and cannot move to {to} while it runs; remove it, \
         and add it there under another name"
    )]
    HomeMoved {
        /// The node.
        node: String,
        /// Its worker; `any` if every worker runs it.
        from: String,
        /// The requested worker.
        to: String,
    },
    /// Flows are to be moved at a node that has none.
    #[error(
        "node {node} has no flows to move: there is no such node, its type keeps no state for \
         flows, or there is one worker only"
    )]
    NoFlows {
        /// The node.
        node: String,
    },
    /// Flows are to be moved to a worker that does not exist.
    #[error("node {node}: flows cannot move to worker {worker}: there is no such worker; use 0 to {}", .workers - 1)]
    NoSuchOwner {
        /// The node.
        node: String,
        /// The wanted worker.
        worker: u16,
        /// How many workers there are.
        workers: u16,
    },
    /// A worker could not be created.
    #[error("{worker}: {source}")]
    Worker {
        /// The worker.
        worker: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A worker has too many pending changes.
    #[error("{worker} has not applied earlier changes: its thread is stuck; try again later")]
    Behind {
        /// The worker.
        worker: String,
    },
    /// The change is published and takes effect, but a worker has not switched in time.
    #[error(
        "{worker} has not switched to graph {epoch} within {} ms: its thread is stuck; the other \
         workers run it already", .waited.as_millis()
    )]
    NotAdopted {
        /// The worker.
        worker: String,
        /// The graph's number.
        epoch: u64,
        /// How long was waited.
        waited: Duration,
    },
}

impl From<BuildError> for TeamError {
    fn from(error: BuildError) -> TeamError {
        TeamError::Compile(error.into())
    }
}

impl From<Vec<GraphError>> for TeamError {
    fn from(errors: Vec<GraphError>) -> TeamError {
        TeamError::Unsound(errors)
    }
}

fn list(errors: &[GraphError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
