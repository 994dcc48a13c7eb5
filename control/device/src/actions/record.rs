//! The record of our changes to a device.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weever_graph::nic::FlowType;

use crate::ethtool::{
    ANY_LOCATION, Channels, Driver, EthtoolError, HashFields, RuleSpec, Spreading,
};

/// A setting that we changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangedSetting<T> {
    /// The setting as it was found.
    pub(super) found: T,
    /// The setting as we left it.
    pub(super) set: T,
}

/// A rule that we made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledRule {
    /// The rule as it was sent.
    pub(super) sent: RuleSpec,
    /// As the driver shows it; the driver may have rounded it.
    pub(super) read: RuleSpec,
}

/// A context that we made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledContext {
    /// How the steps that follow its making name it; steps of later plans call it by its number.
    pub(super) name: u32,
    /// Its number on the device.
    pub(super) number: u32,
    /// The queue for each value of the hash.
    pub(super) table: Vec<u32>,
}

/// Our changes to a device: the rules that we made, and the settings that we changed, with their former
/// values. It starts empty, and [`super::ConfigurationSteps::apply`] keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Our rules, by location.
    pub(super) ours: BTreeMap<u32, InstalledRule>,
    pub(super) channels: Option<ChangedSetting<Channels>>,
    pub(super) ntuple: Option<ChangedSetting<bool>>,
    pub(super) spreading: Option<ChangedSetting<Spreading>>,
    /// In the order of their making.
    #[serde(default)]
    pub(super) contexts: Vec<InstalledContext>,
    /// Private flags of the driver, by their names.
    #[serde(default)]
    pub(super) private: BTreeMap<String, ChangedSetting<bool>>,
    /// Features, by the names that `ethtool -K` takes.
    #[serde(default)]
    pub(super) features: BTreeMap<String, ChangedSetting<bool>>,
    /// By the names of flow types.
    pub(super) fields: BTreeMap<String, ChangedSetting<HashFields>>,
    /// Rules that a process was about to make; how many of them it made is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) intended: Option<IntendedRules>,
}

/// Rules that were about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IntendedRules {
    pub(super) rules: Vec<RuleSpec>,
    /// The locations that rules of others had then.
    pub(super) others: BTreeSet<u32>,
}

impl Record {
    /// Whether the device is as it was found, according to the record.
    pub fn is_empty(&self) -> bool {
        *self == Record::default()
    }

    /// Parses the contents of a record's file.
    ///
    /// # Errors
    /// The fault of the text.
    pub fn read(text: &[u8]) -> Result<Record, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The contents of its file.
    ///
    /// # Errors
    /// None that is known.
    pub fn write(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// The locations of the rules that we made.
    pub fn locations(&self) -> impl Iterator<Item = u32> + '_ {
        self.ours.keys().copied()
    }

