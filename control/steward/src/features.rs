//! Features of a device (`ethtool -K`) that a program on it needs on or off.

use std::collections::BTreeMap;

use weever_device::actions::{ApplyError, BringError, DesiredConfiguration};
use weever_device::ethtool::EthtoolError;
use weever_device::nic::NicError;

use crate::nic::SharedNicSteering;
use crate::target::{Switch, TargetError};

/// The features of the device under a program. They are given back when the last owner of the steering is gone.
#[derive(Debug)]
pub(crate) struct Features {
    steering: SharedNicSteering,
    /// As they were wanted last.
    wanted: BTreeMap<String, bool>,
    /// Those that the device keeps as they are, with its words.
    kept: BTreeMap<String, String>,
}

impl Features {
    pub(crate) fn new(steering: SharedNicSteering) -> Features {
        Features { steering, wanted: BTreeMap::new(), kept: BTreeMap::new() }
    }

    /// The commands that would be necessary, and notes on them.
    pub(crate) fn preview(
        &self,
        wanted: BTreeMap<String, bool>,
    ) -> Result<Vec<String>, TargetError> {
        let mut steering = self.steering.lock();
        let desired = DesiredConfiguration { features: wanted, ..Default::default() };
        let steps = steering.preview(&desired).map_err(BringError::from).map_err(NicError::from)?;
        let mut lines = steps.commands(steering.driver().device());
        lines.extend(steps.notes.iter().map(|note| format!("note: {note}")));
        Ok(lines)
    }

    /// Switches what is wanted otherwise than before. Returns the commands that did it, and the features that the device
    /// has just been found to keep.
    pub(crate) fn follow(
        &mut self,
        wanted: &BTreeMap<String, bool>,
    ) -> Result<(Vec<String>, Vec<String>), TargetError> {
        let mut newly = Vec::new();
        loop {
            let mut features = wanted.clone();
            features.retain(|name, _| !self.kept.contains_key(name));
            if features == self.wanted {
                return Ok((Vec::new(), newly));
            }
            let mut steering = self.steering.lock();
            let desired = DesiredConfiguration { features, ..Default::default() };
            match steering.bring(&desired) {
                Ok(steps) => {
                    let lines = steps.commands(steering.driver().device());
                    self.wanted = desired.features;
                    return Ok((lines, newly));
                }
                Err(error) => {
                    let name = kept(&error).ok_or(error)?;
                    self.kept.insert(name.0.clone(), name.1);
                    newly.push(name.0);
                }
            }
        }
    }

    /// Those that are wanted, as the device has them.
    pub(crate) fn found(&self, wanted: BTreeMap<String, bool>) -> Result<Vec<Switch>, TargetError> {
        Switch::of_features(self.steering.lock().driver(), wanted)
    }

    /// The device's words about a feature that it keeps.
    pub(crate) fn why(&self, name: &str) -> &str {
        self.kept.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Gives all of them back, and returns the commands that did it.
    pub(crate) fn give_back(&mut self) -> Result<Vec<String>, TargetError> {
        let mut steering = self.steering.lock();
        let steps = steering.undo()?;
        self.wanted.clear();
        Ok(steps.commands(steering.driver().device()))
    }
}

/// The feature that a device keeps as it is, and its words.
fn kept(error: &NicError) -> Option<(String, String)> {
    let NicError::Bring(BringError::Apply(ApplyError { source, .. })) = error else { return None };
    match source {
        EthtoolError::Kept { name, .. } => Some((name.clone(), source.to_string())),
        _ => None,
    }
}
