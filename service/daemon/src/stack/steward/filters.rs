//! What a device has been told.

use std::collections::BTreeMap;

use weever_plan::config::{Configuration, Rss, Rule};
use weever_plan::search::{DeviceChange, RuleId};

/// The rules that a device has, or is about to have.
#[derive(Debug, Default)]
pub(super) struct Filters(BTreeMap<RuleId, (usize, Rule)>);

impl Filters {
    /// Follows changes.
    pub(super) fn note(&mut self, changes: &[DeviceChange]) {
        for change in changes {
            match change {
                DeviceChange::Insert { table, id, rule }
                | DeviceChange::Retarget { table, id, rule } => {
                    self.0.insert(*id, (*table, rule.clone()));
                }
                DeviceChange::Remove { id, .. } => self.forget(*id),
            }
        }
    }

    /// The device does not have this one.
    pub(super) fn forget(&mut self, id: RuleId) {
        self.0.remove(&id);
    }

    /// The same as a configuration of a NIC with so many tables.
    pub(super) fn configuration(&self, tables: usize, rss: Rss) -> Configuration {
        let mut rules = vec![Vec::new(); tables];
        for (table, rule) in self.0.values() {
            if let Some(rules) = rules.get_mut(*table) {
                rules.push(rule.clone());
            }
        }
        // The program that sorts frames has one hash and no contexts.
        Configuration { rules, rss, ..Configuration::default() }
    }
}
