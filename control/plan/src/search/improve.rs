//! After the greedy pass: flows that are better elsewhere, now that all are there.

use super::Search;
use crate::config::Target;
use crate::map::Placement;
use crate::oracle;
use crate::policy::{Change, cost_with};

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
