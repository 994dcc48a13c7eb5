//! Moves of flows that are better elsewhere: after the greedy pass, now that all are there, and after a
//! flow came or went, so that the plan stays about as good as a fresh one.
//!
//! A move is a change of a filter in the device, so it has a price then: every flow that comes or goes
//! pays for one move, and unused moves are saved up to a bound. No flow moves without a gain.

use super::Search;
use crate::config::Target;
use crate::map::Placement;
use crate::oracle;
use crate::policy::{Change, Subject, cost_with};

/// Passes over the flows, at most.
const PASSES: usize = 3;

impl Search {
    /// Moves one flow at a time, with the rules that it has, as long as that costs less.
    pub(super) fn improve(&mut self, order: &[u32]) {
        for _ in 0..PASSES {
            let moved = order.iter().filter(|i| !self.out_of_budget() && self.move_on(**i)).count();
            if moved == 0 {
                return;
            }
        }
    }

    pub(super) fn move_on(&mut self, index: u32) -> bool {
        let member = &self.map.flows[index];
        let (Some(from), false) = (member.placement.queue(), member.rules.is_empty()) else {
            return false;
        };
        let table = self.map.entries[member.rules[0]].rule.table;
        let Some(queues) = oracle::steerable(&self.nic, table) else { return false };
        let subject = self.subject(index);
        self.lift(index);
        let at = |search: &mut Search, queue: u32| {
            let placement = Placement::One(queue);
            cost_with(&mut *search.policy, &[(subject, &placement, Change::Comes)])
        };
        let here = at(self, from);
        let there = match self.policy.best_queue(&subject, queues) {
            Some(queue) => (at(self, queue), queue),
            None => (queues.lo..=queues.hi).map(|q| (at(self, q), q)).min().unwrap_or((here, from)),
        };
        let moved = there.1 != from && there.0 < here && self.try_move(index, from, there.1);
        self.drop_in(index);
        moved
    }

    /// Moves, unless others lose more by it.
    fn try_move(&mut self, index: u32, from: u32, to: u32) -> bool {
        self.journal.clear();
        let before = self.cost_of_trial(index);
        let rules = self.map.flows[index].rules.clone();
        self.retarget(&rules, Target::Queue(to));
        if self.cost_of_trial(index) >= before {
            self.retarget(&rules, Target::Queue(from));
            self.end_trial();
            return false;
        }
        self.tell();
        for rule in &rules {
            self.changes.moved(*rule, &self.map.entries[*rule]);
        }
        true
    }
}

/// Moves that can be saved up.
const MAX_SAVED: u32 = 64;
/// The number of flows that are examined for a move, and, of those, the number that are tried.
const LOOKED_AT: usize = 256;
const TRIED: usize = 4;

impl Search {
    /// Moves flows like `subject` away from the queue that has most of them, while that lowers the cost
    /// and moves are left.
    pub(super) fn rebalance(&mut self, subject: &Subject) {
        self.moves.saved = (self.moves.saved + 1).min(MAX_SAVED);
        while self.moves.saved > 0 && !self.policy.is_at_best() && !self.out_of_budget() {
            let Some(queue) = self.policy.crowded_queue(subject) else { return };
            if !self.move_one_from(queue) {
                return;
            }
            self.moves.saved -= 1;
        }
    }

    fn move_one_from(&mut self, queue: u32) -> bool {
        let slots = self.map.flows.slots();
        let mut tried = 0;
        for _ in 0..LOOKED_AT.min(slots as usize) {
            self.moves.cursor = (self.moves.cursor + 1) % slots;
            let index = self.moves.cursor;
            let Some(member) = self.map.flows.get(index) else { continue };
            if member.placement.queue() != Some(queue) || member.rules.is_empty() {
                continue;
            }
            if self.move_on(index) {
                return true;
            }
            tried += 1;
            if tried == TRIED {
                return false;
            }
        }
        false
    }
}