    /// The rules that we made, with their locations.
    pub fn rules(&self) -> impl Iterator<Item = (u32, RuleSpec)> + '_ {
        self.ours.iter().map(|(at, rule)| (*at, rule.sent.clone()))
    }

    /// The features and private flags that we switched, with what they were before.
    pub fn switched(&self) -> BTreeMap<String, bool> {
        let both = self.features.iter().chain(&self.private);
        both.map(|(name, changed)| (name.clone(), changed.found)).collect()
    }

    /// Takes over the rules that a killed process has made without recording them, and gives up rules
    /// that others changed since, as they belong to others now. Returns the locations of the latter.
    ///
    /// # Errors
    /// The device's answer.
    pub fn verify(&mut self, driver: &mut dyn Driver) -> Result<Vec<u32>, EthtoolError> {
        if let Some(intended) = self.intended.take() {
            self.adopt(driver, intended)?;
        }
        if self.ours.is_empty() {
            return Ok(Vec::new());
        }
        let present: BTreeSet<u32> = driver.locations()?.into_iter().collect();
        let mut lost = Vec::new();
        for (location, ours) in &self.ours {
            if !present.contains(location) || !is_still(&ours.read, *location, driver)? {
                lost.push(*location);
            }
        }
        lost.iter().for_each(|location| {
            self.ours.remove(location);
        });
        Ok(lost)
    }

    /// For use before steps that name contexts by their numbers: the name of one may be another's
    /// number.
    pub(super) fn name_contexts_as_numbered(&mut self) {
        self.contexts.iter_mut().for_each(|context| context.name = context.number);
    }

    /// The number of the context that steps call `name`.
    pub(super) fn number_of(&self, name: u32) -> u32 {
        self.contexts.iter().find(|c| c.name == name).map_or(name, |c| c.number)
    }

    fn adopt(
        &mut self,
        driver: &mut dyn Driver,
        mut intended: IntendedRules,
    ) -> Result<(), EthtoolError> {
        let present = driver.locations()?.into_iter();
        for location in present.filter(|at| !intended.others.contains(at)) {
            let Some(read) = shown(location, driver)? else { continue };
            if self.ours.get(&location).is_some_and(|ours| ours.read == read) {
                continue;
            }
            let is_it = |rule: &RuleSpec| {
                rule.says_the_same(&read) && [ANY_LOCATION, location].contains(&rule.location())
            };
            if let Some(at) = intended.rules.iter().position(is_it) {
                let sent = intended.rules.swap_remove(at);
                self.ours.insert(location, InstalledRule { sent, read });
            }
        }
        Ok(())
    }

    /// Has the settings that are not noted any more noted as they were.
    pub(super) fn keep_settings_of(&mut self, before: Record) {
        self.channels = self.channels.take().or(before.channels);
        self.ntuple = self.ntuple.take().or(before.ntuple);
        self.spreading = self.spreading.take().or(before.spreading);
        for (name, changed) in before.fields {
            self.fields.entry(name).or_insert(changed);
        }
        for (name, changed) in before.private {
            self.private.entry(name).or_insert(changed);
        }
        for (name, changed) in before.features {
            self.features.entry(name).or_insert(changed);
        }
    }

    pub(super) fn note_fields(&mut self, flow_type: FlowType, from: HashFields, to: HashFields) {
        let name = flow_type.name().to_string();
        let found = self.fields.get(&name).map_or(from, |changed| changed.found);
        match found == to {
            true => self.fields.remove(&name),
            false => self.fields.insert(name, ChangedSetting { found, set: to }),
        };
    }
}

/// The rule at a location; nothing if there is none, or if the driver cannot show rules.
fn shown(location: u32, driver: &mut dyn Driver) -> Result<Option<RuleSpec>, EthtoolError> {
    match driver.rule(location) {
        Ok(rule) => Ok(Some(rule)),
        Err(error) if error.is_unsupported() || error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the rule at a location, where there is one, is still this one. A driver that cannot show
/// rules is believed.
fn is_still(ours: &RuleSpec, location: u32, driver: &mut dyn Driver) -> Result<bool, EthtoolError> {
    match driver.rule(location) {
        Ok(rule) => Ok(rule == *ours),
        Err(error) if error.is_unsupported() => Ok(true),
        // The rule was removed after the list was made.
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Notes that one of several switches was set; nothing remains noted if it is as it was found.
pub(super) fn note_switch(
    switches: &mut BTreeMap<String, ChangedSetting<bool>>,
    name: &str,
    to: bool,
) {
    let found = switches.remove(name).map_or(!to, |changed| changed.found);
    if found != to {
        switches.insert(name.into(), ChangedSetting { found, set: to });
    }
}

/// Notes that a setting went from `from` to `to`; nothing remains noted if it is as it was found.
pub(super) fn note<T: PartialEq + Clone>(slot: &mut Option<ChangedSetting<T>>, from: &T, to: &T) {
    let found = slot.as_ref().map_or(from, |changed| &changed.found).clone();
    *slot = (found != *to).then(|| ChangedSetting { found, set: to.clone() });
}
