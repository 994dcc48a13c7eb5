//! What each worker runs of the graph of all.

use std::sync::Arc;

use weever_block::{Registry, StateKind};
use weever_graph::{Graph, NodeId, Verified};

use super::TeamError;
use super::publisher::{Seat, judge};
use crate::schedule::{DEFAULT, Homes};

/// Says what a worker runs of the whole graph, given as workers execute it; `None`: all of it. It is
/// asked anew for every worker but the default one, number 0, whenever the graph changes. Nodes that stay
/// keep their names, and lead where they led or to a node that hands packets over to the default worker:
/// there may be tasks of any kind in them. What starts at nodes that a worker does not have goes to the
/// default worker.
pub type Fit = dyn Fn(&Verified, u16) -> Option<Graph> + Send + Sync;

/// How graphs are fitted, for now.
#[derive(Clone, Default)]
pub(super) struct Fitting(pub(super) Option<Arc<Fit>>);

impl std::fmt::Debug for Fitting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fitting({})", if self.0.is_some() { "parts" } else { "all" })
    }
}

impl Fitting {
    /// The part of each member, `None` for those that run the whole graph.
    ///
    /// # Errors
    /// [`TeamError::Unfit`]: a part that would lose packets or state.
    pub(super) fn parts(
        &self,
        whole: &Verified,
        seats: &[Seat],
        registry: &Registry,
        homes: Homes,
    ) -> Result<Vec<Option<Verified>>, TeamError> {
        let part = |(member, seat): (u16, &Seat)| {
            let fit = self.0.as_ref().filter(|_| member != DEFAULT);
            let part = fit.and_then(|fit| fit(whole, member)).filter(|part| *part != **whole);
            let check = |part| Check { whole, seat, member, registry, homes }.judge(part);
            part.map(check).transpose()
        };
        (0..).zip(seats).map(part).collect()
    }
}

struct Check<'a> {
    whole: &'a Verified,
    seat: &'a Seat,
    member: u16,
    registry: &'a Registry,
    homes: Homes,
}

impl Check<'_> {
    fn judge(&self, part: Graph) -> Result<Verified, TeamError> {
        let unfit = |why| TeamError::Unfit { worker: self.seat.name.clone(), why };
        let part = judge(part, self.registry).map_err(|error| unfit(error.to_string()))?;
        match self.objection(&part) {
            Some(why) => Err(unfit(why)),
            None => Ok(part),
        }
    }

    fn objection(&self, part: &Graph) -> Option<String> {
        let lacks = |name: &str| part.find(name).is_none();
        if let Some((link, source)) = self.seat.sources.iter().find(|(_, source)| lacks(source)) {
            return Some(format!("packets of link {link} start at `{source}`, which it has not"));
        }
        let home = |graph: &Graph, id: NodeId| self.homes.of(graph.node(id), self.registry);
        for (id, node) in part.iter() {
            let moved = |at: &NodeId| home(self.whole, *at) != home(part, id);
            if self.whole.find(&node.name).filter(moved).is_some() {
                return Some(format!(
                    "node `{}` is at home elsewhere in the whole graph",
                    node.name
                ));
            }
        }
        for (id, node) in self.whole.iter().filter(|(_, node)| lacks(&node.name)) {
            if home(self.whole, id) == Some(self.member) && is_started(self.whole, id) {
                return Some(format!("others start tasks at `{}`, which it has not", node.name));
            }
            let state = self.registry.type_of(node).map(|t| t.state).unwrap_or_default();
            if state == StateKind::Sharded {
                return Some(format!("a part of the state of `{}` is here", node.name));
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
