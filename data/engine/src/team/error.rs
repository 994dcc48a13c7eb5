//! Why a team cannot be built, or its graph not be changed.

use std::time::Duration;

use weever_block::BuildError;
use weever_graph::{ChangeError, GraphError};

use crate::CompileError;

/// What is wrong. Unless it is [`TeamError::NotAdopted`], nothing has changed on any worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// A team of nobody.
    #[error("a stack needs a worker; give it at least one")]
    Empty,
    /// A step of the change cannot be carried out.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The graph that results has no meaning.
    #[error("{}", list(.0))]
    Unsound(Vec<GraphError>),
    /// A node has no implementation, or none that fits.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A queue's packets start at a node that is not in the graph.
    #[error("{worker}: packets of link {link} start at `{node}`, which the graph has not")]
    NoSource {
        /// The worker.
        worker: String,
        /// The link's number.
        link: u16,
        /// The node's name.
        node: String,
    },
    /// A node is tagged for a worker that is not there.
    #[error("node {node}: there is no worker {tag}; use 0 to {}", .workers - 1)]
    NoWorker {
        /// The node.
        node: String,
        /// Its tag.
        tag: String,
        /// How many workers there are.
        workers: u16,
    },
    /// A node cannot be apart from those before it.
    #[error(
        "node {node} cannot run on a worker of its own: its packets would be needed on both sides \
         ({why}); tag what runs beside it as well, or lead to it by a spawn edge"
    )]
    Split {
        /// The node.
        node: String,
        /// What is in the way.
        why: String,
    },
    /// The part of the graph that a worker shall run does not do.
    #[error("{worker} cannot run this part of the graph: {why}")]
    Unfit {
        /// The worker.
        worker: String,
        /// What is in the way.
        why: String,
    },
    /// A node that runs cannot go to another worker.
    #[error(
        "node {node} is at home on worker {from} and cannot move to {to} while it runs; remove it, \
         and add it there under another name"
    )]
    HomeMoved {
        /// The node.
        node: String,
        /// Where it is; `any` if it has no home.
        from: String,
        /// Where it should be.
        to: String,
    },
    /// A worker could not be made.
    #[error("{worker}: {source}")]
    Worker {
        /// The worker.
        worker: String,
        /// What happened.
        source: std::io::Error,
    },
    /// A worker has not taken earlier changes.
    #[error(
        "{worker} has not taken the last changes yet: its thread does not turn; try again later"
    )]
    Behind {
        /// The worker.
        worker: String,
    },
    /// The change is published and will happen, but a worker has not switched in time.
    #[error(
        "{worker} has not taken graph {epoch} within {} ms: its thread does not turn; the others \
         run it already", .waited.as_millis()
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
