//! Changes after which packets of flows take other ways between workers: a worker gets a node with state of
//! flows, or has it no longer.
//!
//! Before, no further moves begin, and those that are open come to their end. Then the workers pause
//! ([`Quiet`]) until no packet is under way between them, switch, hand the flows of the node over, and go on. So
//! packets that took the old way are not overtaken. All of it has a bound in time; after that the change goes
//! on, nothing is lost, and packets may be out of order. So they may be where workers have no threads.
//!
//! Afterwards flows move only to workers that have the node.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_block::FlowOwners;

use super::partition::WorkerHandle;
use crate::quiet::Quiet;
use crate::schedule::{CompiledGraph, Idps};

/// How long open moves may take to come to their end, in which packets are received.
const MOVES_PATIENCE: Duration = Duration::from_millis(100);

/// The time between two looks at the workers. A turn takes microseconds.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// A node whose flows take other ways.
struct Rerouted {
    owners: Arc<FlowOwners>,
    /// The workers that will have the node.
    takers: Vec<bool>,
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
        old: &[Arc<CompiledGraph>],
        new: &[Arc<CompiledGraph>],
        idps: &Idps,
    ) -> Reroute<'a> {
        let nodes = rerouted(old, new, idps);
        let mut reroute = Reroute { team, nodes, until: None };
        let runs = reroute.team.handles.iter().all(|handle| handle.mailbox.runs());
        if reroute.nodes.is_empty() || reroute.team.handles.len() < 2 {
            return reroute;
        }
        reroute.nodes.iter().for_each(|node| node.owners.limit_moves(|_| false));
        if runs {
            reroute.pause();
        }
        reroute
    }

    fn has_moves(&self) -> bool {
        self.nodes.iter().any(|node| node.owners.has_moves())
    }

    /// Pauses reception once no move is open.
    fn pause(&mut self) {
        let give_up_at = Instant::now() + MOVES_PATIENCE.max(self.team.longest);
        loop {
            while self.has_moves() && Instant::now() < give_up_at {
                std::thread::sleep(LOOK_EVERY);
            }
            let until = Instant::now() + self.team.longest;
            self.until = Some(until);
            self.team.quiet.begin();
            self.come_to_rest(until);
            // A worker may have begun one just before.
            if !self.has_moves() || Instant::now() >= give_up_at {
                return;
            }
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
        for Rerouted { owners, takers } in &self.nodes {
            owners.limit_moves(|worker| takers.get(usize::from(worker)) == Some(&true));
        }
        if self.until.is_some() {
            self.team.quiet.end();
            self.team.wake();
        }
    }
}

/// The nodes with state of flows that some worker gets, or has no longer.
fn rerouted(old: &[Arc<CompiledGraph>], new: &[Arc<CompiledGraph>], idps: &Idps) -> Vec<Rerouted> {
    let before: Vec<_> = old.iter().map(|plan| sharded(plan)).collect();
    let after: Vec<_> = new.iter().map(|plan| sharded(plan)).collect();
    let mut names: Vec<&str> = before.iter().chain(&after).flatten().copied().collect();
    names.sort_unstable();
    names.dedup();
    let changes = |name: &&str| {
        let mut workers = before.iter().zip(&after);
        workers.any(|(before, after)| before.contains(name) != after.contains(name))
    };
    let node = |name: &str| {
        let takers = after.iter().map(|after| after.contains(name)).collect();
        Some(Rerouted { owners: idps.owners(name)?.clone(), takers })
    };
    names.into_iter().filter(changes).filter_map(node).collect()
}

fn sharded(plan: &CompiledGraph) -> HashSet<&str> {
    let nodes = &plan.program.nodes;
    plan.program.sharded.iter().map(|place| &*nodes[*place as usize].name).collect()
}
