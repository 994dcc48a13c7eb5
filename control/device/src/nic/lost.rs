//! What others did to a NIC since it was brought to a plan. What a reset took is put back; what a person deleted
//! or switched off on purpose is reported, and not fought.
//!
//! The kernel says neither who changed a rule nor why, so it is told by the traces: a reset takes all rules, or
//! settings with them, while somebody who deletes a rule leaves the others and the settings.

use weever_plan::search::{Refused, Search};

use super::{NicError, NicSteering};
use crate::actions::rule_of_plan;
use crate::ethtool::{EthtoolError, RuleSpec};

/// Said of a rule that others removed, as the reason for planning without it.
const TAKEN: &str = "another program removed or replaced its rule";

/// What has become of our changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing is missing.
    Nothing,
    /// So many rules, as by a reset.
    Reset(usize),
    /// These rules, by somebody who left the others.
    Taken(Vec<RuleSpec>),
    /// Rules are switched off (`ethtool -K … ntuple off`).
    SwitchedOff,
}

/// How losses were settled before a plan is brought.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Notes for people, a line each.
    pub(super) notes: Vec<String>,
    /// The rules that others took, which the plan is without, a line each.
    pub(super) taken: Vec<String>,
}

impl NicSteering {
    /// Compares the device with the record of our changes. Changes nothing.
    ///
    /// # Errors
    /// The device's answer.
    pub fn look(&mut self) -> Result<Lost, NicError> {
        if !self.has_followed || self.record.locations().next().is_none() {
            return Ok(Lost::Nothing);
        }
        if !self.rules_are_on()? {
            return Ok(Lost::SwitchedOff);
        }
        let mut record = self.record.clone();
        let had: Vec<(u32, RuleSpec)> = record.rules().collect();
        let missing = record.verify(&mut *self.driver)?;
        if missing.is_empty() {
            return Ok(if self.is_off { Lost::Reset(0) } else { Lost::Nothing });
        }
        let present = self.driver.locations()?;
        let all_went = had.len() > 1 && had.iter().all(|(at, _)| !present.contains(at));
        if self.is_off || all_went || self.settings_went()? {
            return Ok(Lost::Reset(missing.len()));
        }
        let taken = had.into_iter().filter(|(at, _)| missing.contains(at));
        Ok(Lost::Taken(taken.map(|(_, rule)| rule).collect()))
    }

    /// Whether rules are as others switched them, at the last plan that was brought.
    pub fn is_switched_off(&self) -> bool {
        self.is_off
    }

    fn rules_are_on(&mut self) -> Result<bool, EthtoolError> {
        match self.driver.ntuple() {
            Err(error) if error.is_unsupported() => Ok(true),
            on => on,
        }
    }

    /// Whether a setting of ours is another one now.
    fn settings_went(&mut self) -> Result<bool, EthtoolError> {
        if let Some(set) = self.record.channels_set()
            && self.driver.channels()? != set
        {
            return Ok(true);
        }
        match self.record.spreading_set().cloned() {
            Some(set) => Ok(self.driver.spreading(0)? != set),
            None => Ok(false),
        }
    }

    /// Before a plan is brought: has the search plan without rules that others took. Returns nothing if rules are
    /// switched off, so that no plan can be brought.
    pub(super) fn settle_losses(
        &mut self,
        search: &mut Search,
    ) -> Result<Option<Settled>, NicError> {
        let lost = self.look()?;
        self.is_off = lost == Lost::SwitchedOff;
        let mut settled = Settled::default();
        match lost {
            Lost::Nothing => {}
            Lost::SwitchedOff => return Ok(None),
            Lost::Reset(rules) => {
                self.record.verify(&mut *self.driver)?;
                settled.notes.push(format!(
                    "the device lost {rules} rules, as by a reset: they are made again"
                ));
            }
            Lost::Taken(rules) => {
                self.record.verify(&mut *self.driver)?;
                let plan = search.plan();
                let mut refused = Vec::new();
                for rule in rules {
                    if let Some(planned) = rule_of_plan(search.nic(), &plan, &rule) {
                        refused.push((planned.id, Refused::Rule, TAKEN.into()));
                    }
                    settled.taken.push(format!("{TAKEN}: `{}`", rule.to_options()));
                }
                search.refuse_all(&refused);
            }
        }
        Ok(Some(settled))
    }
}
