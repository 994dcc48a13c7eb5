//! Everybody gets the next graph, or nobody does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weever_block::{Env, Registry};
use weever_graph::change::diff;
use weever_graph::{ChangeSet, Graph, Verified, apply, verify};

use super::TeamError;
use super::next::{Compiler, Next};
use super::part::{Fit, Fitting};
use super::partition::partition;
use crate::mailbox::Mailbox;
use crate::schedule::{Blueprint, Homes, Idp, Idps, Update};
use crate::worker::Waker;

/// How long a change waits for the workers, unless told otherwise. A turn takes microseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the publisher knows of a worker.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) name: String,
    pub(super) mailbox: Arc<Mailbox<Update>>,
    pub(super) waker: Waker,
    /// Where packets of its links start.
    pub(super) sources: Vec<(u16, String)>,
}

/// What the workers run, or will run at their next turn.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) logical: Verified,
    /// By seat; the first has the whole graph.
    pub(super) plans: Vec<Arc<Blueprint>>,
    pub(super) idps: Idps,
    pub(super) epoch: u64,
}

/// A change that has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The number of the graph that runs now.
    pub epoch: u64,
    /// How many steps led to it, or how many workers got another part; 0: it runs already.
    pub steps: usize,
    /// Nodes whose new block could not use the old one's state and started afresh.
    pub afresh: Vec<String>,
}

/// Changes the graph that a team runs. Any thread may ask; changes happen one after the other, each
/// relative to what runs when its turn has come.
#[derive(Debug)]
pub struct Publisher {
    seats: Box<[Seat]>,
    registry: Registry,
    env: Arc<Env>,
    homes: Homes,
    /// Who holds it changes what runs, and waits for the workers; others look meanwhile.
    turn: Mutex<Fitting>,
    /// Held for as long as it takes to get at what is inside.
    running: Mutex<Arc<Running>>,
    patience: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives nodes their effects and checks the graph.
pub(super) fn judge(mut graph: Graph, registry: &Registry) -> Result<Verified, TeamError> {
    registry.annotate(&mut graph)?;
    Ok(verify(graph)?)
}

impl Publisher {
    pub(super) fn new(
        seats: Vec<Seat>,
        registry: Registry,
        env: Arc<Env>,
        homes: Homes,
        running: Running,
    ) -> Publisher {
        let (turn, running) = (Mutex::default(), Mutex::new(Arc::new(running)));
        Publisher { seats: seats.into(), registry, env, homes, turn, running, patience: PATIENCE }
    }

    /// Waits so long for the workers instead of five seconds.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Publisher {
        Publisher { patience, ..self }
    }

    fn running(&self) -> Arc<Running> {
        lock(&self.running).clone()
    }

    /// The graph that runs, as it was given: what changes are relative to. While a change is under way
    /// it is the one before, and from the moment that workers are told the one after. Does not block, as
    /// nothing does here that only looks.
    pub fn graph(&self) -> Verified {
        self.running().logical.clone()
    }

    /// The graph as a worker executes it; `None` if there is no worker of this number.
    pub fn executed(&self, worker: usize) -> Option<Verified> {
        self.running().plans.get(worker).map(|plan| plan.graph.clone())
    }

    /// By worker, how many nodes it executes.
    pub fn sizes(&self) -> Vec<usize> {
        self.running().plans.iter().map(|plan| plan.graph.len()).collect()
    }

    /// The number of the graph that runs: 0 for the first.
    pub fn epoch(&self) -> u64 {
        self.running().epoch
    }

    /// The dispatch point of a node, if it has ever been one.
    pub fn idp(&self, node: &str) -> Option<Idp> {
        self.running().idps.get(node)
    }

    /// The names of the workers with the number of the graph that each has adopted.
    pub fn adopted(&self) -> Vec<(String, u64)> {
        self.seats.iter().map(|seat| (seat.name.clone(), seat.mailbox.adopted())).collect()
    }

    /// Makes the running graph `wanted`: finds the difference and carries it out.
    ///
    /// # Errors
    /// As [`change`](Publisher::change).
    pub fn replace(&self, mut wanted: Graph) -> Result<Published, TeamError> {
        self.registry.annotate(&mut wanted)?;
        let fitting = lock(&self.turn);
        let running = self.running();
        let changes = diff(&running.logical, &wanted);
        self.carry_out(&running, &fitting, &changes)
    }

    /// Changes the running graph. Everything is checked and compiled before any worker hears of it;
    /// then all get it, each switches between two bursts, and the call returns when all have. Blocks
    /// the caller, not the workers; those that no thread runs count as switched, and switch before
    /// they run.
    ///
    /// # Errors
    /// Nothing has changed, except with [`TeamError::NotAdopted`]: then the change is made, and a
    /// worker is late.
    pub fn change(&self, changes: &ChangeSet) -> Result<Published, TeamError> {
        let fitting = lock(&self.turn);
        self.carry_out(&self.running(), &fitting, changes)
    }

