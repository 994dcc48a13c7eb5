//! The bound on a search's work: steps, not time, so that a plan stays a function of its arguments.
//!
//! A step is about an intersection of two conjunctions. Each call that places flows starts with the
//! whole budget. Once half of it is used up, parts of flows are placed roughly: a queue may be listed
//! that no packet reaches, but never one missed. Once it is exhausted, flows are registered without
//! rules ([`Refusal::Budget`]) and nothing is improved: the plan is the best that was found, and is
//! marked so.

use super::{Exhausted, Search};
use crate::oracle::Refusal;

/// The steps that each flow adds to the budget: plenty for a flow that overlaps few others.
const STEPS_PER_FLOW: u64 = 64;

impl Search {
    /// Sets the whole budget for a call that places `flows` flows.
    pub(super) fn start_work(&mut self, flows: usize) {
        self.map.work.start();
        self.map.rough = false;
        self.budget.limit = self.options.budget.saturating_add(STEPS_PER_FLOW * flows as u64);
        self.budget.waiting = 1;
    }

    pub(super) fn steps_left(&self) -> u64 {
        self.budget.limit.saturating_sub(self.map.work.steps())
    }

    /// Whether the budget is used up. Decides how precisely parts are placed from now on, so it is only
    /// called between trials: a trial is undone with the precision with which it was made.
    pub(super) fn out_of_budget(&mut self) -> bool {
        let left = self.steps_left();
        self.map.rough = left < self.budget.limit / 2;
        self.budget.rough |= self.map.rough;
        self.budget.exhausted |= left == 0;
        left == 0
    }

    /// The steps that the present flow may use, so that all waiting flows get an equal share.
    pub(super) fn allowance(&self) -> u64 {
        self.steps_left() / self.budget.waiting.max(1) as u64
    }

    /// Leaves a flow without rules for lack of budget.
    pub(super) fn skip(&mut self, index: u32) {
        let member = &mut self.map.flows[index];
        (member.unplaced, member.skipped) = (true, true);
        self.divided = true;
        self.drop_in(index);
    }

    /// Ends a trial, after which everything is as before, except that parts which were placed exactly
    /// may be placed roughly now, or the reverse.
    pub(super) fn end_trial(&mut self) {
        if self.budget.rough { self.tell() } else { self.journal.clear() }
    }

    /// All parts are placed anew.
    pub(super) fn placed_anew(&mut self) {
        self.budget.rough = self.map.rough;
    }

    pub(super) fn skipped_refusal(&self) -> Refusal {
        Refusal::Budget { steps: self.options.budget }
    }

    /// Whether the present plan is less than a larger budget would have given.
    pub(super) fn exhausted(&self) -> Option<Exhausted> {
        let skipped = self.map.flows.iter().filter(|(_, m)| m.skipped).count();
        let steps = self.options.budget;
        (self.budget.exhausted || skipped > 0).then_some(Exhausted { steps, skipped })
    }
}
