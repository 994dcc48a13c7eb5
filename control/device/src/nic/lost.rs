//! What others did to a NIC since it was brought to a plan. What a restart of the device took is put back; what a
//! person deleted, set or switched off on purpose is reported, and not fought.
//!
//! The kernel says neither who changed a rule nor why, so it is told by the traces and by what was announced: a
//! restart takes the link down and all rules with it, or settings, while somebody who deletes a rule leaves the others
//! and the settings.

use std::collections::BTreeSet;
use std::time::Instant;

use weever_plan::search::{Refused, Search};

use super::{NicError, NicSteering};
use crate::actions::{Setting, Settings, rule_of_plan};
use crate::ethtool::{Announced, EthtoolError, RuleSpec};

/// Said of a rule that others removed, as the reason for planning without it.
const TAKEN: &str = "another program removed or replaced its rule";

/// What has become of our changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing is missing.
    Nothing,
    /// So many rules, or settings, as by a restart of the device.
    Reset(usize),
    /// These rules, by somebody who left the others.
    Taken(Vec<RuleSpec>),
    /// Rules are there, and these settings are other ones.
    Set(Vec<Setting>),
    /// Our rules are there, and those of others are at other locations than before.
    Others,
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
    /// What was announced of the device since the last call. Does not wait.
    pub fn announced(&mut self) -> Announced {
        let announced = self.driver.announced();
        if announced.restart {
            self.traces.restarted = Some(Instant::now());
        }
        self.traces.has_moved |= announced.moved;
        announced
    }

    /// Whether the device has gone to another network namespace, with what we set.
    pub fn has_moved(&mut self) -> bool {
        self.announced();
        self.traces.has_moved
    }

    /// Compares the device with the record of our changes. Changes nothing on it.
    ///
    /// # Errors
    /// The device's answer.
    pub fn look(&mut self) -> Result<Lost, NicError> {
        if !self.has_followed {
            return Ok(Lost::Nothing);
        }
        self.announced();
        let mut record = self.record.clone();
        let had: Vec<(u32, RuleSpec)> = record.rules().collect();
        if (!had.is_empty() || self.needs_rules_on) && !self.rules_are_on()? {
            return Ok(Lost::SwitchedOff);
        }
        let mut changed = self.settings.changed(&mut *self.driver)?;
        // One that is as plans want it again is taken care of again.
        self.left.retain(|setting| changed.contains(setting));
        changed.retain(|setting| !self.left.contains(setting));
        let missing = if had.is_empty() { Vec::new() } else { record.verify(&mut *self.driver)? };
        if missing.is_empty() {
            return Ok(match self.without_loss(changed) {
                Lost::Nothing if self.others_changed()? => Lost::Others,
                lost => lost,
            });
        }
        let present = self.driver.locations()?;
        let all_went = had.len() > 1 && had.iter().all(|(at, _)| !present.contains(at));
        if self.is_off || all_went || !changed.is_empty() || self.traces.has_restarted() {
            return Ok(Lost::Reset(missing.len()));
        }
        let taken = had.into_iter().filter(|(at, _)| missing.contains(at));
        Ok(Lost::Taken(taken.map(|(_, rule)| rule).collect()))
    }

    /// Whether the rules that are not ours lie elsewhere than at the last plan.
    fn others_changed(&mut self) -> Result<bool, EthtoolError> {
        let present = match self.driver.locations() {
            Err(error) if error.is_unsupported() => return Ok(false),
            present => present?,
        };
        let ours: BTreeSet<u32> = self.record.locations().collect();
        let others: BTreeSet<u32> = present.into_iter().filter(|at| !ours.contains(at)).collect();
        let known = self.others.known.iter().map(|other| other.rule.location);
        Ok(others != known.chain(self.others.unknown.iter().copied()).collect())
    }

    /// All rules are there, and these settings are other ones.
    fn without_loss(&self, changed: Vec<Setting>) -> Lost {
        let restarted = self.traces.has_restarted();
        // No driver changes the number of its queues of its own accord.
        let wished: Vec<Setting> =
            changed.iter().filter(|s| !restarted || **s == Setting::Queues).cloned().collect();
        match (wished.is_empty(), changed.is_empty() && !self.is_off) {
            (false, _) => Lost::Set(wished),
            (true, false) => Lost::Reset(0),
            (true, true) => Lost::Nothing,
        }
    }

    /// Whether rules are as others switched them, at the last plan that was brought.
    pub fn is_switched_off(&self) -> bool {
        self.is_off
    }

    /// The settings that others changed, and that are left as they are.
    pub fn left(&self) -> &[Setting] {
        &self.left
    }

    /// From now on, settings that others changed are set as plans want them again.
    pub fn take_settings_back(&mut self) {
        self.left.clear();
        self.settings = Settings::default();
    }

    fn rules_are_on(&mut self) -> Result<bool, EthtoolError> {
        match self.driver.ntuple() {
            Err(error) if error.is_unsupported() => Ok(true),
            on => on,
        }
    }

    /// Before a plan is brought: has the search plan without rules that others took. Returns nothing if rules are
    /// switched off, so that no plan can be brought.
    pub(super) fn settle_losses(
        &mut self,
        search: &mut Search,
    ) -> Result<Option<Settled>, NicError> {
        let had: Vec<(u32, RuleSpec)> = self.record.rules().collect();
        let lost = self.look()?;
        let was_off = std::mem::replace(&mut self.is_off, lost == Lost::SwitchedOff);
        let mut settled = Settled::default();
        match lost {
            Lost::Nothing | Lost::Others => {}
            Lost::SwitchedOff => return Ok(None),
            Lost::Reset(rules) => {
                self.record.verify(&mut *self.driver)?;
                self.leave_queues()?;
                let left = self.record.locations().count();
                if rules > 0 && left == 0 && !was_off && !self.traces.all_went() {
                    let all = had.into_iter().map(|(_, rule)| rule).collect();
                    self.give_up(all, search, &mut settled);
                    settled.notes.push(
                        "all rules went several times within a minute, without a restart of the device: another \
                         program removes them, and they are not made again until the policy is read again"
                            .into(),
                    );
                } else {
                    let what = if rules > 0 { format!("{rules} rules") } else { "settings".into() };
                    let note =
                        format!("the device lost {what}, as by a reset: they are made again");
                    settled.notes.push(note);
                }
            }
            Lost::Taken(rules) => {
                self.record.verify(&mut *self.driver)?;
                self.give_up(rules, search, &mut settled);
            }
            Lost::Set(settings) => {
                let note = |setting: &Setting| {
                    format!("another program changed {setting}: it is left as it is")
                };
                settled.notes.extend(settings.iter().map(note));
                self.left.extend(settings);
            }
        }
        let others = self.others_beside(&self.record.clone(), search.nic())?;
        if others != self.others {
            settled.notes.extend(others.note());
            search.plan_around(others.known.clone());
            self.others = others;
        }
        Ok(Some(settled))
    }

    /// A number of queues that others set stays, whatever else went.
    fn leave_queues(&mut self) -> Result<(), EthtoolError> {
        let changed = self.settings.changed(&mut *self.driver)?;
        if changed.contains(&Setting::Queues) && !self.left.contains(&Setting::Queues) {
            self.left.push(Setting::Queues);
        }
        Ok(())
    }

    /// Has the search plan without these rules.
    fn give_up(&self, rules: Vec<RuleSpec>, search: &mut Search, settled: &mut Settled) {
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
