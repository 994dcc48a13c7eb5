//! One step of the search: where one flow goes, or how the NIC drops it.

use std::cmp::Reverse;

use weever_graph::Field;
use weever_graph::nic::QueueRange;

use super::Thoroughness::Quick;
use super::{Search, Thoroughness};
use crate::config::Target;
use crate::flow::Conj;
use crate::map::Placement;
use crate::oracle::{self, Fate, Proposal, Refusal, Situation};
use crate::policy::{Change, Cost, Subject, cost_with};

/// The best that was found for a flow.
struct Best {
    cost: Cost,
    /// The proposal and target; nothing leaves the flow where it arrives without rules.
    choice: Option<(usize, Target)>,
}

impl Search {
    /// Places a flow that has no rules and that the policy does not count.
    pub(super) fn choose(&mut self, index: u32, how: Thoroughness) {
        let quick = how == Thoroughness::Quick;
        if self.out_of_budget() {
            return self.skip(index);
        }
        let enough = self.steps_left().saturating_sub(self.allowance());
        self.map.flows[index].skipped = false;
        self.clear_way(index);
        if Fate::of(&self.subject(index), &*self.policy) == Fate::Dropped {
            return self.choose_drop(index);
        }
        let (mut proposals, _) = self.proposals(index);
        if quick {
            // Of rules that catch packets of others, the one with the most tests catches the fewest.
            let tests = |p: &Proposal| if p.tight { 0 } else { p.tests() };
            proposals.sort_by_key(|p| (!p.tight, Reverse(tests(p)), p.scarcity, p.rules[0].table));
        }
        let mut best = self.leave(index);
        if self.eager {
            best.cost = Cost::reject(u64::MAX, f64::INFINITY);
        }
        // Rules of equal cost are better than none if the flow's queue is unknown without them.
        let unknown = quick && !self.map.flows[index].placement.is_certain();
        let mut standing = None;
        let mut took_any = false;
        for (nth, proposal) in proposals.iter().enumerate() {
            let Ok(rules) = self.try_out(index, proposal) else { continue };
            took_any = true;
            let simple = self.is_simple(index, proposal);
            let (cost, target) = self.best_target(index, &rules, proposal, simple);
            let known = unknown && best.choice.is_none() && cost == best.cost;
            if known || cost < best.cost {
                best = Best { cost, choice: Some((nth, target)) };
                if simple && quick {
                    standing = Some(rules);
                    break;
                }
            }
            self.take_back(&rules);
            if (simple && quick) || (best.choice.is_some() && self.steps_left() < enough) {
                break;
            }
        }
        match best.choice {
            Some((nth, target)) => {
                let rules = standing.or_else(|| self.try_out(index, &proposals[nth]).ok());
                self.commit(index, rules.unwrap_or_default(), target);
            }
            None => self.map.flows[index].unplaced = !took_any && self.would_move(index, best.cost),
        }
        self.drop_in(index);
    }

    /// Removes stale rules that catch packets of the flow.
    fn clear_way(&mut self, index: u32) {
        if self.stale.is_empty() {
            return;
        }
        let entries = &self.map.entries;
        let stale = self.map.seen_by(index).filter(|e| entries[*e].is_stale());
        let stale: Vec<u32> = stale.collect();
        stale.into_iter().for_each(|e| drop(self.drop_stale(e)));
    }

