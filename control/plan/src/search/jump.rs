//! All flows at once: the order in which they are placed, and other orders if the first fails.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use super::Thoroughness::{self, AsWritten, Quick};
use super::{Search, arrange};
use crate::map::{NewEntry, mix};
use crate::oracle;
use crate::policy::Cost;

/// Beyond this product of flows and queues, steps that try every queue for every flow are left out.
const MOST_TRIALS: usize = 1 << 16;
/// How often every flow is looked at again.
const SECOND_LOOKS: usize = 2;

/// Pairs of flows of which one may have the rules of the other, at most.
const MOST_HANDED: usize = 1 << 12;
/// Rounds of random steps for the first arrangement, for the last one, and for that of a mask that is tried.
const FIRST_ROUNDS: u32 = 20;
const ROUNDS: u32 = 200;
const ROUNDS_OF_MASKS: u32 = 2;

/// The share of the cost that another shared mask has to get below.
const MASK_GAIN: f64 = 0.99;
/// Shared masks that are tried, at most.
const MOST_MASKS: usize = 32;

/// A configuration that was found.
pub(super) struct Snapshot {
    pub(super) cost: Cost,
    /// The flows in the order of their coming, with whether no table took them.
    flows: Vec<(u32, bool)>,
    /// The rules in the order of their insertion, which decides between equals, and their flows.
    rules: Vec<(u64, u32, NewEntry)>,
    contexts: Vec<Vec<u32>>,
}

impl Search {
    /// Places all flows in the policy's order. Unless that cannot be improved, tries the order of their
    /// arrival if that is another, Algorithm 1 as published, and a second look at every flow; and while
    /// the best plan so far is not acceptable, other orders.
    pub(super) fn place_all(&mut self) {
        let given = self.in_given_order();
        let keyed = self.in_policy_order(&given);
        self.start_work(given.len());
        self.budget.exhausted = false;
        self.place_in(&keyed, Quick);
        let pass = self.map.work.steps();
        if self.is_small(given.len()) {
            self.arrange(&keyed, FIRST_ROUNDS);
        }
        let mut best = None;
        if self.affords(pass) && keyed != given && self.within_budget(1, given.len()) {
            self.try_order(&given, Quick, &mut best);
        }
        if self.affords(pass) && self.is_small(given.len()) {
            self.try_order(&given, AsWritten, &mut best);
        }
        if self.affords(pass) && self.is_small(given.len()) {
            self.try_masks(&keyed, &mut best);
        }
        if self.affords(pass) && self.is_small(given.len()) {
            self.try_order_of_harm(&keyed, &mut best);
        }
        if self.affords(pass) && self.is_small(given.len()) {
            self.try_eagerly(&keyed, &mut best);
        }
        let mut order = keyed.clone();
        for jump in 0..self.options.jumps {
            let within = self.within_budget(jump + 1, order.len()) && self.affords(pass);
            if self.least(&best).is_acceptable() || !within {
                break;
            }
            order = self.next_order(order, jump);
            self.try_order(&order, Quick, &mut best);
        }
        if let Some(best) = best.filter(|b| b.cost < self.cost()) {
            self.restore(best);
        }
        if self.affords(pass) && self.is_small(given.len()) {
            self.look_again(&given);
        }
        if self.affords(pass) && self.is_small(given.len()) {
            self.hand_over(&keyed);
        }
        if self.is_small(given.len()) {
            // It needs little of the budget, and may have what is left.
            self.arrange(&keyed, ROUNDS);
            self.exchange_several(&keyed);
        }
    }

    /// Searches for all flows from the beginning, as [`run`](Search::run) does, because rates have changed or
    /// many flows have come one by one. Keeps the present plan unless the new one costs less; returns whether it
    /// does.
    pub fn search_again(&mut self) -> bool {
        let present = self.found();
        self.place_all();
        let is_better = self.cost() < present.cost;
        if !is_better {
            self.restore(present);
        }
        is_better
    }

    /// Whether there is something to improve, and budget for another pass as long as the first.
    fn affords(&mut self, pass: u64) -> bool {
        if !self.may_improve() {
            return false;
        }
        // A roughly placed flow has another cost when it is restored.
        let affords = self.steps_left() > pass && !self.map.rough;
        self.budget.exhausted |= !affords;
        affords
    }

