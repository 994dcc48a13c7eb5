//! Rules that others made on the device: fixed entries, which a plan can neither move nor remove. They take room,
//! share masks, and take packets.

use super::Search;
use super::changes::rule_of;
use crate::config::{OthersRule, Target};
use crate::map::{Journal, NewEntry};
use crate::nic::Nic;

impl OthersRule {
    fn entry(&self, nic: &Nic) -> NewEntry {
        let OthersRule { table, rule } = self;
        let model = &nic.tables[*table].model;
        let leads_away = |queue: u32| !nic.queues.contains(queue);
        let target = match rule.target {
            // The plan has neither these queues nor the contexts of others: whatever it sends there does not arrive.
            Target::Queue(queue) if leads_away(queue) => Target::Drop,
            Target::Context(_) => Target::Drop,
            target => target,
        };
        NewEntry {
            table: *table,
            flow_type: rule.flow_type,
            conj: rule.matches(model),
            target,
            priority: rule.priority,
            location: rule.location,
            rank: rule.rank(model.order),
        }
    }
}

impl Search {
    /// Plans around these rules, which others made on the device, in place of those that it knew before; the tables'
    /// positions are the NIC's. If they are different ones, all flows are placed anew. Returns whether they are.
    pub fn plan_around(&mut self, others: Vec<OthersRule>) -> bool {
        let is_new = self.others != others;
        if is_new {
            self.others = others;
            self.place_all();
        }
        is_new
    }

    /// The rules of others that are planned around.
    pub fn others(&self) -> &[OthersRule] {
        &self.others
    }

    /// Enters them into tables that have no rules yet.
    pub(super) fn enter_others(&mut self) {
        let mut nobody = Journal::default();
        for other in &self.others {
            let entry = other.entry(&self.nic);
            if entry.conj.is_empty() {
                continue;
            }
            let id = self.map.insert_fixed(entry, &mut nobody);
            self.state.inserted(&self.nic, id, &self.map.entries[id].rule);
        }
    }

    /// The rules of others as the plan sees them.
    pub(super) fn others_in_plan(&self) -> Vec<OthersRule> {
        let fixed = self.map.entries.iter().filter(|(_, entry)| entry.fixed);
        fixed
            .map(|(_, e)| OthersRule { table: e.rule.table, rule: rule_of(&self.nic, &e.rule) })
            .collect()
    }

    /// How many of them a table has.
    pub(super) fn others_in(&self, table: usize) -> u32 {
        self.others.iter().filter(|other| other.table == table).count() as u32
    }
}
