//! Orders to list and to move flows: giving them to the workers, and waiting for the outcome (docs/design/0036).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use weever_block::{FlowOwner, FlowOwners};

use super::partition::WorkerHandle;
use crate::mailbox::Waker;
use crate::moves::{FlowMove, FlowOrder, ListOrder, ListedFlows, MoveOrder, Moved, Others};
use crate::schedule::NodeRef;

/// Flows on their way to other workers, which hold the flows' packets from the beginning of the move
/// to its end. Dropping it lets the move go on.
#[derive(Debug)]
pub struct FlowMoves {
    orders: Vec<Arc<MoveOrder>>,
    /// Flows that need no order.
    there: usize,
    /// What wakes each worker.
    wakers: Vec<Waker>,
}

/// The orders to move flows that have been given, as far as they are not carried out.
#[derive(Debug, Default)]
pub(super) struct OpenOrders(Mutex<Vec<Weak<MoveOrder>>>);

impl OpenOrders {
    /// Has `give` give orders about the flows of a node, which is told whether others about these are open.
    fn add(
        &self,
        owners: &Arc<FlowOwners>,
        give: impl FnOnce(bool) -> Vec<Arc<MoveOrder>>,
    ) -> Vec<Arc<MoveOrder>> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|order| order.upgrade().is_some_and(|order| order.progress().open > 0));
        let is_of_these = |order: &Arc<MoveOrder>| Arc::ptr_eq(&order.owners, owners);
        let others = open.iter().filter_map(Weak::upgrade).any(|order| is_of_these(&order));
        let given = give(others);
        open.extend(given.iter().map(Arc::downgrade));
        given
    }
}

impl FlowMoves {
    /// Orders the workers that own these flows of a node to move them, or one to move those that it has.
    pub(super) fn begin(
        workers: &[WorkerHandle],
        open: &OpenOrders,
        (at, owners): (NodeRef, &Arc<FlowOwners>),
        from: Option<u16>,
        moves: &[FlowMove],
    ) -> FlowMoves {
        let mut there = 0;
        let orders = open.add(owners, |others_are_open| {
            let mut by_owner: BTreeMap<u16, Vec<FlowMove>> = BTreeMap::new();
            for (key, to) in moves {
                let Some(owner) = owners.owner(*key) else { continue };
                // While another order is open, one to the present owner matters, too: the other may not have begun.
                if !others_are_open && owner == (FlowOwner { worker: *to, from: None }) {
                    there += 1;
                    continue;
                }
                by_owner.entry(from.unwrap_or(owner.worker)).or_default().push((*key, *to));
            }
            let others = if from.is_some() { Others::Stay } else { Others::Follow };
            let order = |(from, moves): (u16, _)| {
                let order = Arc::new(MoveOrder::new(at, owners.clone(), others, moves));
                workers.get(usize::from(from))?.order(FlowOrder::Move(order.clone()));
                Some(order)
            };
            by_owner.into_iter().filter_map(order).collect()
        });
        let wakers = workers.iter().map(|worker| worker.waker.clone()).collect();
        FlowMoves { orders, there, wakers }
    }

    /// Waits until the new owners hold the packets that arrive there; before that, nothing may
    /// redirect any. `false`: some flows have not begun to move within this time, as a worker has not noticed, an
    /// earlier move of theirs goes on, or the graphs of workers change. They move later. An earlier order for some of
    /// the same flows has to be [redirected](Self::redirected) before, or the two wait for each other. Blocks; the workers
    /// need their threads.
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
        self.with_those_there(self.orders.iter().map(|order| order.progress()))
    }

    /// Waits until all flows have arrived, at most so long. Blocks; the workers need their threads.
    pub fn wait(&self, patience: Duration) -> Moved {
        let until = Instant::now() + patience;
        self.with_those_there(self.orders.iter().map(|order| order.wait(until)))
    }

    fn with_those_there(&self, moved: impl Iterator<Item = Moved>) -> Moved {
        let there = Moved { gone: self.there, ..Moved::default() };
        total(moved.chain([there]))
    }
}

/// The lists of the workers' flows, which they make between bursts.
#[derive(Debug)]
pub struct FlowLists {
    order: Arc<ListOrder>,
}

impl FlowLists {
    /// Asks all workers for their flows of a node.
    pub(super) fn ask(workers: &[WorkerHandle], at: NodeRef) -> FlowLists {
        let order = Arc::new(ListOrder::new(at, workers.len()));
        workers.iter().for_each(|worker| worker.order(FlowOrder::List(order.clone())));
        FlowLists { order }
    }

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

pub(super) fn total(parts: impl Iterator<Item = Moved>) -> Moved {
    parts.fold(Moved::default(), |sum, part| Moved {
        moved: sum.moved + part.moved,
        gone: sum.gone + part.gone,
        stays: sum.stays + part.stays,
        refused: sum.refused + part.refused,
        open: sum.open + part.open,
    })
}
