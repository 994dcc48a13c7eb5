//! Moves of flows that are better elsewhere: after the greedy pass, now that all are there, and after a
//! flow came or went, so that the plan stays about as good as a fresh one.
//!
//! A move is a change of a filter in the device, so it has a price then: every flow that comes or goes
//! pays for four moves, and unused moves are saved up to a bound. No flow moves without a gain. Where no
//! single move helps, two flows exchange their queues for the price of two moves.

use super::Search;
use crate::config::Target;
use crate::map::Placement;
use crate::oracle;
use crate::policy::{Change, Cost, Subject, cost_with};

/// Passes over the flows, at most.
const PASSES: usize = 3;
/// Pairs of flows that are looked at for an exchange, at most.
const MOST_PAIRS: usize = 1 << 14;

impl Search {
    /// Moves one flow at a time, with the rules that it has, as long as that costs less.
    pub(super) fn improve(&mut self, order: &[u32]) {
        for _ in 0..PASSES {
            let moved = order.iter().filter(|i| !self.out_of_budget() && self.move_on(**i)).count();
            if moved == 0 {
                break;
            }
        }
        self.exchange(order);
    }

    /// Exchanges the queues of two flows, as long as that costs less: where no single move helps, two at
    /// once may. Left out where there are too many pairs.
    pub(super) fn exchange(&mut self, order: &[u32]) {
        let steered = |i: &u32| self.single_queue(*i).is_some();
        let flows: Vec<u32> = order.iter().copied().filter(steered).collect();
        if flows.len().saturating_mul(flows.len()) > MOST_PAIRS {
            return;
        }
        for _ in 0..PASSES {
            let mut exchanged = false;
            for (nth, one) in flows.iter().enumerate() {
                for other in &flows[nth + 1..] {
                    if self.out_of_budget() || !self.may_improve() {
                        return;
                    }
                    exchanged |= self.try_exchange(*one, *other);
                }
            }
            if !exchanged {
                return;
            }
        }
    }

    /// The queue of a flow that has rules and arrives at one queue.
    pub(super) fn single_queue(&self, index: u32) -> Option<u32> {
        let member = self.map.flows.get(index)?;
        member.placement.queue().filter(|_| !member.rules.is_empty())
    }

    fn try_exchange(&mut self, one: u32, other: u32) -> bool {
        let (Some(a), Some(b)) = (self.single_queue(one), self.single_queue(other)) else {
            return false;
        };
        if a == b || !self.can_reach(one, b) || !self.can_reach(other, a) {
            return false;
        }
        let before = self.cost();
        if self.cost_of_exchange((one, a), (other, b)) >= before {
            return false;
        }
        let (first, second) = (self.rule_targets(one), self.rule_targets(other));
        // The rules may catch packets of others, so only the whole map decides.
        self.send(one, b);
        self.send(other, a);
        let better = self.cost() < before;
        if better {
            for flow in [one, other] {
                for rule in self.map.flows[flow].rules.clone() {
                    self.changes.moved(rule, &self.map.entries[rule]);
                }
            }
        } else {
            self.journal.clear();
            self.aim(&first);
            self.aim(&second);
            self.tell();
        }
        better
    }

    /// A flow's rules with their targets. Rules of others may take its packets before them, so these need not
    /// be where the flow arrives.
    pub(super) fn rule_targets(&self, index: u32) -> Vec<(u32, Target)> {
        let rules = self.map.flows[index].rules.iter();
        rules.map(|rule| (*rule, self.map.entries[*rule].rule.target)).collect()
    }

    pub(super) fn aim(&mut self, rules: &[(u32, Target)]) {
        rules.iter().for_each(|(rule, target)| self.retarget(&[*rule], *target));
    }

    /// Sends the packets of a flow's rules to a queue, and tells the policy.
    pub(super) fn send(&mut self, index: u32, queue: u32) {
        self.journal.clear();
        let rules = self.map.flows[index].rules.clone();
        self.retarget(&rules, Target::Queue(queue));
        self.tell();
    }

