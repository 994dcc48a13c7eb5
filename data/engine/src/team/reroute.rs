//! Changes after which packets of flows take other ways between workers: a worker gets a node with state of
//! flows, or loses it.
//!
//! Before, workers that lose the node give their flows away, a bounded number in each turn; further moves wait for
//! the end of the change, and those that have begun come to their end. Then the workers pause ([`Quiet`]) until no packet is under way between
//! them, switch, hand over what flows have come since, and go on. So packets that took the old way are not overtaken.
//! Each wait has a bound; after that the change goes on, nothing is lost, and packets may be out of order. They may
//! also be out of order where workers have no threads, or where a move does not end because its filters are late:
//! then there is no pause, since it could only end by its bound.
//!
//! Afterwards flows move only to workers that have the node.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_block::{FlowOwners, MayMove};

use super::orders::{FlowMoves, OpenOrders};
use super::partition::{Running, WorkerHandle};
use crate::quiet::Quiet;
use crate::schedule::{CompiledGraph, Idps, NodeRef};

/// How long open moves may take to come to their end, in which packets are received.
const MOVES_PATIENCE: Duration = Duration::from_millis(100);

/// The additional time for each flow of a worker that loses its node.
const PER_FLOW: Duration = Duration::from_micros(10);

/// The time between two looks at the workers. A turn takes microseconds.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// How long so many moves may take.
fn patience(longest: Duration, moves: usize) -> Duration {
    MOVES_PATIENCE.max(longest) + PER_FLOW * moves.try_into().unwrap_or(u32::MAX)
}

/// A node whose flows take other ways.
struct Rerouted {
    owners: Arc<FlowOwners>,
    /// By worker: whether it has the node, and whether it will.
    has: Vec<(bool, bool)>,
    at: NodeRef,
    /// The workers that lose the node, each with the one that has it from then on.
    losers: Vec<(u16, u16)>,
}

impl Rerouted {
    /// Before the change, flows move to workers that have the node and keep it.
    fn may_move_before(&self, worker: u16) -> MayMove {
        match self.has.get(usize::from(worker)) {
            Some((true, true)) => MayMove::Now,
            _ => MayMove::Later,
        }
    }

    /// While open moves come to their end: what has begun in part goes on, or who has ordered it would wait for it
    /// in vain before redirecting packets.
    fn may_move_to_end(&self, worker: u16) -> MayMove {
        match self.may_move_before(worker) {
            MayMove::Now => MayMove::IfBegun,
            limit => limit,
        }
    }

    fn may_move_after(&self, worker: u16) -> MayMove {
        match self.has.get(usize::from(worker)) {
            Some((_, true)) => MayMove::Now,
            _ => MayMove::Never,
        }
    }
}

/// The workers, and how they pause.
pub(super) struct Pausing<'a> {
    pub(super) handles: &'a [WorkerHandle],
    pub(super) orders: &'a OpenOrders,
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
        reroute.limit_moves(Rerouted::may_move_before);
        if runs {
            reroute.clear_losers();
            reroute.pause();
            reroute.limit_moves(|_, _| MayMove::Later);
        }
        reroute
    }

    fn limit_moves(&self, limit: impl Fn(&Rerouted, u16) -> MayMove) {
        self.nodes.iter().for_each(|node| node.owners.limit_moves(|worker| limit(node, worker)));
    }

    /// Has the workers that lose a node give their flows away, before the change.
    fn clear_losers(&self) {
        let (mut open, mut flows) = (Vec::new(), 0);
        for (node, (loser, home)) in
            self.nodes.iter().flat_map(|node| node.losers.iter().map(move |l| (node, *l)))
        {
            let moves: Vec<_> =
                node.owners.of_worker(loser).into_iter().map(|key| (key, home)).collect();
            flows += moves.len();
            let (place, Pausing { handles, orders, .. }) = ((node.at, &node.owners), &self.team);
            let moving = FlowMoves::begin(handles, orders, place, Some(loser), &moves);
            moving.redirected();
            open.push(moving);
        }
        let until = Instant::now() + patience(self.team.longest, flows);
        for moving in open {
            moving.wait(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Of how many flows the state is on its way.
    fn moving(&self) -> usize {
        self.nodes.iter().map(|node| node.owners.moving()).sum()
    }

    /// Waits until no move is open, and pauses reception.
    fn pause(&mut self) {
        // Orders that have begun in part go on, so there may be more moves later.
        let (began, mut most) = (Instant::now(), 0);
        loop {
            self.limit_moves(Rerouted::may_move_to_end);
            // Orders may have waited for this.
            self.team.wake();
            while let moving @ 1.. = self.moving() {
                most = most.max(moving);
                if began.elapsed() >= patience(self.team.longest, most) {
                    return;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            self.limit_moves(|_, _| MayMove::Later);
            let until = Instant::now() + self.team.longest;
            self.until = Some(until);
            self.team.quiet.begin(until);
            self.come_to_rest(until);
            // A worker may have begun a move just before.
            if self.moving() == 0 {
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
                while self.moving() > 0 && Instant::now() < until {
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
    }
}

impl Drop for Reroute<'_> {
    fn drop(&mut self) {
        self.limit_moves(Rerouted::may_move_after);
        if self.until.is_some() {
            self.team.quiet.end();
        }
        if !self.nodes.is_empty() {
            // Orders have waited for the end.
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
        let both = |(before, after): (&HashSet<&str>, &HashSet<&str>)| {
            (before.contains(name), after.contains(name))
        };
        let has = before.iter().zip(&after).map(both).collect();
        let workers = (0..).zip(before.iter().zip(&after));
        let loses =
            workers.filter(|(_, (before, after))| before.contains(name) && !after.contains(name));
        let home = |worker: u16| new[usize::from(worker)].program.home(entry);
        let losers = loses.filter_map(|(worker, _)| Some((worker, home(worker)?))).collect();
        Some(Rerouted { owners, has, at, losers })
    };
    names.into_iter().filter(changes).filter_map(node).collect()
}

fn sharded(plan: &CompiledGraph) -> HashSet<&str> {
    let nodes = &plan.program.nodes;
    plan.program.sharded.iter().map(|place| &*nodes[*place as usize].name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_moves_have_more_time() {
        let ms = Duration::from_millis;
        assert_eq!(patience(ms(50), 0), ms(100));
        assert_eq!(patience(ms(200), 0), ms(200), "as much as the pause itself");
        assert_eq!(patience(ms(50), 100_000), ms(1100));
    }
}
