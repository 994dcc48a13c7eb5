//! Changes after which packets of flows take other ways between workers: a worker gets a node with state of
//! flows, or loses it.
//!
//! Before, workers that lose the node give their flows away, a bounded number in each turn; no further moves begin,
//! and those that are open come to their end. Then the workers pause ([`Quiet`]) until no packet is under way between
//! them, switch, hand over what flows have come since, and go on. So packets that took the old way are not overtaken.
//! Each wait has a bound; after that the change goes on, nothing is lost, and packets may be out of order. They may
//! also be out of order where workers have no threads, or where a move does not end because its filters are late:
//! then there is no pause, since it could only end by its bound.
//!
//! Afterwards flows move only to workers that have the node.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_block::FlowOwners;

use super::partition::{Running, WorkerHandle};
use crate::moves::{FlowOrder, MoveOrder};
use crate::quiet::Quiet;
use crate::schedule::{CompiledGraph, Idps, NodeRef};

/// How long open moves may take to come to their end, in which packets are received.
const MOVES_PATIENCE: Duration = Duration::from_millis(100);

/// The additional time for each flow of a worker that loses its node.
const PER_FLOW: Duration = Duration::from_micros(10);

/// The time between two looks at the workers. A turn takes microseconds.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// A node whose flows take other ways.
struct Rerouted {
    owners: Arc<FlowOwners>,
    /// The workers that will have the node.
    takers: Vec<bool>,
    at: NodeRef,
    /// The workers that lose the node, each with the one that has it from then on.
    losers: Vec<(u16, u16)>,
}

impl Rerouted {
    fn takes(&self, worker: u16) -> bool {
        self.takers.get(usize::from(worker)) == Some(&true)
    }
}

/// The workers, and how they pause.
pub(super) struct Pausing<'a> {
    pub(super) handles: &'a [WorkerHandle],
    pub(super) quiet: &'a Quiet,
    /// The longest pause in reception.
    pub(super) longest: Duration,
}

impl Pausing<'_> {
    fn wake(&self) {
        self.handles.iter().for_each(|handle| handle.waker.wake());
    }
}

/// A change of ways that is being made.
pub(super) struct Reroute<'a> {
    team: Pausing<'a>,
    nodes: Vec<Rerouted>,
    /// The end of the pause, if there is one.
    until: Option<Instant>,
}

impl<'a> Reroute<'a> {
    /// Prepares for the workers' next graphs; does nothing unless they change ways. Blocks until nothing is under
    /// way, with a bound.
    pub(super) fn begin(
        team: Pausing<'a>,
        running: &Running,
        new: &[Arc<CompiledGraph>],
        idps: &Idps,
    ) -> Reroute<'a> {
        let nodes = rerouted(running, new, idps);
        let mut reroute = Reroute { team, nodes, until: None };
        let runs = reroute.team.handles.iter().all(|handle| handle.mailbox.runs());
        if reroute.nodes.is_empty() || reroute.team.handles.len() < 2 {
            return reroute;
        }
        reroute.limit_moves();
        if runs {
            reroute.clear_losers();
            reroute.nodes.iter().for_each(|node| node.owners.limit_moves(|_| false));
            reroute.pause();
        }
        reroute
    }

    fn limit_moves(&self) {
        self.nodes.iter().for_each(|node| node.owners.limit_moves(|worker| node.takes(worker)));
    }

    /// Has the workers that lose a node give their flows away, before the change.
    fn clear_losers(&self) {
        let mut orders = Vec::new();
        for (node, (loser, home)) in
            self.nodes.iter().flat_map(|node| node.losers.iter().map(move |l| (node, *l)))
        {
            let moves: Vec<_> =
                node.owners.of_worker(loser).into_iter().map(|key| (key, home)).collect();
            if moves.is_empty() {
                continue;
            }
            let order = Arc::new(MoveOrder::new(node.at, moves));
            order.redirect();
            let handle = &self.team.handles[usize::from(loser)];
            handle.moves.put(FlowOrder::Move(order.clone()));
            handle.waker.wake();
            orders.push(order);
        }
        let flows: usize = orders.iter().map(|order| order.moves.len()).sum();
        let longest = MOVES_PATIENCE.max(self.team.longest) + PER_FLOW * flows as u32;
        let until = Instant::now() + longest;
        for order in orders {
            order.wait(until);
        }
    }

    fn has_moves(&self) -> bool {
        self.nodes.iter().any(|node| node.owners.has_moves())
    }

    /// Waits until no move is open, and pauses reception.
    fn pause(&mut self) {
        let give_up_at = Instant::now() + MOVES_PATIENCE.max(self.team.longest);
        loop {
            while self.has_moves() {
                if Instant::now() >= give_up_at {
                    return;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            let until = Instant::now() + self.team.longest;
            self.until = Some(until);
            self.team.quiet.begin(until);
            self.come_to_rest(until);
            // A worker may have begun a move just before.
            if !self.has_moves() {
                return;
            }
            self.until = None;
            self.team.quiet.end();
        }
    }

    /// Waits until nothing is under way between the workers.
    fn come_to_rest(&self, until: Instant) {
        let mut watch = self.team.quiet.watch();
        while !watch.is_over() && Instant::now() < until {
            self.team.wake();
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// After the next graphs are published: waits until the flows of workers that lose a node have arrived, and
    /// ends the pause.
    pub(super) fn end(self, epoch: u64) {
        if let Some(until) = self.until {
            let mut handles = self.team.handles.iter();
            if handles.all(|handle| handle.mailbox.wait(epoch, until)) {
                while self.has_moves() && Instant::now() < until {
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
    }
}

impl Drop for Reroute<'_> {
    fn drop(&mut self) {
        self.limit_moves();
        if self.until.is_some() {
            self.team.quiet.end();
            self.team.wake();
        }
    }
}

/// The nodes with state of flows that some worker gets, or has no longer.
fn rerouted(running: &Running, new: &[Arc<CompiledGraph>], idps: &Idps) -> Vec<Rerouted> {
    let before: Vec<_> = running.plans.iter().map(|plan| sharded(plan)).collect();
    let after: Vec<_> = new.iter().map(|plan| sharded(plan)).collect();
    let mut names: Vec<&str> = before.iter().chain(&after).flatten().copied().collect();
    names.sort_unstable();
    names.dedup();
    let changes = |name: &&str| {
        let mut workers = before.iter().zip(&after);
        workers.any(|(before, after)| before.contains(name) != after.contains(name))
    };
    let node = |name: &str| {
        let owners = idps.owners(name)?.clone();
        let entry = new[0].start_of(name)?;
        let at = NodeRef { entry, idp: idps.get(name)?, epoch: running.epoch };
        let takers = after.iter().map(|after| after.contains(name)).collect();
        let workers = (0..).zip(before.iter().zip(&after));
        let loses =
            workers.filter(|(_, (before, after))| before.contains(name) && !after.contains(name));
        let home = |worker: u16| new[usize::from(worker)].program.home(entry);
        let losers = loses.filter_map(|(worker, _)| Some((worker, home(worker)?))).collect();
        Some(Rerouted { owners, takers, at, losers })
    };
    names.into_iter().filter(changes).filter_map(node).collect()
}

fn sharded(plan: &CompiledGraph) -> HashSet<&str> {
    let nodes = &plan.program.nodes;
    plan.program.sharded.iter().map(|place| &*nodes[*place as usize].name).collect()
}
