//! Orders to list flows, and to move them from one worker to another, shared by the thread that gives
//! them and the workers that carry them out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weever_block::{FlowEnds, FlowKey, FlowOwners, State};

use crate::schedule::NodeRef;

/// The outcome of moving flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// Flows that go on at their new owner.
    pub moved: usize,
    /// Flows that have ended, or were at their new owner already.
    pub gone: usize,
    /// Flows that cannot leave their worker, as their block says, or because the new owner does not have
    /// the node any more.
    pub stays: usize,
    /// Flows whose state the new owner's block could not use; they have ended.
    pub refused: usize,
    /// Flows that are still on their way.
    pub open: usize,
}

/// What becomes of flows of an order that another worker has by the time it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// They leave that worker.
    Follow,
    /// They stay there: it was only to leave the first one.
    Stay,
}

/// A flow with its new owner.
pub(crate) type FlowMove = (FlowKey, u16);

/// Flows of one node that leave one worker.
#[derive(Debug)]
pub(crate) struct MoveOrder {
    pub(crate) at: NodeRef,
    pub(crate) owners: Arc<FlowOwners>,
    pub(crate) others: Others,
    /// By ascending key.
    pub(crate) moves: Vec<FlowMove>,
    /// Whether packets of these flows no longer arrive where they did before.
    redirected: AtomicBool,
    /// Whether some flow has begun to leave.
    under_way: AtomicBool,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug)]
struct Progress {
    /// Flows whose packets are not held at their new owners yet.
    not_begun: usize,
    moved: Moved,
}

/// The result of a move of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Moved,
    Gone,
    Refused,
    Stays,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MoveOrder {
    pub(crate) fn new(
        at: NodeRef,
        owners: Arc<FlowOwners>,
        others: Others,
        mut moves: Vec<FlowMove>,
    ) -> MoveOrder {
        moves.sort_unstable();
        let moved = Moved { open: moves.len(), ..Moved::default() };
        let progress = Mutex::new(Progress { not_begun: moves.len(), moved });
        let [redirected, under_way] = [const { AtomicBool::new(false) }; 2];
        let changed = Condvar::new();
        MoveOrder { at, owners, others, moves, redirected, under_way, progress, changed }
    }

    /// Whether it is to move this flow to that worker.
    pub(crate) fn names(&self, flow: FlowMove) -> bool {
        self.moves.binary_search(&flow).is_ok()
    }

    /// Returns whether packets had not been redirected until now.
    pub(crate) fn redirect(&self) -> bool {
        !self.redirected.swap(true, AcqRel)
    }

    pub(crate) fn is_redirected(&self) -> bool {
        self.redirected.load(Acquire)
    }

    /// Called by an old owner: a flow has begun to leave. Changes of the workers' graphs wait for such an order, so
    /// its other flows do not wait for them.
    pub(crate) fn set_under_way(&self) {
        self.under_way.store(true, Release);
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.load(Acquire)
    }

    /// Called by an old owner: so many flows have begun to move, or do not move.
    pub(crate) fn begin(&self, flows: usize) {
        let mut progress = lock(&self.progress);
        progress.not_begun = progress.not_begun.saturating_sub(flows);
        if progress.not_begun == 0 {
            self.changed.notify_all();
        }
    }

    /// Called by a worker, once for each flow.
    pub(crate) fn record(&self, outcome: Outcome) {
        let mut progress = lock(&self.progress);
        let moved = &mut progress.moved;
        moved.open = moved.open.saturating_sub(1);
        match outcome {
            Outcome::Moved => moved.moved += 1,
            Outcome::Gone => moved.gone += 1,
            Outcome::Refused => moved.refused += 1,
            Outcome::Stays => moved.stays += 1,
        }
        if moved.open == 0 {
            self.changed.notify_all();
        }
    }

    pub(crate) fn progress(&self) -> Moved {
        lock(&self.progress).moved
    }

    /// Waits until all flows have begun to move, or the time is over; whether they have.
    pub(crate) fn wait_begun(&self, until: Instant) -> bool {
        self.wait_for(until, |progress| progress.not_begun == 0).not_begun == 0
    }

    /// Waits until every flow has arrived, or the time is over.
    pub(crate) fn wait(&self, until: Instant) -> Moved {
        self.wait_for(until, |progress| progress.moved.open == 0).moved
    }

    fn wait_for(
        &self,
        until: Instant,
        happened: impl Fn(&Progress) -> bool,
    ) -> MutexGuard<'_, Progress> {
        let mut progress = lock(&self.progress);
        while !happened(&progress) {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            let waited = self.changed.wait_timeout(progress, left);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        progress
    }
}