    /// From now on, every worker but the first runs what `fit` makes of the graph for it, now and at
    /// every later change; `None`: all run all of it again. Blocks as [`change`](Publisher::change) does,
    /// unless everybody runs what it shall run already.
    ///
    /// A worker that runs a part hands over to the first one what waits at nodes that it loses. It must
    /// be able to tell what the part is not made for: see [`Fit`].
    ///
    /// # Errors
    /// As [`change`](Publisher::change); [`TeamError::Unfit`] if a part does not do.
    pub fn fit(&self, fit: Option<Arc<Fit>>) -> Result<Published, TeamError> {
        let mut present = lock(&self.turn);
        let (running, fitting) = (self.running(), Fitting(fit));
        let whole = running.plans[0].graph.clone();
        let parts = fitting.parts(&whole, &self.seats, &self.registry, self.homes)?;
        let wanted = parts.iter().map(|part| part.as_ref().unwrap_or(&whole));
        let steps = running.plans.iter().zip(wanted).filter(|(p, w)| *p.graph != ***w).count();
        if steps == 0 {
            *present = fitting;
            return Ok(Published { epoch: running.epoch, ..Published::default() });
        }
        let logical = running.logical.clone();
        let next = Next { logical, whole, parts, steps };
        self.go_on(&running, &ChangeSet::new(), next, || *present = fitting)
    }

    fn carry_out(
        &self,
        running: &Running,
        fitting: &Fitting,
        changes: &ChangeSet,
    ) -> Result<Published, TeamError> {
        if changes.is_empty() {
            return Ok(Published { epoch: running.epoch, ..Published::default() });
        }
        let logical = judge(apply(&running.logical, changes)?, &self.registry)?;
        self.check_sources(&logical)?;
        self.check_homes(&running.logical, &logical)?;
        let whole = partition(&logical, &self.registry, self.homes)?;
        let parts = fitting.parts(&whole, &self.seats, &self.registry, self.homes)?;
        let next = Next { logical, whole, parts, steps: changes.len() };
        self.go_on(running, changes, next, || ())
    }

    /// Compiles what is next for everybody, and only then tells anybody. `settled` is called when nothing
    /// can be refused any more.
    fn go_on(
        &self,
        running: &Running,
        changes: &ChangeSet,
        next: Next,
        settled: impl FnOnce(),
    ) -> Result<Published, TeamError> {
        // A change that is refused must leave nothing behind, names and their numbers included.
        let mut idps = running.idps.clone();
        let compiler = Compiler { registry: &self.registry, homes: self.homes, running };
        let transitions = compiler.compile(&mut idps, changes, &next)?;
        let updates = (0..).zip(&transitions).map(|(seat, transition)| {
            let is_here =
                |node: &_| self.homes.of(node, &self.registry).is_none_or(|home: u16| home == seat);
            transition.update(&self.registry, &self.env, is_here)
        });
        let updates = updates.collect::<Result<Vec<_>, _>>()?;
        self.check_room()?;
        let (epoch, steps) = (running.epoch + 1, next.steps);
        idps.retire(&running.logical, &next.logical);
        let plans = transitions.iter().map(|transition| transition.plan.clone()).collect();
        settled();
        let now = Running { logical: next.logical, plans, idps, epoch };
        *lock(&self.running) = Arc::new(now);
        self.publish(epoch, updates);
        let adopted = self.wait(epoch);
        let afresh = self.clear_away();
        adopted.map(|()| Published { epoch, steps, afresh })
    }

    fn check_sources(&self, graph: &Graph) -> Result<(), TeamError> {
        for seat in &self.seats {
            if let Some((link, node)) = seat.sources.iter().find(|(_, n)| graph.find(n).is_none()) {
                let (worker, node) = (seat.name.clone(), node.clone());
                return Err(TeamError::NoSource { worker, link: *link, node });
            }
        }
        Ok(())
    }

    /// The state of a node cannot go from one worker to another yet.
    fn check_homes(&self, old: &Graph, new: &Graph) -> Result<(), TeamError> {
        for (_, node) in new.iter() {
            let Some(before) = old.find(&node.name) else { continue };
            let home = |node| self.homes.of(node, &self.registry);
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
        match self.seats.iter().find(|seat| !seat.mailbox.has_room()) {
            Some(seat) => Err(TeamError::Behind { worker: seat.name.clone() }),
            None => Ok(()),
        }
    }

    /// Every worker has its update before the first one may act on it: what it then sends to the
    /// others they can understand.
    fn publish(&self, epoch: u64, updates: Vec<Update>) {
        for (seat, update) in self.seats.iter().zip(updates) {
            seat.mailbox.place(epoch, update);
        }
        for seat in &self.seats {
            seat.mailbox.publish(epoch);
            seat.waker.wake();
        }
    }

    fn wait(&self, epoch: u64) -> Result<(), TeamError> {
        let until = Instant::now() + self.patience;
        match self.seats.iter().find(|seat| !seat.mailbox.wait(epoch, until)) {
            None => Ok(()),
            Some(seat) => {
                let worker = seat.name.clone();
                Err(TeamError::NotAdopted { worker, epoch, waited: self.patience })
            }
        }
    }

    /// Drops what workers have given back: old blocks with their packets, old arrays. Returns the
    /// nodes that refused their predecessor's state.
    fn clear_away(&self) -> Vec<String> {
        let mut afresh = Vec::new();
        for update in self.seats.iter().flat_map(|seat| seat.mailbox.returned()) {
            afresh.extend(update.afresh());
        }
        afresh.sort();
        afresh.dedup();
        afresh
    }
}
