//! After a flow came or went: a few others move, so that the plan stays about as good as a fresh one.
//!
//! A move is a change of a filter in the device, so it has a price: every flow that comes or goes pays
//! for one move, and unused moves are saved up to a bound. No flow moves without a gain.

use super::Search;
use crate::policy::Subject;

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
