//! The part of the graph that each worker runs.

use std::sync::Arc;

use weever_block::Registry;
use weever_graph::{Graph, NodeId, Verified};

use super::TeamError;
use super::running::{WorkerHandle, annotate_and_verify};
use crate::schedule::{DEFAULT, Homes};

/// Selects the part of the whole graph (as workers execute it) that a worker runs; `None`: all of
/// it. Called for every worker but the default one, number 0, at every change. Nodes in a part keep
/// their names, and their edges lead either where they did or to a node that hands packets over to
/// the default worker, since any kind of packet may arrive. Tasks for nodes that a worker does not
/// have go to the default worker.
pub type Fit = dyn Fn(&Verified, u16) -> Option<Graph> + Send + Sync;

/// The current selection of parts.
#[derive(Clone, Default)]
pub(super) struct PartSelection(pub(super) Option<Arc<Fit>>);

impl std::fmt::Debug for PartSelection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartSelection({})", if self.0.is_some() { "parts" } else { "all" })
    }
}

impl PartSelection {
    /// The part of each member, `None` for those that run the whole graph.
    ///
    /// # Errors
    /// [`TeamError::Unfit`]: a part that would lose packets or state.
    pub(super) fn parts(
        &self,
        whole: &Verified,
        handles: &[WorkerHandle],
        registry: &Registry,
        homes: Homes,
    ) -> Result<Vec<Option<Verified>>, TeamError> {
        let part = |(member, handle): (u16, &WorkerHandle)| {
            let fit = self.0.as_ref().filter(|_| member != DEFAULT);
            let part = fit.and_then(|fit| fit(whole, member)).filter(|part| *part != **whole);
            let check = |part| Check { whole, handle, member, registry, homes }.run(part);
            part.map(check).transpose()
        };
        (0..).zip(handles).map(part).collect()
    }
}

struct Check<'a> {
    whole: &'a Verified,
    handle: &'a WorkerHandle,
    member: u16,
    registry: &'a Registry,
    homes: Homes,
}

impl Check<'_> {
    fn run(&self, part: Graph) -> Result<Verified, TeamError> {
        let unfit = |why| TeamError::Unfit { worker: self.handle.name.clone(), why };
        let part =
            annotate_and_verify(part, self.registry).map_err(|error| unfit(error.to_string()))?;
        match self.problem(&part) {
            Some(why) => Err(unfit(why)),
            None => Ok(part),
        }
    }

    fn problem(&self, part: &Graph) -> Option<String> {
        let lacks = |name: &str| part.find(name).is_none();
        if let Some((link, source)) = self.handle.sources.iter().find(|(_, source)| lacks(source)) {
            return Some(format!(
                "packets of link {link} start at `{source}`, which its part does not contain"
            ));
        }
        let home = |graph: &Graph, id: NodeId| self.homes.of(graph.node(id), self.registry);
        for (id, node) in part.iter() {
            let moved = |at: &NodeId| home(self.whole, *at) != home(part, id);
            if self.whole.find(&node.name).filter(moved).is_some() {
                return Some(format!(
                    "node `{}` runs on another worker in the whole graph",
                    node.name
                ));
            }
        }
        for (id, node) in self.whole.iter().filter(|(_, node)| lacks(&node.name)) {
            if home(self.whole, id) == Some(self.member) && is_started(self.whole, id) {
                return Some(format!(
                    "other workers start tasks at `{}`, which its part does not contain",
                    node.name
                ));
            }
        }
        None
    }
}

/// Whether an edge starts tasks at a node.
fn is_started(graph: &Graph, id: NodeId) -> bool {
    let edges = graph.iter().flat_map(|(_, node)| node.spawns.iter().chain(&node.notifies));
    edges.into_iter().any(|edge| edge.target == id)
}
