//! The way back.

use weever_graph::nic::FlowType;

use super::{ConfigurationSteps, Record, Step};
use crate::ethtool::{Driver, EthtoolError};

/// The steps back to the device as it was found. Settings that others changed since are left as they
/// are, with a note.
///
/// # Errors
/// The device's answer; nothing was changed.
pub fn undo(
    driver: &mut dyn Driver,
    record: &mut Record,
) -> Result<ConfigurationSteps, EthtoolError> {
    let mut actions = ConfigurationSteps::default();
    actions.give_up(driver, record)?;
    let rules = record.ours.iter();
    let removed = rules.map(|(at, rule)| Step::Remove { location: *at, rule: rule.clone() });
    actions.steps.extend(removed);
    actions.contexts_back(driver, record);
    let channels = actions.channels_back(driver, record)?;
    let changes_queues = channels.is_some();
    // More queues come before the table that points to them, fewer behind it.
    let (first, last) = match channels {
        Some(Step::Channels { from, to }) if to.receiving() < from.receiving() => (None, channels),
        _ => (channels, None),
    };
    actions.steps.extend(first);
    actions.spreading_back(driver, record, changes_queues)?;
    actions.fields_back(driver, record)?;
    actions.ntuple_back(driver, record)?;
    actions.steps.extend(last);
    Ok(actions)
}

impl ConfigurationSteps {
    fn kept(&mut self, what: &str) {
        self.notes.push(format!("{what} changed since: it is left as it is"));
    }

    fn contexts_back(&mut self, driver: &mut dyn Driver, record: &Record) {
        for context in record.contexts.iter().rev() {
            // A context that the driver does not show may still exist.
            let is_other = driver.spreading(context.number).is_ok_and(|s| s.table != context.table);
            match is_other {
                true => self.kept(&format!("context {}", context.number)),
                false => self.steps.push(Step::RemoveContext { context: context.clone() }),
            }
        }
    }

    fn channels_back(
        &mut self,
        driver: &mut dyn Driver,
        record: &Record,
    ) -> Result<Option<Step>, EthtoolError> {
        let Some(changed) = &record.channels else { return Ok(None) };
        let now = driver.channels()?;
        if now == changed.set {
            return Ok(Some(Step::Channels { from: changed.set, to: changed.found }));
        }
        if now != changed.found {
            self.kept("the number of queues");
        }
        Ok(None)
    }

    fn spreading_back(
        &mut self,
        driver: &mut dyn Driver,
        record: &Record,
        changes_queues: bool,
    ) -> Result<(), EthtoolError> {
        let Some(changed) = &record.spreading else {
            if changes_queues && let Ok(now) = driver.spreading(0) {
                // Many drivers forget their table when the number of queues changes.
                self.steps.push(Step::Spreading { from: now.clone(), to: now });
            }
            return Ok(());
        };
        let now = driver.spreading(0)?;
        if now == changed.set {
            let (from, to) = (changed.set.clone(), changed.found.clone());
            self.steps.push(Step::Spreading { from, to });
        } else if now != changed.found {
            self.kept("the table of the hash");
        }
        Ok(())
    }

    fn fields_back(
        &mut self,
        driver: &mut dyn Driver,
        record: &Record,
    ) -> Result<(), EthtoolError> {
        for (name, changed) in &record.fields {
            let Some(flow_type) = FlowType::from_name(name) else { continue };
            let now = driver.hash_fields(flow_type)?;
            if now == changed.set {
                let (from, to) = (changed.set, changed.found);
                self.steps.push(Step::Fields { flow_type, from, to });
            } else if now != changed.found {
                self.kept(&format!("the hash input of {name}"));
            }
        }
        Ok(())
    }

    fn ntuple_back(
        &mut self,
        driver: &mut dyn Driver,
        record: &Record,
    ) -> Result<(), EthtoolError> {
        let Some(changed) = &record.ntuple else { return Ok(()) };
        // It is off or on: if it is not as we set it, it is as it was.
        if driver.ntuple()? != changed.set {
            return Ok(());
        }
        if driver.table()?.rules as usize > record.ours.len() {
            // With some drivers, switching it off would remove the rules of others.
            self.notes.push("rules of others are there: they stay switched on".into());
        } else {
            self.steps.push(Step::Ntuple { to: changed.found });
        }
        Ok(())
    }
}
