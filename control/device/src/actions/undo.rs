//! Takes steps, records their effects beforehand, and takes them back: the steps before a failed one, or all
//! of our changes.

use std::fmt;

use weever_graph::nic::FlowType;

use super::record::IntendedRules;
use super::{ConfigurationSteps, Record, Step};
use crate::ethtool::{Driver, EthtoolError, RuleSpec};

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
    actions.spreading_back(driver, record, channels)?;
    actions.fields_back(driver, record)?;
    actions.ntuple_back(driver, record)?;
    actions.flags_back(driver, record)?;
    actions.features_back(driver, record)?;
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

    /// The table as it was found, and the number of queues. That changes between two tables: drivers refuse numbers that
    /// a table which was set does not fit, and some forget it with fewer queues.
    fn spreading_back(
        &mut self,
        driver: &mut dyn Driver,
        record: &Record,
        channels: Option<Step>,
    ) -> Result<(), EthtoolError> {
        if record.spreading.is_none() && channels.is_none() {
            return Ok(());
        }
        let now = match driver.spreading(0) {
            Err(error) if error.is_unsupported() => {
                self.steps.extend(channels);
                return Ok(());
            }
            spreading => spreading?,
        };
        let to = match &record.spreading {
            None => now.clone(),
            // It may have been set before its size was known.
            Some(changed) if now == changed.set.fitted(now.table.len()) || now == changed.found => {
                changed.found.clone()
            }
            Some(_) => {
                self.kept("the table of the hash");
                self.steps.extend(channels);
                return Ok(());
            }
        };
        if let Some(step) = channels {
            self.steps.extend([Step::ResetSpreading { from: now.clone() }, step]);
        } else if now == to {
            return Ok(());
        }
        self.steps.push(Step::Spreading { from: now, to: to.clone() });
        // A table that was the driver's own becomes that again, and not one that somebody has set.
        let queues = match (&record.channels, driver.channels()) {
            (Some(changed), _) => changed.found.receiving(),
            (None, Err(error)) if error.is_unsupported() => return Ok(()),
            (None, channels) => channels?.receiving(),
        };
        if to.is_even_over(queues) {
            self.steps.push(Step::ResetSpreading { from: to });
        }
        Ok(())
    }

    fn flags_back(&mut self, driver: &mut dyn Driver, record: &Record) -> Result<(), EthtoolError> {
        for (name, changed) in &record.private {
            // It is off or on: if it is not as we set it, it is as it was.
            if driver.private_flag(name)? == Some(changed.set) {
                self.steps.push(Step::PrivateFlag { name: name.clone(), to: changed.found });
            }
        }
        Ok(())
    }

    fn features_back(
        &mut self,
        driver: &mut dyn Driver,
        record: &Record,
    ) -> Result<(), EthtoolError> {
        for (name, changed) in &record.features {
            // It is off or on: if it is not as we set it, it is as it was.
            if driver.feature(name)? == Some(changed.set) {
                self.steps.push(Step::Feature { name: name.clone(), to: changed.found });
            }
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

/// A step failed; contains the result of reverting the steps before it.
#[derive(Debug)]
pub struct ApplyError {
    /// The step, as a command.
    pub step: Box<str>,
    /// Its position in [`ConfigurationSteps::steps`].
    pub at: usize,
    /// Why it failed.
    pub source: EthtoolError,
    /// The failures while the steps before it were reverted. Empty: the device is as it was.
    pub rollback: Vec<EthtoolError>,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (`{}`)", self.source, self.step)?;
        match &self.rollback[..] {
            _ if self.source.is_gone() => Ok(()),
            [] => f.write_str("; the steps before it were taken back: the device is as it was"),
            [first, rest @ ..] => {
                write!(f, "; and taking back the steps before it failed: {first}")?;
                rest.iter().try_for_each(|error| write!(f, "; {error}"))?;
                f.write_str("; look at the device with `ethtool -n`, `-x` and `-l`")
            }
        }
    }
}

impl std::error::Error for ApplyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl ConfigurationSteps {
    /// Takes all steps. Afterwards the record matches the device, whether they succeed or not.
    ///
    /// # Errors
    /// [`ApplyError`]: a step failed, and those before it were reverted.
    pub fn apply(&self, driver: &mut dyn Driver, record: &mut Record) -> Result<(), ApplyError> {
        record.name_contexts_as_numbered();
        let mut back = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            match step.take(driver, record) {
                Ok(inverse) => back.push(inverse),
                Err(source) => {
                    back.extend(step.mend(driver, record));
                    let taken_back =
                        back.iter().rev().filter_map(|step| step.take(driver, record).err());
                    let rollback = taken_back.collect();
                    let step = step.command(driver.device()).into();
                    return Err(ApplyError { step, at, source, rollback });
                }
            }
        }
        Ok(())
    }

    /// Takes the steps that can be taken, for ways back, and returns the failures.
    pub fn apply_all(&self, driver: &mut dyn Driver, record: &mut Record) -> Vec<EthtoolError> {
        self.steps.iter().filter_map(|step| step.take(driver, record).err()).collect()
    }
}

impl Record {
    /// The record to save before `actions` are taken, so that they can be undone should
    /// the process be killed meanwhile.
    ///
    /// # Errors
    /// The device's answer.
    pub fn foreseeing(
        &self,
        actions: &ConfigurationSteps,
        driver: &mut dyn Driver,
    ) -> Result<Record, EthtoolError> {
        let mut ahead = self.clone();
        let rules: Vec<RuleSpec> =
            actions.steps.iter().filter_map(|step| step.foresee(&mut ahead)).collect();
        if !rules.is_empty() {
            let present = driver.locations()?.into_iter();
            let others = present.filter(|at| !self.ours.contains_key(at)).collect();
            ahead.intended = Some(IntendedRules { rules, others });
        }
        Ok(ahead)
    }
}
