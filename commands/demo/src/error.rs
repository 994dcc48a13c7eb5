//! Reasons why the demo could not be given. A mistake of the stack is a failed check, not an error.

use weever_service_api::ClientError;

use crate::peer::PeerError;

/// An error of the demo.
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
    /// Makes one from the reason why a stack did not start.
    pub(crate) fn start(why: impl std::fmt::Display) -> DemoError {
        DemoError::Start(why.to_string())
    }
}
