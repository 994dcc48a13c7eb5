//! Takes steps, records their effects beforehand, and takes them back.

use std::fmt;

use super::record::IntendedRules;
use super::{ConfigurationSteps, Record};
use crate::ethtool::{Driver, EthtoolError, RuleSpec};

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
