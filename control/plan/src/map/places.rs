//! Where the packets of single flows arrive under one configuration, for many flows: rules are found by an
//! index, so that a flow costs a few look-ups however many rules there are.

use super::entry::Work;
use super::index::Index;
use super::placement::Placement;
use super::spreading::Spreading;
use super::walk::{MatchedEntry, destination, place};
use crate::config::{Configuration, Target};
use crate::flow::Conj;
use crate::nic::Nic;

/// A rule, and its place in the order of evaluation.
struct Ranked {
    conj: Conj,
    target: Target,
    turn: (usize, i64, usize),
}

/// The placements of flows on a NIC with one configuration. They are those of [`place`](super::place).
pub struct Places {
    rules: Vec<Ranked>,
    index: Index,
    rest: Spreading,
    contexts: Vec<Spreading>,
    found: Vec<u32>,
}

impl Places {
    /// The placements under this configuration. Takes time in the number of its rules.
    pub fn new(nic: &Nic, configuration: &Configuration) -> Places {
        let mut rules = Vec::new();
        for (table, (model, of_table)) in nic.tables.iter().zip(&configuration.rules).enumerate() {
            let model = &model.model;
            rules.extend(of_table.iter().enumerate().map(|(nth, rule)| Ranked {
                conj: rule.matches(model),
                target: rule.target,
                turn: (table, rule.rank(model.order), nth),
            }));
        }
        let mut index = Index::default();
        (0..).zip(&rules).for_each(|(number, rule)| index.insert(number, &rule.conj));
        let contexts = (0..configuration.contexts.len() as u32)
            .map(|context| Spreading::new(nic, &configuration.context(nic, context)))
            .collect();
        let rest = Spreading::new(nic, &configuration.rss);
        Places { rules, index, rest, contexts, found: Vec::new() }
    }

    /// The queues at which the packets of `conj` arrive. It is `&mut` for what the index learns.
    pub fn of(&mut self, conj: &Conj) -> Placement {
        let Places { rules, index, rest, contexts, found } = self;
        found.clear();
        index.candidates(conj, |number| &rules[number as usize].conj, found);
        let met = found.iter().map(|number| &rules[*number as usize]);
        let mut met: Vec<&Ranked> = met.filter(|rule| !rule.conj.disjoint(conj)).collect();
        met.sort_unstable_by_key(|rule| rule.turn);
        let to = |rule: &&Ranked| destination(rule.target, contexts);
        let met: Vec<MatchedEntry<'_>> =
            met.iter().map(|rule| MatchedEntry { conj: &rule.conj, to: to(rule) }).collect();
        place(conj, &met, rest, false, &Work::default())
    }
}