    /// Whether the tables of a flow's rules can send to a queue.
    pub(super) fn can_reach(&self, index: u32, queue: u32) -> bool {
        let mut rules = self.map.flows[index].rules.iter();
        rules.all(|rule| {
            let table = self.map.entries[*rule].rule.table;
            oracle::steerable(&self.nic, table).is_some_and(|queues| queues.contains(queue))
        })
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
        let moved = there.1 != from && there.0 < here && self.try_move(index, there.1);
        self.drop_in(index);
        moved
    }

    /// Moves, unless others lose more by it.
    fn try_move(&mut self, index: u32, to: u32) -> bool {
        self.journal.clear();
        let before = self.cost_of_trial(index);
        let (rules, targets) = (self.map.flows[index].rules.clone(), self.rule_targets(index));
        self.retarget(&rules, Target::Queue(to));
        if self.cost_of_trial(index) >= before {
            self.aim(&targets);
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

/// Moves that a flow that comes or goes pays for: two exchanges.
const MOVES: u32 = 4;
/// Moves that can be saved up.
const MAX_SAVED: u32 = 64;
/// The number of flows that are examined for a move, and, of those, the number that are tried.
const LOOKED_AT: usize = 256;
const TRIED: usize = 4;
/// The number of flows of a queue that are examined for an exchange, and the root of that of other queues.
const EXCHANGED: usize = 14;

impl Search {
    /// Moves flows like `subject` away from the queue that has most of them, while that lowers the cost
    /// and moves are left.
    pub(super) fn rebalance(&mut self, subject: &Subject) {
        self.moves.saved = (self.moves.saved + MOVES).min(MAX_SAVED);
        while self.moves.saved > 0 && !self.policy.is_at_best() && !self.out_of_budget() {
            let Some(queue) = self.policy.crowded_queue(subject) else { return };
            let moved = match self.move_one_from(queue) {
                true => 1,
                false if self.moves.saved >= 2 && self.exchange_from(queue) => 2,
                false => return,
            };
            self.moves.saved -= moved;
        }
    }

    /// Exchanges a flow of the queue with one of another, the pair that lowers the cost most of those that
    /// are examined. Two filters change, so it is worth two moves.
    fn exchange_from(&mut self, queue: u32) -> bool {
        let slots = self.map.flows.slots();
        let from = self.moves.cursor;
        let near = (0..slots.min(LOOKED_AT as u32)).map(|nth| (from + nth) % slots);
        let steered = near.filter_map(|index| Some((index, self.single_queue(index)?)));
        let near: Vec<(u32, u32)> = steered.collect();
        let (mut here, mut there) = (near.clone(), near);
        here.retain(|(_, at)| *at == queue);
        there.retain(|(_, at)| *at != queue);
        here.truncate(EXCHANGED);
        there.truncate(EXCHANGED * EXCHANGED);
        let mut best = (self.cost(), None);
        for (one, _) in &here {
            for (other, at) in &there {
                let cost = self.cost_of_exchange((*one, queue), (*other, *at));
                if cost < best.0 {
                    best = (cost, Some((*one, *other)));
                }
            }
        }
        best.1.is_some_and(|(one, other)| self.try_exchange(one, other))
    }

    /// The cost if two flows changed queues, and no other flow were affected.
    fn cost_of_exchange(&mut self, one: (u32, u32), other: (u32, u32)) -> Cost {
        let (first, second) = (self.subject(one.0), self.subject(other.0));
        let (at_a, at_b) = (Placement::One(one.1), Placement::One(other.1));
        self.map.work.spend(1);
        let changes = [
            (first, &at_a, Change::Goes),
            (second, &at_b, Change::Goes),
            (first, &at_b, Change::Comes),
            (second, &at_a, Change::Comes),
        ];
        cost_with(&mut *self.policy, &changes)
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
