//! Moving flows between the workers of a team (docs/design/0036).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_block::{FlowKey, FlowOwners};

use super::TeamError;
use super::publisher::Publisher;
use crate::mailbox::Waker;
use crate::moves::{FlowOrder, ListOrder, ListedFlows, MoveOrder, Moved};
use crate::schedule::NodeRef;

/// Flows on their way to other workers, which hold the flows' packets from the beginning of the move
/// to its end. Dropping it lets the move go on.
#[derive(Debug)]
pub struct FlowMoves {
    orders: Vec<Arc<MoveOrder>>,
    /// The numbers of all workers.
    wakers: Vec<Waker>,
}

impl FlowMoves {
    /// Waits until the new owners hold the packets that arrive there; before that, nothing may
    /// redirect any. `false`: a worker has not noticed within this time. Blocks; the workers need
    /// their threads.
    pub fn wait_begun(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        self.orders.iter().all(|order| order.wait_begun(until))
    }

    /// Says that packets of these flows no longer arrive where they did before: the old owners send
    /// the state as soon as they have run all that arrived until now. Does not block.
    pub fn redirected(&self) {
        let redirected = self.orders.iter().filter(|order| order.redirect()).count();
        if redirected > 0 {
            // All workers answer the old owners.
            self.wakers.iter().for_each(Waker::wake);
        }
    }

    /// The results of the moves until now.
    pub fn progress(&self) -> Moved {
        total(self.orders.iter().map(|order| order.progress()))
    }

    /// Waits until all flows have arrived, at most so long. Blocks; the workers need their threads.
    pub fn wait(&self, patience: Duration) -> Moved {
        let until = Instant::now() + patience;
        total(self.orders.iter().map(|order| order.wait(until)))
    }
}

/// The lists of the workers' flows, which they make between bursts.
#[derive(Debug)]
pub struct FlowLists {
    order: Arc<ListOrder>,
}

impl FlowLists {
    /// Whether all workers have listed their flows. Does not block.
    pub fn is_complete(&self) -> bool {
        self.order.is_complete()
    }

    /// Waits until all workers have listed their flows, at most so long, and returns the lists that exist by
    /// then. Blocks; the workers need their threads.
    pub fn wait(self, patience: Duration) -> ListedFlows {
        self.order.wait(Instant::now() + patience)
    }
}

impl Drop for FlowMoves {
    fn drop(&mut self) {
        self.redirected();
    }
}

fn total(parts: impl Iterator<Item = Moved>) -> Moved {
    parts.fold(Moved::default(), |sum, part| Moved {
        moved: sum.moved + part.moved,
        gone: sum.gone + part.gone,
        stays: sum.stays + part.stays,
        refused: sum.refused + part.refused,
        open: sum.open + part.open,
    })
}

impl Publisher {
    /// Begins to move flows of a node to other workers: each key with the number of its new owner.
    /// [Wait](FlowMoves::wait_begun) for the old owners, change the settings that make packets
    /// arrive elsewhere, such as a device's filters, and call [`FlowMoves::redirected`]. No packet
    /// of the flows is lost or overtakes another on the way. Does not block. Flows without an owner
    /// are left alone.
    ///
    /// # Errors
    /// [`TeamError::NoFlows`], [`TeamError::NoSuchOwner`].
    pub fn begin_moves(
        &self,
        node: &str,
        moves: &[(FlowKey, u16)],
    ) -> Result<FlowMoves, TeamError> {
        let (at, owners) = self.sharded(node)?;
        let workers = self.workers();
        if let Some((_, worker)) = moves.iter().find(|(_, to)| *to >= workers) {
            return Err(TeamError::NoSuchOwner { node: node.into(), worker: *worker, workers });
        }
        let mut by_owner: BTreeMap<u16, Vec<(FlowKey, u16)>> = BTreeMap::new();
        for (key, to) in moves {
            if let Some(owner) = owners.owner(*key).filter(|owner| owner.worker != *to) {
                by_owner.entry(owner.worker).or_default().push((*key, *to));
            }
        }
        let order = |(from, moves)| {
            let order = Arc::new(MoveOrder::new(at, moves));
            self.give_order(from, FlowOrder::Move(order.clone())).then_some(order)
        };
        let orders = by_owner.into_iter().filter_map(order).collect();
        Ok(FlowMoves { orders, wakers: self.wakers() })
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

    /// Has a worker give up all flows that it owns now; `to` names the new owner of each, of the node
    /// called so. Blocks as [`move_flows`](Self::move_flows) does.
    ///
    /// # Errors
    /// As [`begin_moves`](Self::begin_moves).
    pub fn give_up_flows(
        &self,
        worker: u16,
        to: impl Fn(&str, FlowKey) -> u16,
        patience: Duration,
    ) -> Result<Moved, TeamError> {
        let mut all = Vec::new();
        for (node, owners) in self.all_sharded() {
            let keys = owners.of_worker(worker);
            let moves: Vec<_> = keys.into_iter().map(|key| (key, to(&node, key))).collect();
            let moves = self.begin_moves(&node, &moves)?;
            moves.redirected();
            all.push(moves);
        }
        Ok(total(all.iter().map(|moves| moves.wait(patience))))
    }

    /// Has all workers list their flows of a node, for a plan that sends sets of flows elsewhere. Does
    /// not block.
    ///
    /// # Errors
    /// [`TeamError::NoFlows`].
    pub fn list_flows(&self, node: &str) -> Result<FlowLists, TeamError> {
        let (at, _) = self.sharded(node)?;
        let order = Arc::new(ListOrder::new(at, self.workers().into()));
        for worker in 0..self.workers() {
            if !self.give_order(worker, FlowOrder::List(order.clone())) {
                order.answer(worker, Vec::new());
            }
        }
        Ok(FlowLists { order })
    }

    /// The owners of the flows of a node.
    ///
    /// # Errors
    /// [`TeamError::NoFlows`].
    pub fn flow_owners(&self, node: &str) -> Result<Arc<FlowOwners>, TeamError> {
        Ok(self.sharded(node)?.1)
    }

    fn sharded(&self, node: &str) -> Result<(NodeRef, Arc<FlowOwners>), TeamError> {
        self.find_sharded(node).ok_or_else(|| TeamError::NoFlows { node: node.into() })
    }
}
