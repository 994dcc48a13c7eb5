//! Publishes the next graph to all workers or to none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weever_block::FlowOwners;
use weever_graph::change::diff;
use weever_graph::{ChangeSet, Graph, Verified, apply};

use super::TeamError;
use super::next::{Compiler, Next};
use super::orders::OpenOrders;
use super::partition::{Fit, PartSelection, Running, WorkerHandle, annotate_and_verify, partition};
use super::reroute::{Pausing, Reroute};
use crate::quiet::Quiet;
use crate::schedule::{BlockMaker, Homes, Idp, NodeRef, Update};

/// How long a change waits for the workers by default. A turn takes microseconds.
const ADOPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest pause in reception for a change of ways. Nearly always some turns suffice; a device's ring
/// holds the packets of a millisecond or more.
const PAUSE: Duration = Duration::from_millis(50);

/// A completed change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The number of the graph that runs now.
    pub epoch: u64,
    /// The number of steps of the change, or of workers with another part; 0 if nothing had to
    /// change.
    pub steps: usize,
    /// Nodes whose new block could not use the old one's state.
    pub afresh: Vec<String>,
}

/// Changes the graph that a team runs. Any thread may call it; changes are made one after the
/// other, each relative to the graph that runs at that time.
#[derive(Debug)]
pub struct Publisher {
    handles: Box<[WorkerHandle]>,
    maker: Arc<BlockMaker>,
    homes: Homes,
    /// Held by the thread that changes the graph and waits for the workers; readers are not
    /// blocked.
    turn: Mutex<PartSelection>,
    /// Held only to copy or replace the pointer.
    running: Mutex<Arc<Running>>,
    quiet: Arc<Quiet>,
    patience: Mutex<Patience>,
    open_orders: OpenOrders,
}