    /// What decides which rules tables can have.
    pub(super) fn situation(&self) -> Situation<'_> {
        Situation { nic: &self.nic, map: &self.map, state: &self.state, stale: &self.stale }
    }

    /// The proposals of the tables, and the refusals of the others.
    pub(super) fn proposals(&mut self, index: u32) -> (Vec<Proposal>, Vec<(usize, Refusal)>) {
        let (mut offers, mut refusals) = (Vec::new(), Vec::new());
        let fate = Fate::of(&self.subject(index), &*self.policy);
        for table in 0..self.nic.tables.len() {
            let situation = self.situation();
            match oracle::propose(&situation, index, table, fate) {
                Ok(offer) => offers.push(offer),
                Err(refusal) => refusals.push((table, refusal)),
            }
        }
        (offers, refusals)
    }

    fn leave(&mut self, index: u32) -> Best {
        let subject = self.subject(index);
        let placement = &self.map.flows[index].placement;
        self.divided |= placement.queue().is_none() && placement.is_certain();
        let cost = cost_with(&mut *self.policy, &[(subject, placement, Change::Comes)]);
        Best { cost, choice: None }
    }

    /// Inserts the rules of a proposal, at its first queue, without telling the policy. The journal
    /// records the effects.
    pub(super) fn try_out(&mut self, index: u32, of: &Proposal) -> Result<Vec<u32>, Refusal> {
        for stale in &of.evict {
            if self.stale.contains(stale) {
                self.drop_stale(*stale);
            }
        }
        self.journal.clear();
        let mut inserted = Vec::with_capacity(of.rules.len());
        for rule in &of.rules {
            let mut rule = rule.clone();
            match oracle::settle(&self.nic, &mut self.map, &self.state, index, &mut rule) {
                Ok(()) => inserted.push(self.insert_rule(rule, index)),
                Err(refusal) => {
                    self.take_back(&inserted);
                    return Err(refusal);
                }
            }
        }
        Ok(inserted)
    }

    /// Removes rules that were tried out.
    pub(super) fn take_back(&mut self, rules: &[u32]) {
        rules.iter().rev().for_each(|r| self.remove_rule(*r, false));
        self.end_trial();
    }

    /// Whether the rules steer all of the flow and affect no other flow.
    fn is_simple(&self, index: u32, proposal: &Proposal) -> bool {
        let placed = self.map.flows[index].placement == Placement::One(proposal.queues.lo);
        placed && !self.journal.caught_others
    }

    /// The best that rules which were tried out can do with their packets.
    fn best_target(
        &mut self,
        index: u32,
        rules: &[u32],
        of: &Proposal,
        simple: bool,
    ) -> (Cost, Target) {
        let (cost, queue) = match simple {
            true => self.best_alone(index, of.queues),
            false => self.best_by_trying(index, rules, of.queues),
        };
        if let Some(context) = self.context_for(index, of) {
            self.retarget(rules, context);
            let spread = self.cost_of_trial(index);
            if spread < cost {
                return (spread, context);
            }
        }
        (cost, Target::Queue(queue))
    }

    /// A context over which the rules of a proposal could spread the flow, if the policy wants that.
    pub(super) fn context_for(&mut self, index: u32, of: &Proposal) -> Option<Target> {
        let most = self.nic.rss.as_ref().map_or(0, |rss| rss.contexts);
        let most = self.state.learned.contexts().map_or(most, |(limit, _)| most.min(limit));
        let can = of.rules.iter().all(|r| self.nic.tables[r.table].model.spreads(r.flow_type));
        // One connection has one hash.
        if most == 0 || !can || self.map.parts_of(index).all(is_connection) {
            return None;
        }
        let queues = self.policy.spread_over(&self.subject(index))?;
        let queues: Vec<u32> = queues.iter().filter(|q| of.queues.contains(*q)).collect();
        self.map.contexts.over(&self.nic, &self.rss, &queues, most).map(Target::Context)
    }

    /// The best queue for a flow on which no other flow depends.
    fn best_alone(&mut self, index: u32, queues: QueueRange) -> (Cost, u32) {
        let subject = self.subject(index);
        let at = |search: &mut Search, queue: u32| {
            let placement = Placement::One(queue);
            cost_with(&mut *search.policy, &[(subject, &placement, Change::Comes)])
        };
        if let Some(queue) = self.policy.best_queue(&subject, queues) {
            return (at(self, queue), queue);
        }
        let all = (queues.lo..=queues.hi).map(|q| (at(self, q), q));
        all.min().unwrap_or((Cost::default(), queues.lo))
    }

    /// The best queue where a choice affects other flows: each is tried, or, if that takes more than
    /// the flow's allowance, the queue that would be best if no other flow were affected.
    fn best_by_trying(&mut self, index: u32, rules: &[u32], queues: QueueRange) -> (Cost, u32) {
        let enough = self.steps_left().saturating_sub(self.allowance());
        let mut best: Option<(Cost, u32)> = None;
        let mut attempt = |search: &mut Search, queue: u32| {
            search.retarget(rules, Target::Queue(queue));
            let cost = search.cost_of_trial(index);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, queue));
            }
        };
        for queue in queues.lo..=queues.hi {
            attempt(self, queue);
            if self.steps_left() < enough {
                let alone = self.best_alone(index, queues).1;
                if alone > queue {
                    attempt(self, alone);
                }
                break;
            }
        }
        best.unwrap_or((Cost::default(), queues.lo))
    }

    pub(super) fn retarget(&mut self, rules: &[u32], target: Target) {
        for rule in rules {
            self.map.retarget(*rule, target, &mut self.journal);
        }
    }

    /// The cost of keeping the trial, with the flow as it is placed now.
    pub(super) fn cost_of_trial(&mut self, index: u32) -> Cost {
        let mut changes: Vec<(Subject, &Placement, Change)> = Vec::new();
        for (flow, before) in &self.journal.flows {
            let Some(member) = self.map.flows.get(*flow) else { continue };
            if *flow != index && member.applied {
                let subject = Subject::of(&member.flow);
                changes.push((subject, before, Change::Goes));
                changes.push((subject, &member.placement, Change::Comes));
            }
        }
        let others: Vec<(Placement, Change)> = self
            .journal
            .other
            .iter()
            .filter_map(|(queue, before)| {
                let now = self.map.other_reaches(*queue);
                let change = if now { Change::Comes } else { Change::Goes };
                (now != *before).then_some((Placement::One(*queue), change))
            })
            .collect();
        changes.extend(others.iter().map(|(p, c)| (Subject::OTHER, p, *c)));
        let own = &self.map.flows[index];
        changes.push((Subject::of(&own.flow), &own.placement, Change::Comes));
        self.map.work.spend(changes.iter().map(|(_, placement, _)| placement.steps()).sum());
        cost_with(&mut *self.policy, &changes)
    }

    pub(super) fn commit(&mut self, index: u32, rules: Vec<u32>, target: Target) {
        self.retarget(&rules, target);
        self.divided |= self.journal.caught_others || matches!(target, Target::Context(_));
        self.tell();
        for rule in &rules {
            self.changes.inserted(*rule, &self.map.entries[*rule]);
        }
        let member = &mut self.map.flows[index];
        (member.rules, member.unplaced) = (rules, false);
    }

    /// Whether the flow would be better elsewhere than where it is left.
    fn would_move(&mut self, index: u32, left: Cost) -> bool {
        self.best_alone(index, self.nic.queues).0 < left
    }
}