    /// Whether another plan might cost less. A policy knows the best of plans in which every flow is
    /// at one queue; flows that are spread may do better.
    pub(super) fn may_improve(&self) -> bool {
        let cost = self.cost();
        let best = self.policy.is_at_best() && (!self.divided || cost.value == 0.0);
        !cost.is_acceptable() || !best
    }

    fn is_small(&self, flows: usize) -> bool {
        flows.saturating_mul(self.nic.queues.count() as usize) <= MOST_TRIALS
    }

    fn least(&self, best: &Option<Snapshot>) -> Cost {
        best.as_ref().map_or(self.cost(), |b| b.cost.min(self.cost()))
    }

    /// Places all flows in another order; the present plan goes to `best` if it is better.
    fn try_order(&mut self, order: &[u32], how: Thoroughness, best: &mut Option<Snapshot>) {
        self.keep(best);
        self.place_in(order, how);
    }

    /// The present plan goes to `best` if it is better.
    fn keep(&self, best: &mut Option<Snapshot>) {
        if best.as_ref().is_none_or(|b| self.cost() < b.cost) {
            *best = Some(self.found());
        }
    }

    /// Lets flows that no table took have the rules of others, as long as that costs less: a full table may
    /// hold rules that matter less than those that wait.
    fn hand_over(&mut self, order: &[u32]) {
        let waits = |search: &Search, index: u32| search.map.flows[index].rules.is_empty();
        let waiting: Vec<u32> = order.iter().copied().filter(|i| waits(self, *i)).collect();
        if waiting.len().saturating_mul(order.len()) > MOST_HANDED {
            return;
        }
        let before = self.found();
        let (mut tried, mut changed) = (false, false);
        for taker in &waiting {
            for giver in order {
                if self.out_of_budget() || !self.may_improve() {
                    break;
                }
                if waits(self, *taker) && !waits(self, *giver) {
                    tried = true;
                    changed |= self.try_hand_over(*giver, *taker);
                }
            }
        }
        if changed {
            self.improve(order);
        }
        // At the same cost the plan of fewer steps stays.
        if tried && self.cost() >= before.cost {
            self.restore(before);
        }
    }

    fn try_hand_over(&mut self, giver: u32, taker: u32) -> bool {
        let before = self.cost();
        self.place_two(giver, taker);
        if self.cost() < before {
            return true;
        }
        self.place_two(taker, giver);
        false
    }

    /// Places two flows anew, `second` before `first`.
    fn place_two(&mut self, first: u32, second: u32) {
        for flow in [first, second] {
            self.lift(flow);
            self.withdraw(flow);
        }
        for flow in [second, first] {
            self.choose(flow, Quick);
        }
    }

    /// Every flow takes rules as long as there are any: a flow that could as well be spread is easy to
    /// leave spread at first, but one of those that fill a queue in the end.
    fn try_eagerly(&mut self, order: &[u32], best: &mut Option<Snapshot>) {
        self.keep(best);
        self.eager = true;
        self.place_in(order, Quick);
        self.eager = false;
        self.hand_over(order);
    }

    /// The flows in the order of what they cost while no flow has rules, the dearest first; of equals as in
    /// `order`. Where tables are too small for all, these are the flows that need them most.
    fn try_order_of_harm(&mut self, order: &[u32], best: &mut Option<Snapshot>) {
        self.keep(best);
        self.start_over();
        for index in order {
            self.journal.clear();
            self.map.enter(*index, &mut self.journal);
            self.tell();
            self.drop_in(*index);
        }
        let mut costs: Vec<(Cost, u32)> = Vec::with_capacity(order.len());
        for index in order {
            self.lift(*index);
            costs.push((self.cost(), *index));
            self.drop_in(*index);
        }
        costs.sort_by_key(|(cost, _)| *cost);
        let harmful: Vec<u32> = costs.into_iter().map(|(_, index)| index).collect();
        self.place_in(&harmful, Quick);
    }

