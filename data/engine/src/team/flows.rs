//! Moving flows between the workers of a team (docs/design/0036).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_block::{FlowKey, FlowOwners};

use super::TeamError;
use super::orders::{FlowLists, FlowMoves, total};
use super::publisher::Publisher;
use crate::moves::Moved;
use crate::schedule::NodeRef;

impl Publisher {
    /// Begins to move flows of a node to other workers: each key with the number of its new owner.
    /// [Wait](FlowMoves::wait_begun) for the old owners, change the settings that make packets
    /// arrive elsewhere, such as a device's filters, and call [`FlowMoves::redirected`]. No packet
    /// of the flows is lost or overtakes another on the way. A flow whose state is still on its way to its owner
    /// moves on from there, and one that is ordered to move during a change of the workers' graphs moves after it.
    /// Does not block. Flows without an owner are left alone.
    ///
    /// # Errors
    /// [`TeamError::NoFlows`], [`TeamError::NoSuchOwner`].
    pub fn begin_moves(
        &self,
        node: &str,
        moves: &[(FlowKey, u16)],
    ) -> Result<FlowMoves, TeamError> {
        let (at, owners) = self.sharded(node)?;
        moves.iter().try_for_each(|(_, to)| self.check_owner(node, *to))?;
        Ok(FlowMoves::begin(self.handles(), self.open_orders(), (at, &owners), None, moves))
    }

    /// Moves flows whose packets may arrive anywhere, and waits for it. A flow still on its way
    /// when the time is over is counted as open, and arrives later.
    ///
    /// # Errors
    /// As [`begin_moves`](Self::begin_moves).
    pub fn move_flows(
        &self,
        node: &str,
        moves: &[(FlowKey, u16)],
        patience: Duration,
    ) -> Result<Moved, TeamError> {
        let moves = self.begin_moves(node, moves)?;
        moves.redirected();
        Ok(moves.wait(patience))
    }

    /// Has a worker give up all flows that it owns now; `to` names the new owner for the flows of each node, or
    /// none if they are to stay. Returns the results by new owner. Blocks as [`move_flows`](Self::move_flows) does.
    ///
    /// # Errors
    /// As [`begin_moves`](Self::begin_moves).
    pub fn give_up_flows(
        &self,
        worker: u16,
        to: impl Fn(&str) -> Option<u16>,
        patience: Duration,
    ) -> Result<BTreeMap<u16, Moved>, TeamError> {
        let mut all: BTreeMap<u16, Vec<FlowMoves>> = BTreeMap::new();
        for (node, owners) in self.all_sharded() {
            let Some(to) = to(&node) else { continue };
            self.check_owner(&node, to)?;
            let keys = owners.of_worker(worker);
            let moves: Vec<_> = keys.into_iter().map(|key| (key, to)).collect();
            let place = (self.sharded(&node)?.0, &owners);
            let (handles, open) = (self.handles(), self.open_orders());
            let moves = FlowMoves::begin(handles, open, place, Some(worker), &moves);
            moves.redirected();
            all.entry(to).or_default().push(moves);
        }
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let wait = |(to, moves): (u16, Vec<FlowMoves>)| {
            (to, total(moves.iter().map(|moves| moves.wait(left()))))
        };
        Ok(all.into_iter().map(wait).collect())
    }

    /// Has all workers list their flows of a node, for a plan that sends sets of flows elsewhere. Does
    /// not block.
    ///
    /// # Errors
    /// [`TeamError::NoFlows`].
    pub fn list_flows(&self, node: &str) -> Result<FlowLists, TeamError> {
        Ok(FlowLists::ask(self.handles(), self.sharded(node)?.0))
    }

    /// The owners of the flows of a node.
    ///
    /// # Errors
    /// [`TeamError::NoFlows`].
    pub fn flow_owners(&self, node: &str) -> Result<Arc<FlowOwners>, TeamError> {
        Ok(self.sharded(node)?.1)
    }

    fn check_owner(&self, node: &str, worker: u16) -> Result<(), TeamError> {
        match self.workers() {
            workers if worker < workers => Ok(()),
            workers => Err(TeamError::NoSuchOwner { node: node.into(), worker, workers }),
        }
    }

    fn sharded(&self, node: &str) -> Result<(NodeRef, Arc<FlowOwners>), TeamError> {
        self.find_sharded(node).ok_or_else(|| TeamError::NoFlows { node: node.into() })
    }
}
