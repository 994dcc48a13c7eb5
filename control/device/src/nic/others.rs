//! The rules of others on a device, as fixed entries of a plan.

use std::collections::{BTreeMap, BTreeSet};

use weever_graph::Key;
use weever_graph::nic::{Exposure, FlowType};
use weever_plan::config::{Rule, Target};
use weever_plan::nic::{Nic, Table};
use weever_plan::search::OthersRule;

use super::NicSteering;
use super::seen::OthersRules;
use crate::actions::Record;
use crate::ethtool::{Action, Driver, EthtoolError, Match, RuleSpec};

impl NicSteering {
    /// The rules that others have on the device, for plans on `nic`.
    ///
    /// # Errors
    /// The device's answer.
    pub fn others(&mut self, nic: &Nic) -> Result<OthersRules, EthtoolError> {
        // A killed process may have made rules that its record does not list yet.
        let mut record = self.record.clone();
        record.verify(&mut *self.driver)?;
        self.others_beside(&record, nic)
    }

    /// The rules beside those of a record that was compared with the device.
    pub(super) fn others_beside(
        &mut self,
        record: &Record,
        nic: &Nic,
    ) -> Result<OthersRules, EthtoolError> {
        let mut others = OthersRules::default();
        let present = match self.driver.locations() {
            Err(error) if error.is_unsupported() => return Ok(others),
            present => present?,
        };
        let ours: BTreeSet<u32> = record.locations().collect();
        let mut contexts = BTreeMap::new();
        for location in present.into_iter().filter(|at| !ours.contains(at)) {
            let rule = match self.driver.rule(location) {
                Err(error) if error.is_unsupported() || error.is_absent() => None,
                rule => Some(rule?),
            };
            let target = match &rule {
                Some(rule) => target(rule, &mut *self.driver, &mut contexts)?,
                None => None,
            };
            let known = rule.zip(target).and_then(|(rule, to)| in_model(nic, &rule, location, to));
            match known {
                Some(rule) => others.known.push(rule),
                None => others.unknown.push(location),
            }
        }
        Ok(others)
    }
}

/// Where a rule sends its packets, if that is one queue.
fn target(
    rule: &RuleSpec,
    driver: &mut dyn Driver,
    contexts: &mut BTreeMap<u32, Option<u32>>,
) -> Result<Option<Target>, EthtoolError> {
    Ok(match rule.action() {
        Action::Queue(queue) => Some(Target::Queue(queue)),
        Action::Drop => Some(Target::Drop),
        Action::Context { context, queue } => {
            let first = match contexts.get(&context) {
                Some(known) => *known,
                None => *contexts.entry(context).or_insert(only_queue(context, driver)?),
            };
            first.map(|first| Target::Queue(first.saturating_add(queue)))
        }
    })
}

/// The queue of a context that has one only.
fn only_queue(context: u32, driver: &mut dyn Driver) -> Result<Option<u32>, EthtoolError> {
    let table = match driver.spreading(context) {
        Err(error) if error.is_gone() => return Err(error),
        Err(_) => return Ok(None),
        Ok(spreading) => spreading.table,
    };
    let first = table.first().copied();
    Ok(first.filter(|first| table.iter().all(|queue| queue == first)))
}

/// The rule in the words of the first table that has them.
fn in_model(nic: &Nic, rule: &RuleSpec, location: u32, target: Target) -> Option<OthersRule> {
    let said = rule.matches()?;
    let tables = nic.tables.iter().enumerate();
    let mut exposed = tables.filter(|(_, t)| matches!(t.model.linux, Exposure::Ethtool(_)));
    exposed.find_map(|(table, model)| {
        let rule = Rule { target, location, ..in_table(model, &said)? };
        Some(OthersRule { table, rule })
    })
}

fn in_table(table: &Table, said: &Match) -> Option<Rule> {
    let types = &table.model.flow_types;
    let flow_type = match types.is_empty() {
        true => None,
        false => Some(*types.iter().find(|t| **t == said.flow_type)?),
    };
    if flow_type.is_none() && said.flow_type != FlowType::Ether {
        return None;
    }
    let matches = &table.model.matches;
    let has_all = said.fields.iter().all(|(field, _)| matches.iter().any(|m| m.field == *field));
    let key = |field| said.fields.iter().find(|(f, _)| *f == field).map(|(_, key)| *key);
    let keys = matches.iter().map(|m| key(m.field).unwrap_or(Key { mask: 0, value: 0 })).collect();
    has_all.then_some(Rule { flow_type, keys, target: Target::Drop, priority: 0, location: 0 })
}
