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
    /// Flows that were not there any more, or had just been moved.
    pub gone: usize,
    /// Flows that cannot leave their worker, as their block says.
    pub stays: usize,
    /// Flows whose state the new owner's block could not use; they have ended.
    pub refused: usize,
    /// Flows that are still on their way.
    pub open: usize,
}

/// Flows of one node that leave one worker.
#[derive(Debug)]
pub(crate) struct MoveOrder {
    pub(crate) at: NodeRef,
    /// Each flow with its new owner, by ascending key.
    pub(crate) moves: Vec<(FlowKey, u16)>,
    /// Whether packets of these flows no longer arrive where they did before.
    redirected: AtomicBool,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug)]
struct Progress {
    /// Whether the flows' packets are held at their new owners.
    begun: bool,
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
    pub(crate) fn new(at: NodeRef, mut moves: Vec<(FlowKey, u16)>) -> MoveOrder {
        moves.sort_unstable();
        let moved = Moved { open: moves.len(), ..Moved::default() };
        let progress = Mutex::new(Progress { begun: false, moved });
        let redirected = AtomicBool::new(false);
        MoveOrder { at, moves, redirected, progress, changed: Condvar::new() }
    }

    /// Whether it is to move this flow to that worker.
    pub(crate) fn names(&self, flow: (FlowKey, u16)) -> bool {
        self.moves.binary_search(&flow).is_ok()
    }

    /// Returns whether packets had not been redirected until now.
    pub(crate) fn redirect(&self) -> bool {
        !self.redirected.swap(true, AcqRel)
    }

    pub(crate) fn is_redirected(&self) -> bool {
        self.redirected.load(Acquire)
    }

    /// Called by the old owner when it has seen the order.
    pub(crate) fn begin(&self) {
        lock(&self.progress).begun = true;
        self.changed.notify_all();
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

    /// Waits until the old owner has seen the order, or the time is over; whether it has.
    pub(crate) fn wait_begun(&self, until: Instant) -> bool {
        self.wait_for(until, |progress| progress.begun).begun
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