/// The state of a flow on its way to its new owner.
#[derive(Debug)]
pub(crate) struct FlowMessage {
    pub(crate) at: NodeRef,
    pub(crate) key: FlowKey,
    /// `None`: the block had none.
    pub(crate) state: Option<State>,
    pub(crate) owners: Arc<FlowOwners>,
    pub(crate) order: Option<Arc<MoveOrder>>,
}

impl FlowMessage {
    pub(crate) fn record(&self, outcome: Outcome) {
        if let Some(order) = &self.order {
            order.record(outcome);
        }
    }
}

/// A question to all workers for their flows of one node.
#[derive(Debug)]
pub(crate) struct ListOrder {
    pub(crate) at: NodeRef,
    workers: usize,
    /// Each worker's list, as it made it: workers hold the lock for one entry only.
    answers: Mutex<Vec<(u16, Vec<FlowEnds>)>>,
    changed: Condvar,
}

/// Flows, each with the worker that has its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedFlows {
    /// The flows of the workers that have answered.
    pub flows: Vec<(u16, FlowEnds)>,
    /// The number of workers that have not answered, and whose flows are missing.
    pub late: usize,
}

impl ListOrder {
    pub(crate) fn new(at: NodeRef, workers: usize) -> ListOrder {
        let answers = Mutex::new(Vec::with_capacity(workers));
        ListOrder { at, workers, answers, changed: Condvar::new() }
    }

    /// The answer of a worker, once.
    pub(crate) fn answer(&self, worker: u16, flows: Vec<FlowEnds>) {
        let mut answers = lock(&self.answers);
        answers.push((worker, flows));
        if answers.len() == self.workers {
            self.changed.notify_all();
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.answers).len() == self.workers
    }

    /// Waits until all workers have answered, or the time is over, and takes the answers.
    pub(crate) fn wait(&self, until: Instant) -> ListedFlows {
        let mut answers = lock(&self.answers);
        while answers.len() < self.workers {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            let waited = self.changed.wait_timeout(answers, left);
            answers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let answered = std::mem::take(&mut *answers);
        drop(answers);
        let late = self.workers - answered.len();
        let of_worker =
            |(worker, flows): (u16, Vec<FlowEnds>)| flows.into_iter().map(move |f| (worker, f));
        ListedFlows { flows: answered.into_iter().flat_map(of_worker).collect(), late }
    }
}

/// An order to a worker about its flows.
#[derive(Debug)]
pub(crate) enum FlowOrder {
    Move(Arc<MoveOrder>),
    List(Arc<ListOrder>),
}

/// The orders that a worker has not seen yet. Looking costs the worker one load.
#[derive(Debug, Default)]
pub(crate) struct MoveInbox {
    any: AtomicBool,
    orders: Mutex<VecDeque<FlowOrder>>,
}

impl MoveInbox {
    pub(crate) fn put(&self, order: FlowOrder) {
        lock(&self.orders).push_back(order);
        self.any.store(true, Release);
    }

    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.any.load(Acquire)
    }

    pub(crate) fn take(&self) -> VecDeque<FlowOrder> {
        let mut orders = lock(&self.orders);
        self.any.store(false, Release);
        std::mem::take(&mut orders)
    }
}