/// How long a change waits.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For the workers.
    adoption: Duration,
    /// The longest pause in reception.
    pause: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Publisher {
    pub(super) fn new(
        handles: Vec<WorkerHandle>,
        maker: Arc<BlockMaker>,
        homes: Homes,
        running: Running,
        quiet: Arc<Quiet>,
    ) -> Publisher {
        let (turn, running) = (Mutex::default(), Mutex::new(Arc::new(running)));
        let patience = Mutex::new(Patience { adoption: ADOPT_TIMEOUT, pause: PAUSE });
        let (handles, open_orders) = (handles.into(), OpenOrders::default());
        Publisher { handles, maker, homes, turn, running, quiet, patience, open_orders }
    }

    /// Sets how long a change waits for the workers, instead of five seconds, and how long it has reception pause,
    /// instead of 50 ms. For callers who [turn](crate::Worker::turn) the workers themselves.
    pub fn set_patience(&self, patience: Duration) {
        *lock(&self.patience) = Patience { adoption: patience, pause: patience };
    }

    fn running(&self) -> Arc<Running> {
        lock(&self.running).clone()
    }

    /// The running graph as it was given, which changes refer to. During a change it is the old
    /// graph until the new one is published. Does not block; nor do the other methods that only
    /// read.
    pub fn graph(&self) -> Verified {
        self.running().logical.clone()
    }

    /// The graph as a worker executes it; `None` if there is no worker of this number.
    pub fn executed(&self, worker: usize) -> Option<Verified> {
        self.running().plans.get(worker).map(|plan| plan.graph.clone())
    }

    /// The number of nodes that each worker executes.
    pub fn sizes(&self) -> Vec<usize> {
        self.running().plans.iter().map(|plan| plan.graph.len()).collect()
    }

    /// The number of the graph that runs: 0 for the first.
    pub fn epoch(&self) -> u64 {
        self.running().epoch
    }

    /// The dispatch point of a node, if it exists or has existed.
    pub fn idp(&self, node: &str) -> Option<Idp> {
        self.running().idps.get(node)
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> u16 {
        self.homes.workers
    }

    pub(super) fn find_sharded(&self, node: &str) -> Option<(NodeRef, Arc<FlowOwners>)> {
        let running = self.running();
        let owners = running.idps.owners(node)?.clone();
        let plan = &running.plans[0];
        let at = NodeRef {
            entry: plan.start_of(node)?,
            idp: running.idps.get(node)?,
            epoch: running.epoch,
        };
        Some((at, owners))
    }

    pub(super) fn all_sharded(&self) -> Vec<(String, Arc<FlowOwners>)> {
        let running = self.running();
        running.idps.sharded().map(|(name, owners)| (name.to_owned(), owners.clone())).collect()
    }

    pub(super) fn handles(&self) -> &[WorkerHandle] {
        &self.handles
    }

    pub(super) fn open_orders(&self) -> &OpenOrders {
        &self.open_orders
    }

    /// The name of each worker with the number of the graph that it runs.
    pub fn adopted(&self) -> Vec<(String, u64)> {
        self.handles.iter().map(|handle| (handle.name.clone(), handle.mailbox.adopted())).collect()
    }

    /// Replaces the running graph by `wanted`: computes the difference and applies it.
    ///
    /// # Errors
    /// As [`change`](Publisher::change).
    pub fn replace(&self, mut wanted: Graph) -> Result<Published, TeamError> {
        self.maker.registry.annotate(&mut wanted)?;
        let selection = lock(&self.turn);
        let running = self.running();
        let changes = diff(&running.logical, &wanted);
        self.carry_out(&running, &selection, &changes)
    }

    /// Changes the running graph. Everything is checked and compiled before anything is published;
    /// then each worker switches between two bursts, and the call returns when all have. Blocks the
    /// caller, not the workers. Workers without a thread count as switched, and switch before they
    /// run.
    ///
    /// Nothing has changed, except with [`TeamError::NotAdopted`]: then the change is published and
    /// a worker is late.
    pub fn change(&self, changes: &ChangeSet) -> Result<Published, TeamError> {
        let selection = lock(&self.turn);
        self.carry_out(&self.running(), &selection, changes)
    }

    /// From now on, every worker but the first runs the part of the graph that `fit` selects for
    /// it, at this and every later change; `None`: all run the whole graph again. Blocks like
    /// [`change`](Publisher::change), unless no worker's part changes.
    ///
    /// A worker hands tasks at nodes that it loses to the first worker. Its part must recognise
    /// packets that it was not made for: see [`Fit`].
    ///
    /// As [`change`](Publisher::change); [`TeamError::Unfit`] if a part is unsuitable.
    pub fn fit(&self, fit: Option<Arc<Fit>>) -> Result<Published, TeamError> {
        let mut present = lock(&self.turn);
        let (running, selection) = (self.running(), PartSelection(fit));
        let whole = running.plans[0].graph.clone();
        let parts = selection.parts(&whole, &self.handles, &self.maker.registry, self.homes)?;
        let wanted = parts.iter().map(|part| part.as_ref().unwrap_or(&whole));
        let steps = running.plans.iter().zip(wanted).filter(|(p, w)| *p.graph != ***w).count();
        if steps == 0 {
            *present = selection;
            return Ok(Published { epoch: running.epoch, ..Published::default() });
        }
        let logical = running.logical.clone();
        let next = Next { logical, whole, parts, steps };
        self.go_on(&running, &ChangeSet::new(), next, || *present = selection)
    }

    fn carry_out(
        &self,
        running: &Running,
        selection: &PartSelection,
        changes: &ChangeSet,
    ) -> Result<Published, TeamError> {
        if changes.is_empty() {
            return Ok(Published { epoch: running.epoch, ..Published::default() });
        }
        let logical = annotate_and_verify(apply(&running.logical, changes)?, &self.maker.registry)?;
        self.check_sources(&logical)?;
        self.check_homes(&running.logical, &logical)?;
        let whole = partition(&logical, &self.maker.registry, self.homes)?;
        let parts = selection.parts(&whole, &self.handles, &self.maker.registry, self.homes)?;
        let next = Next { logical, whole, parts, steps: changes.len() };
        self.go_on(running, changes, next, || ())
    }

    /// Compiles the next graph for all workers, then publishes it. `on_success` is called once
    /// nothing can fail any more.
    fn go_on(
        &self,
        running: &Running,
        changes: &ChangeSet,
        next: Next,
        on_success: impl FnOnce(),
    ) -> Result<Published, TeamError> {
        // A refused change must leave nothing behind, not even names with numbers.
        let (mut idps, mut slots) = (running.idps.clone(), running.slots.clone());
        let compiler = Compiler { registry: &self.maker.registry, homes: self.homes, running };
        let transitions = compiler.compile(&mut idps, &mut slots, changes, &next)?;
        let updates = (0..).zip(transitions.iter().zip(&running.cells)).map(|(handle, made)| {
            let (transition, cells) = made;
            let is_here = |node: &_| {
                self.homes.of(node, &self.maker.registry).is_none_or(|home: u16| home == handle)
            };
            transition.update(&self.maker, (cells, &slots), is_here)
        });
        let updates = updates.collect::<Result<Vec<_>, _>>()?;
        self.check_room()?;
        let (epoch, steps) = (running.epoch + 1, next.steps);
        idps.retire(&running.logical, &next.logical);
        let plans: Vec<_> = transitions.iter().map(|made| made.plan.clone()).collect();
        slots.keep(plans.iter().map(|plan| &*plan.layout));
        let cells = updates.iter().map(|update| update.cells.clone()).collect();
        on_success();
        let longest = lock(&self.patience).pause;
        let orders = &self.open_orders;
        let team = Pausing { handles: &self.handles, orders, quiet: &self.quiet, longest };
        let reroute = Reroute::begin(team, running, &plans, &idps);
        let now = Running { logical: next.logical, plans, idps, slots, cells, epoch };
        *lock(&self.running) = Arc::new(now);
        self.publish(epoch, updates);
        reroute.end(epoch);
        let adopted = self.wait(epoch);
        let afresh = self.clear_away();
        adopted.map(|()| Published { epoch, steps, afresh })
    }

    fn check_sources(&self, graph: &Graph) -> Result<(), TeamError> {
        for handle in &self.handles {
            if let Some((link, node)) = handle.sources.iter().find(|(_, n)| graph.find(n).is_none())
            {
                let (worker, node) = (handle.name.clone(), node.clone());
                return Err(TeamError::NoSource { worker, link: *link, node });
            }
        }
        Ok(())
    }

    /// State cannot move from one worker to another yet.
    fn check_homes(&self, old: &Graph, new: &Graph) -> Result<(), TeamError> {
        for (_, node) in new.iter() {
            let Some(before) = old.find(&node.name) else { continue };
            let home = |node| self.homes.of(node, &self.maker.registry);
            let (from, to) = (home(old.node(before)), home(node));
            if from != to {
                let text = |home: Option<u16>| home.map_or("any".into(), |n| n.to_string());
                let (node, from, to) = (node.name.clone(), text(from), text(to));
                return Err(TeamError::HomeMoved { node, from, to });
            }
        }
        Ok(())
    }

    fn check_room(&self) -> Result<(), TeamError> {
        match self.handles.iter().find(|handle| !handle.mailbox.has_room()) {
            Some(handle) => Err(TeamError::Behind { worker: handle.name.clone() }),
            None => Ok(()),
        }
    }

    /// Places every worker's update before publishing the first, so that all understand the
    /// messages that a switched worker sends.
    fn publish(&self, epoch: u64, updates: Vec<Update>) {
        for (handle, update) in self.handles.iter().zip(updates) {
            handle.mailbox.place(epoch, update);
        }
        for handle in &self.handles {
            handle.mailbox.publish(epoch);
            handle.waker.wake();
        }
    }

    fn wait(&self, epoch: u64) -> Result<(), TeamError> {
        let waited = lock(&self.patience).adoption;
        let until = Instant::now() + waited;
        match self.handles.iter().find(|handle| !handle.mailbox.wait(epoch, until)) {
            None => Ok(()),
            Some(handle) => {
                let worker = handle.name.clone();
                Err(TeamError::NotAdopted { worker, epoch, waited })
            }
        }
    }

    /// Drops the objects that the workers returned: old blocks with their packets, old arrays.
    /// Returns the nodes whose state was rejected.
    fn clear_away(&self) -> Vec<String> {
        let mut afresh = Vec::new();
        for update in self.handles.iter().flat_map(|handle| handle.mailbox.returned()) {
            afresh.extend(update.afresh());
        }
        afresh.sort();
        afresh.dedup();
        afresh
    }
}