    /// Takes each flow out and places it again, now that all others are there.
    fn look_again(&mut self, order: &[u32]) {
        for _ in 0..SECOND_LOOKS {
            let before = self.found();
            self.budget.waiting = order.len();
            for index in order {
                if self.out_of_budget() {
                    break;
                }
                self.lift(*index);
                self.withdraw(*index);
                self.choose(*index, AsWritten);
            }
            match self.cost().cmp(&before.cost) {
                Ordering::Less => {}
                Ordering::Equal => return,
                Ordering::Greater => return self.restore(before),
            }
        }
    }

    fn within_budget(&self, jump: u32, flows: usize) -> bool {
        (jump as usize + 1).saturating_mul(flows) <= self.options.jump_budget
    }

    fn in_given_order(&self) -> Vec<u32> {
        let mut all: Vec<(u32, u32)> =
            self.map.flows.iter().map(|(i, m)| (m.generation, i)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, i)| i).collect()
    }

    fn in_policy_order(&self, given: &[u32]) -> Vec<u32> {
        let mut keyed: Vec<(i64, u32)> = given
            .iter()
            .map(|i| (self.policy.order_key(&self.subject(*i)).unwrap_or(0), *i))
            .collect();
        keyed.sort_by_key(|(key, _)| *key);
        keyed.into_iter().map(|(_, i)| i).collect()
    }

    /// The next order to try: the first time, badly placed flows come first; later orders come from the
    /// seed.
    fn next_order(&self, mut order: Vec<u32>, jump: u32) -> Vec<u32> {
        if jump == 0 {
            let content = |i: &u32| {
                let member = &self.map.flows[*i];
                let objects = self.policy.objection(&self.subject(*i), &member.placement);
                !member.unplaced && objects.is_none()
            };
            order.sort_by_cached_key(content);
            return order;
        }
        let mut state = mix(self.options.seed, u64::from(jump));
        for last in (1..order.len()).rev() {
            state = mix(state, last as u64);
            order.swap(last, (state % (last as u64 + 1)) as usize);
        }
        order
    }

    /// Removes all rules and places the flows in this order.
    fn place_in(&mut self, order: &[u32], how: Thoroughness) {
        self.start_over();
        self.want_masks(order);
        for (nth, index) in order.iter().enumerate() {
            self.budget.waiting = order.len() - nth;
            self.enter(*index, how);
        }
        if self.may_improve() {
            self.improve(order);
        }
    }

    fn start_over(&mut self) {
        self.changes.started_over();
        self.placed_anew();
        self.stale.clear();
        self.divided = false;
        self.journal.clear();
        self.map.start_over();
        self.state.start_over(&self.nic);
        self.enter_others();
        let (queues, default) = (self.nic.queues, self.nic.default_queue);
        self.policy.start(&(queues.lo..=queues.hi).collect(), default);
        self.announce_other();
    }

    /// Where rules share a mask, the mask that most flows need is the one to have, or the one to be tried.
    fn want_masks(&mut self, order: &[u32]) {
        for table in 0..self.nic.tables.len() {
            let tried = self.insist.as_ref().filter(|(at, _)| *at == table).map(|(_, m)| m.clone());
            let insists = tried.is_some();
            let wanted = tried.or_else(|| self.voted_masks(table, order).into_iter().next());
            let state = &mut self.state.tables[table];
            (state.wanted, state.insists) = (wanted, insists);
        }
    }

    /// The masks that flows need in a table where rules share them, those of most flows first.
    fn voted_masks(&self, table: usize, order: &[u32]) -> Vec<Vec<u128>> {
        let model = &self.nic.tables[table].model;
        if model.mask_scope == weever_graph::nic::MaskScope::Rule {
            return Vec::new();
        }
        let mut votes: HashMap<Vec<u128>, (usize, usize)> = HashMap::new();
        for (nth, index) in order.iter().enumerate() {
            let Some(first) = self.map.parts_of(*index).next() else { continue };
            if let Some(masks) = oracle::masks_in(model, first) {
                votes.entry(masks).or_insert((0, order.len() - nth)).0 += 1;
            }
        }
        let mut voted: Vec<(Vec<u128>, (usize, usize))> = votes.into_iter().collect();
        voted.sort_unstable_by_key(|(masks, votes)| (Reverse(*votes), Reverse(masks.clone())));
        voted.into_iter().map(|(masks, _)| masks).collect()
    }

    /// Where the rules of a table share a mask, tries others than the one that most flows need: those that
    /// flows need, what two of them have in common, and these without one of their fields. Wider rules catch
    /// packets of others as well, so they have to be worth it.
    fn try_masks(&mut self, order: &[u32], best: &mut Option<Snapshot>) {
        for table in 0..self.nic.tables.len() {
            let voted = self.voted_masks(table, order);
            for masks in candidate_masks(&voted, self.nic.tables[table].model.matches.len()) {
                if self.least(best).is_acceptable() && self.out_of_budget() {
                    break;
                }
                // An arrangement takes rules away where they cost more than they save.
                let ways: &[bool] =
                    if arrange::is_possible(order.len()) { &[true] } else { &[false, true] };
                for eager in ways.iter().copied() {
                    self.try_mask((table, masks.clone()), eager, order, best);
                }
            }
        }
    }

    /// Tries one shared mask, and goes back unless it is worth it.
    fn try_mask(
        &mut self,
        of: (usize, Vec<u128>),
        eager: bool,
        order: &[u32],
        best: &mut Option<Snapshot>,
    ) {
        let before = self.least(best);
        (self.insist, self.eager) = (Some(of), eager);
        self.try_order(order, Quick, best);
        self.arrange(order, ROUNDS_OF_MASKS);
        (self.insist, self.eager) = (None, false);
        let worth =
            self.cost().rejected < before.rejected || self.cost().value < before.value * MASK_GAIN;
        if !worth && let Some(found) = best.take() {
            self.restore(found);
        }
    }

    pub(super) fn found(&self) -> Snapshot {
        let flows = self.in_given_order().into_iter();
        let flows = flows.map(|i| (i, self.map.flows[i].unplaced)).collect();
        let owned = self.map.entries.iter().filter_map(|(_, e)| Some((e.owner?, e)));
        let mut rules: Vec<(u64, u32, NewEntry)> =
            owned.map(|(flow, e)| (e.seq, flow, e.rule.clone())).collect();
        rules.sort_unstable_by_key(|(seq, ..)| *seq);
        Snapshot { cost: self.cost(), flows, rules, contexts: self.map.contexts.in_use() }
    }

    /// A snapshot that is worth restoring was made within the budget, so that it takes no more.
    pub(super) fn restore(&mut self, found: Snapshot) {
        self.map.rough = false;
        self.start_over();
        self.map.contexts.restore(&self.nic, &self.rss, &found.contexts);
        for (index, _) in &found.flows {
            self.map.enter(*index, &mut self.journal);
        }
        for (_, index, rule) in found.rules {
            let rule = self.insert_rule(rule, index);
            self.map.flows[index].rules.push(rule);
        }
        self.tell();
        for (index, unplaced) in found.flows {
            self.map.flows[index].unplaced = unplaced;
            self.drop_in(index);
        }
    }
}

/// Masks to try in place of the first of `voted`, of `fields` fields; whatever follows the fields is the
/// type of the rules.
fn candidate_masks(voted: &[Vec<u128>], fields: usize) -> Vec<Vec<u128>> {
    let mut all: Vec<Vec<u128>> = voted.to_vec();
    let add = |masks: Vec<u128>, all: &mut Vec<Vec<u128>>| {
        let looks = masks[..fields.min(masks.len())].iter().any(|m| *m != 0);
        if looks && !all.contains(&masks) && all.len() <= MOST_MASKS {
            all.push(masks);
        }
    };
    for (nth, one) in voted.iter().enumerate() {
        for other in voted[..nth].iter().filter(|o| o.get(fields..) == one.get(fields..)) {
            add(one.iter().zip(other).map(|(a, b)| a & b).collect(), &mut all);
        }
    }
    for nth in 0..all.len() {
        for field in 0..fields.min(all[nth].len()) {
            let mut without = all[nth].clone();
            without[field] = 0;
            add(without, &mut all);
        }
    }
    all.into_iter().skip(1).collect()
}
