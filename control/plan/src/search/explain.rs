//! Why a flow is where it is.

use super::changes::rule_of;
use super::{FlowId, Search};
use crate::config::{Rule, Target};
use crate::map::{NewEntry, Placement};
use crate::oracle::{self, Proposal, Refusal};
use crate::policy::Cost;

/// One way to place a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The table with the rules that would steer it; nothing if it has no rules.
    pub table: Option<String>,
    /// The queues at which it arrives.
    pub placement: Placement,
    /// The resulting cost of the whole plan.
    pub cost: Cost,
    /// The reason why it is unacceptable, if it is.
    pub objection: Option<String>,
}

/// Why a flow is where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Its placement, and the cost of that.
    pub chosen: Alternative,
    /// The rules that were made for it.
    pub rules: Vec<Rule>,
    /// The best of the other queues, if there is one.
    pub runner_up: Option<Alternative>,
    /// Why the runner-up lost, in words.
    pub why: String,
    /// Tables that do not take it, and why.
    pub refused: Vec<(String, Refusal)>,
}

impl Search {
    /// Explains one flow: every table and queue is tried again while all other flows stay where
    /// they are. Nothing if there is no such flow. The configuration does not change.
    pub fn explain(&mut self, id: FlowId) -> Option<Explanation> {
        let index = self.member(id)?;
        self.start_work(1);
        let applied = self.map.flows[index].applied;
        self.lift(index);
        let kept = self.set_aside(index);
        let (alternatives, refused) = self.alternatives(index);
        self.put_back(index, kept);
        self.end_trial();
        let chosen = self.chosen(index);
        if applied {
            self.drop_in(index);
        }
        let rules = &self.map.flows[index].rules;
        let rules: Vec<Rule> =
            rules.iter().map(|r| rule_of(&self.nic, &self.map.entries[*r].rule)).collect();
        let elsewhere = |a: &&Alternative| a.placement != chosen.placement;
        let runner_up = alternatives.iter().filter(elsewhere).min_by_key(|a| a.cost).cloned();
        let why = why(&chosen, runner_up.as_ref());
        Some(Explanation { chosen, rules, runner_up, why, refused })
    }

    /// Why no table takes a flow.
    pub(super) fn refusals(&mut self, index: u32) -> Vec<(String, Refusal)> {
        if self.map.flows[index].skipped || self.out_of_budget() {
            return vec![("search".into(), self.skipped_refusal())];
        }
        let (offers, refused) = self.proposals(index);
        let name = |table: usize| self.nic.tables[table].name.clone();
        let mut all: Vec<(String, Refusal)> =
            refused.into_iter().map(|(t, r)| (name(t), r)).collect();
        for offer in offers.into_iter().filter(|o| o.evict.is_empty()) {
            let table = self.nic.tables[offer.rules[0].table].name.clone();
            match self.try_out(index, &offer) {
                Ok(rules) => {
                    let losses = if offer.drops() { self.losses(index) } else { None };
                    all.extend(losses.map(|refusal| (table, refusal)));
                    self.take_back(&rules);
                }
                Err(refusal) => all.push((table, refusal)),
            }
        }
        all.extend(self.hidden_tables(index));
        all
    }

    /// Why no table has rules for a flow alone, if the policy objects to its place.
    pub(super) fn obstacles(&self, index: u32) -> Vec<(String, Refusal)> {
        let placement = &self.map.flows[index].placement;
        if self.policy.objection(&self.subject(index), placement).is_none() {
            return Vec::new();
        }
        let why = |table: &crate::nic::Table| {
            let mut parts = self.map.parts_of(index);
            let refusal = parts.find_map(|part| oracle::obstacle(&table.model, part))?;
            Some((table.name.clone(), refusal))
        };
        let mut all: Vec<(String, Refusal)> = self.nic.tables.iter().filter_map(why).collect();
        all.extend(self.hidden_tables(index));
        all
    }

