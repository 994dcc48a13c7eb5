//! The graphs that the workers of a team run.

use std::sync::Arc;

use weever_block::Registry;
use weever_graph::{Graph, Verified, verify};

use super::TeamError;
use crate::doorbell::Waker;
use crate::mailbox::Mailbox;
use crate::moves::MoveInbox;
use crate::schedule::{CompiledGraph, Idps, Update};

/// The publisher's side of a worker.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) name: String,
    pub(super) mailbox: Arc<Mailbox<Update>>,
    pub(super) waker: Waker,
    /// Orders to move flows away.
    pub(super) moves: Arc<MoveInbox>,
    /// The start node of each link's packets.
    pub(super) sources: Vec<(u16, String)>,
}

/// The graph that the workers run, or will run at their next turn.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) logical: Verified,
    /// By worker; the first runs the whole graph.
    pub(super) plans: Vec<Arc<CompiledGraph>>,
    pub(super) idps: Idps,
    pub(super) epoch: u64,
}

/// Adds the effects of block types to the nodes and verifies the graph.
pub(super) fn annotate_and_verify(
    mut graph: Graph,
    registry: &Registry,
) -> Result<Verified, TeamError> {
    registry.annotate(&mut graph)?;
    Ok(verify(graph)?)
}
