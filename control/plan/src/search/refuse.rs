//! Refusals: a device takes fewer rules than its model declares.

use std::collections::HashMap;

use super::{RuleId, Search};
use crate::config::Target;
use crate::map::Entry;
pub use crate::oracle::Refused;

impl Search {
    /// The device did not take a rule, for the reason `why`. The rule is removed from the plan and does
    /// not come back; `what` says which other rules the device would refuse too. Its flow is placed
    /// anew, and all flows are if the removal made an acceptable plan unacceptable. Returns whether
    /// there is such a rule.
    ///
    /// Changes that have to go to the device now are among the changes; the removal of the rule can be
    /// among them, too, and is no mistake. Each call makes the NIC smaller, so that repeated attempts
    /// end; a caller that wants them to end soon bounds their number.
    pub fn refuse(&mut self, id: RuleId, what: Refused, why: &str) -> bool {
        self.refuse_all(&[(id, what, why.into())])
    }

    /// The same of several rules that the device did not take at once. All flows are placed anew, if at all, when
    /// all refusals are known: a plan that is made in between could have rules with numbers of refused ones.
    pub fn refuse_all(&mut self, refused: &[(RuleId, Refused, String)]) -> bool {
        if refused.is_empty() {
            return false;
        }
        let acceptable = self.cost().is_acceptable();
        self.start_work(refused.len());
        let entries = self.map.entries.iter();
        let entries: HashMap<RuleId, (u32, u64)> =
            entries.map(|(at, e)| (self.changes.id_of(e.seq), (at, e.seq))).collect();
        let mut any = false;
        for (id, what, why) in refused {
            let Some((at, seq)) = entries.get(id).copied() else { continue };
            any = true;
            // It may have been given up for another one.
            if self.map.entries.get(at).is_none_or(|e| e.seq != seq) {
                continue;
            }
            self.learn(at, *what, why);
            let table = self.map.entries[at].rule.table;
            self.give_up(at);
            let more = match what {
                Refused::Full { .. } => self.surplus(table),
                // Of too many single ones it learns that it is the kind.
                Refused::Kind | Refused::Rule => self.objectionable(table),
            };
            more.into_iter().for_each(|entry| self.give_up(entry));
        }
        if any && acceptable && !self.cost().is_acceptable() {
            self.place_all();
        }
        any
    }

    /// The device does not take the contexts of the plan, for the reason `why`. It has `room` of them
    /// at most; the rules of others are given up and their flows placed anew. Returns whether there
    /// were any.
    pub fn refuse_contexts(&mut self, room: u32, why: &str) -> bool {
        let many = self.map.contexts.count();
        if many <= room {
            return false;
        }
        let acceptable = self.cost().is_acceptable();
        self.start_work(1);
        self.state.learned.limit_contexts(room, why);
        // The numbers do not tell which of them the device has: all are planned anew.
        let spreads = |e: &Entry| !e.fixed && matches!(e.rule.target, Target::Context(_));
        let all = self.map.entries.iter().filter(|(_, e)| spreads(e)).map(|(id, _)| id);
        let all: Vec<u32> = all.collect();
        all.into_iter().for_each(|entry| self.give_up(entry));
        if acceptable && !self.cost().is_acceptable() {
            self.place_all();
        }
        true
    }

    fn learn(&mut self, at: u32, what: Refused, why: &str) {
        let rule = &self.map.entries[at].rule;
        let left = self.state.tables[rule.table].rules - 1;
        let what = match what {
            // The device counts the rules of others, too.
            Refused::Full { room: Some(room) } => {
                Refused::Full { room: Some(room.saturating_add(self.others_in(rule.table))) }
            }
            what => what,
        };
        let model = &self.nic.tables[rule.table].model;
        self.state.learned.refuse(model, rule, what, left, why);
    }

    /// Takes a rule out, and finds its flow another place.
    fn give_up(&mut self, entry: u32) {
        // The flow of another rule may have given this one up, too.
        let Some(of) = self.map.entries.get(entry) else { return };
        match of.owner {
            Some(flow) => drop(self.replace(self.id(flow))),
            None => drop(self.drop_stale(entry)),
        }
    }

    /// The rules that the device would refuse, as far as its limits are known by now.
    fn objectionable(&self, table: usize) -> Vec<u32> {
        let model = &self.nic.tables[table].model;
        let learned = &self.state.learned;
        let all = self.map.entries.iter().filter(|(_, e)| !e.fixed && e.rule.table == table);
        all.filter(|(_, e)| learned.objection(model, &e.rule).is_some()).map(|(id, _)| id).collect()
    }

    /// The youngest rules beyond the limit of a table that is known by now.
    fn surplus(&self, table: usize) -> Vec<u32> {
        let Some((limit, _)) = self.state.learned.limit(table) else { return Vec::new() };
        let many = self.state.tables[table].rules.saturating_sub(limit);
        let all = self.map.entries.iter().filter(|(_, e)| !e.fixed && e.rule.table == table);
        let mut all: Vec<(u64, u32)> = all.map(|(id, e)| (e.seq, id)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().take(many as usize).map(|(_, id)| id).collect()
    }
}