    /// Tables that the silicon has and that are not exposed, if they could say the flow.
    fn hidden_tables(&self, index: u32) -> Vec<(String, Refusal)> {
        let Some(silicon) = &self.options.silicon else { return Vec::new() };
        let hidden = silicon.tables.iter().filter(|t| {
            let says = |c| oracle::can_say(&t.model, c);
            let exposed = self.nic.tables.iter().find(|e| e.name == t.name);
            let now = |c| exposed.is_some_and(|e| oracle::can_say(&e.model, c));
            self.map.parts_of(index).all(says) && !self.map.parts_of(index).all(now)
        });
        hidden.map(|t| (t.name.clone(), Refusal::NotExposed)).collect()
    }

    fn chosen(&mut self, index: u32) -> Alternative {
        let rule = self.map.flows[index].rules.first();
        let table = rule.map(|r| self.nic.tables[self.map.entries[*r].rule.table].name.clone());
        self.alternative(index, table)
    }

    /// The cost of the plan with the flow where it is now, and the journal's changes kept.
    fn alternative(&mut self, index: u32, table: Option<String>) -> Alternative {
        let cost = self.cost_of_trial(index);
        let placement = self.map.flows[index].placement.clone();
        let objection = self.policy.objection(&self.subject(index), &placement);
        Alternative { table, placement, cost, objection }
    }

    fn alternatives(&mut self, index: u32) -> (Vec<Alternative>, Vec<(String, Refusal)>) {
        self.journal.clear();
        let mut all = vec![self.alternative(index, None)];
        let (offers, refused) = self.proposals(index);
        let name = |table: usize| self.nic.tables[table].name.clone();
        let mut refused: Vec<_> = refused.into_iter().map(|(t, r)| (name(t), r)).collect();
        // Making room would change the configuration.
        for offer in offers.into_iter().filter(|o| o.evict.is_empty()) {
            let table = self.nic.tables[offer.rules[0].table].name.clone();
            match self.try_out(index, &offer) {
                Ok(rules) => {
                    for target in self.targets(index, &offer) {
                        self.retarget(&rules, target);
                        all.push(self.alternative(index, Some(table.clone())));
                    }
                    self.take_back(&rules);
                }
                Err(refusal) => refused.push((table, refusal)),
            }
        }
        refused.extend(self.hidden_tables(index));
        (all, refused)
    }

    /// All that the rules of an offer can do.
    fn targets(&mut self, index: u32, offer: &Proposal) -> Vec<Target> {
        if offer.drops() {
            return vec![Target::Drop];
        }
        let queues = (offer.queues.lo..=offer.queues.hi).map(Target::Queue);
        queues.chain(self.context_for(index, offer)).collect()
    }

    /// Takes a flow's rules out and tells the policy, so that other flows arrive as without it.
    fn set_aside(&mut self, index: u32) -> Vec<(NewEntry, u64)> {
        self.journal.clear();
        let rules = std::mem::take(&mut self.map.flows[index].rules);
        let kept = rules.iter().map(|r| {
            let entry = &self.map.entries[*r];
            (entry.rule.clone(), entry.seq)
        });
        let kept = kept.collect();
        rules.into_iter().for_each(|r| self.remove_rule(r, false));
        self.tell();
        kept
    }

    fn put_back(&mut self, index: u32, kept: Vec<(NewEntry, u64)>) {
        self.journal.clear();
        for (rule, seq) in kept {
            let id = self.insert_rule(rule, index);
            self.map.reseat(id, seq, &mut self.journal);
            self.map.flows[index].rules.push(id);
        }
        self.tell();
    }
}

fn why(chosen: &Alternative, other: Option<&Alternative>) -> String {
    let Some(other) = other else { return "there is no other place for it".into() };
    let beside = other.cost.cmp(&chosen.cost);
    match (&other.objection, beside) {
        (Some(objection), std::cmp::Ordering::Greater) => objection.clone(),
        (_, std::cmp::Ordering::Greater) if other.cost.rejected > chosen.cost.rejected => {
            format!("others would arrive where they must not: {}", other.cost)
        }
        (_, std::cmp::Ordering::Greater) => {
            format!("it costs {} more", significant(other.cost.value - chosen.cost.value))
        }
        (_, std::cmp::Ordering::Equal) => "it costs the same; the first of equals was taken".into(),
        (_, std::cmp::Ordering::Less) => {
            "it would be better now, but other flows came after this one was placed".into()
        }
    }
}

fn significant(value: f64) -> String {
    if value.abs() >= 0.01 { format!("{value:.2}") } else { format!("{value:.2e}") }
}
