//! What we did to a device.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weever_graph::nic::FlowType;

use crate::ethtool::{Channels, Driver, EthtoolError, HashFields, RuleSpec, Spreading};

/// A setting that we changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Changed<T> {
    /// As it was found.
    pub(super) found: T,
    /// As we left it.
    pub(super) set: T,
}

/// A rule that we made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ours {
    /// As it was asked for.
    pub(super) sent: RuleSpec,
    /// As the driver shows it, which may round what it was told.
    pub(super) read: RuleSpec,
}

/// A context that we made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OurContext {
    /// How steps name it.
    pub(super) name: u32,
    /// Its number on the device.
    pub(super) number: u32,
    /// The queue for each value of the hash.
    pub(super) table: Vec<u32>,
}

/// What we did to a device: the rules that we made, and the settings that we changed, with what they
/// were. It starts empty, and [`super::Actions::apply`] keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// By location.
    pub(super) ours: BTreeMap<u32, Ours>,
    pub(super) channels: Option<Changed<Channels>>,
    pub(super) ntuple: Option<Changed<bool>>,
    pub(super) spreading: Option<Changed<Spreading>>,
    /// In the order of their making.
    #[serde(default)]
    pub(super) contexts: Vec<OurContext>,
    /// By the names of flow types.
    pub(super) fields: BTreeMap<String, Changed<HashFields>>,
}

impl Record {
    /// Whether the device is as it was found, as far as we know.
    pub fn is_empty(&self) -> bool {
        *self == Record::default()
    }

    /// The locations of the rules that we made.
    pub fn locations(&self) -> impl Iterator<Item = u32> + '_ {
        self.ours.keys().copied()
    }

    /// Gives up the rules that are no longer as we left them, since somebody else answers for them
    /// now, and says which.
    ///
    /// # Errors
    /// The device's answer.
    pub fn verify(&mut self, driver: &mut dyn Driver) -> Result<Vec<u32>, EthtoolError> {
        if self.ours.is_empty() {
            return Ok(Vec::new());
        }
        let present = driver.locations()?;
        let mut lost = Vec::new();
        for (location, ours) in &self.ours {
            let is_there = present.contains(location);
            if !is_there || driver.rule(*location)? != ours.read {
                lost.push(*location);
            }
        }
        lost.iter().for_each(|location| {
            self.ours.remove(location);
        });
        Ok(lost)
    }

    /// The number of the context that steps call `name`.
    pub(super) fn number_of(&self, name: u32) -> u32 {
        self.contexts.iter().find(|c| c.name == name).map_or(name, |c| c.number)
    }

    pub(super) fn note_fields(&mut self, flow_type: FlowType, from: HashFields, to: HashFields) {
        let name = flow_type.name().to_string();
        let found = self.fields.get(&name).map_or(from, |changed| changed.found);
        match found == to {
            true => self.fields.remove(&name),
            false => self.fields.insert(name, Changed { found, set: to }),
        };
    }
}

/// Notes that a setting went from `from` to `to`; nothing remains noted if it is as it was found.
pub(super) fn note<T: PartialEq + Clone>(slot: &mut Option<Changed<T>>, from: &T, to: &T) {
    let found = slot.as_ref().map_or(from, |changed| &changed.found).clone();
    *slot = (found != *to).then(|| Changed { found, set: to.clone() });
}