/// Whether the packets are those of one connection.
fn is_connection(conj: &Conj) -> bool {
    let is_one = |field: Field| conj.single(field).is_some();
    let addresses = is_one(Field::Ip4Src) && is_one(Field::Ip4Dst)
        || is_one(Field::Ip6Src) && is_one(Field::Ip6Dst);
    is_one(Field::L4Src) && is_one(Field::L4Dst) && addresses
}

impl Search {
    /// Places a flow that is to be dropped: has no rules, and the policy does not count it. Flows that
    /// would lose packets to its rules are placed anew, so that rules of their own come before.
    pub(super) fn choose_drop(&mut self, index: u32) {
        let subject = self.subject(index);
        let left = self.map.flows[index].placement.clone();
        let leave = cost_with(&mut *self.policy, &[(subject, &left, Change::Comes)]);
        let (proposals, _) = self.proposals(index);
        // A rule in a late table leaves the earlier tables to other flows.
        for proposal in proposals.iter().rev() {
            let Ok(rules) = self.try_out(index, proposal) else { continue };
            let losers = self.losers(index);
            self.commit(index, rules, crate::config::Target::Drop);
            self.drop_in(index);
            self.place_anew(&losers);
            if self.cost() < leave {
                return;
            }
            self.lift(index);
            self.withdraw(index);
            self.place_anew(&losers);
        }
        self.map.flows[index].unplaced = self.drop_would_help(index);
        self.drop_in(index);
    }

    /// The flows that lose packets to the trial, and do not want to.
    fn losers(&self, index: u32) -> Vec<u32> {
        let noted = self.journal.flows.iter().map(|(flow, _)| *flow);
        let losing = |flow: &u32| {
            let member = self.map.flows.get(*flow);
            let loses = member.is_some_and(|m| m.applied && m.placement.dropped() > 0);
            loses && *flow != index && !self.policy.drops(&self.subject(*flow))
        };
        noted.filter(losing).collect()
    }

    fn place_anew(&mut self, flows: &[u32]) {
        for flow in flows {
            self.lift(*flow);
            self.withdraw(*flow);
            self.choose(*flow, Quick);
        }
    }

    fn drop_would_help(&mut self, index: u32) -> bool {
        let subject = self.subject(index);
        let (here, nowhere) = (self.map.flows[index].placement.clone(), Placement::nowhere());
        let left = cost_with(&mut *self.policy, &[(subject, &here, Change::Comes)]);
        cost_with(&mut *self.policy, &[(subject, &nowhere, Change::Comes)]) < left
    }

    /// The flows that would lose packets if the rules which were tried out stayed, as a refusal.
    pub(super) fn losses(&self, index: u32) -> Option<Refusal> {
        let loser = *self.losers(index).first()?;
        Some(Refusal::DropsFlow { flow: self.map.flows[loser].flow.name.clone() })
    }
}
