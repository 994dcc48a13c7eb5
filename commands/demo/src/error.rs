//! Why the demo could not be given. What the stack does wrong is a failed check, not an error.

use weever_service_api::ClientError;

use crate::peer::PeerError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The peer could not do its part.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The stack's control socket did not answer.
    #[error("control socket: {0}")]
    Control(#[from] ClientError),
    /// The test network could not be built.
    #[error("test network: {0}")]
    Network(#[from] weever_testbed::Error),
    /// The stack did not start.
    #[error("{0}")]
    Start(String),
    /// The picture of the graph could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Where to.
        path: String,
        /// The system's word.
        source: std::io::Error,
    },
}

impl DemoError {
    /// Makes one of what kept a stack from starting.
    pub(crate) fn start(why: impl std::fmt::Display) -> DemoError {
        DemoError::Start(why.to_string())
    }
}
