//! A stack, a peer, and what lies between them.

use weever_daemon::Stack;
use weever_testbed::Fixture;

use crate::peer::Peer;

/// Where weever's UDP echo service listens.
pub(crate) const PORT: u16 = 7;

/// Everything that a demonstration needs. Dropping it leaves nothing behind.
pub(crate) struct Stage {
    pub(crate) stack: Stack,
    pub(crate) peer: Box<dyn Peer>,
    /// What was set up, in words.
    pub(crate) setup: Vec<String>,
    /// Dropped last.
    pub(crate) _network: Option<Fixture>,
}
