//! The settings of a device that a plan relies on, as they were when it was brought: what differs later was changed
//! by others.

use std::fmt;

use weever_graph::nic::FlowType;
use weever_plan::config::Configuration;
use weever_plan::nic::Nic;

use super::{DesiredConfiguration, switches};
use crate::ethtool::{Driver, EthtoolError, HashFields, Spreading};

/// A setting that a plan relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The number of receive queues.
    Queues,
    /// The table and the key of the hash.
    Table,
    /// The hashed fields of a flow type.
    Fields(FlowType),
    /// A private flag of the driver.
    Flag(String),
    /// A feature (`ethtool -K`).
    Feature(String),
}

impl Setting {
    /// The settings that a plan relies on.
    pub(crate) fn all(nic: &Nic, configuration: &Configuration) -> Vec<Setting> {
        let mut all = vec![Setting::Queues];
        all.extend((!configuration.rss.table.is_empty()).then_some(Setting::Table));
        // With a key, the plan knows where flows are hashed to.
        let hashed = configuration.rss.key.iter().flat_map(|_| nic.rss.iter());
        let mut types: Vec<FlowType> =
            hashed.flat_map(|rss| rss.types.iter().map(|t| t.flow_type)).collect();
        types.extend(configuration.rss.fields.iter().map(|(t, _)| *t));
        types.sort_unstable();
        types.dedup();
        all.extend(types.into_iter().map(Setting::Fields));
        all.extend(nic.off.iter().map(|flag| Setting::Flag(flag.clone())));
        let features = switches(&nic.settings(configuration)).into_keys();
        all.extend(features.map(Setting::Feature));
        all
    }

    fn read(&self, driver: &mut dyn Driver) -> Result<Option<Value>, EthtoolError> {
        let value = match self {
            Setting::Queues => driver.channels().map(|now| Value::Queues(now.receiving())),
            Setting::Table => driver.spreading(0).map(Value::Table),
            Setting::Fields(flow_type) => driver.hash_fields(*flow_type).map(Value::Fields),
            Setting::Flag(name) => driver.private_flag(name).map(Value::Flag),
            Setting::Feature(name) => driver.feature(name).map(Value::Flag),
        };
        match value {
            Err(error) if error.is_unsupported() => Ok(None),
            value => value.map(Some),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Queues => f.write_str("the number of queues (`-L`)"),
            Setting::Table => f.write_str("the table of the hash (`-X`)"),
            Setting::Fields(flow_type) => {
                write!(f, "the hashed fields of {flow_type} (`-N rx-flow-hash`)")
            }
            Setting::Flag(name) => write!(f, "the private flag `{name}`"),
            Setting::Feature(name) => write!(f, "the feature `{name}` (`-K`)"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Queues(u32),
    Table(Spreading),
    Fields(HashFields),
    Flag(Option<bool>),
}

/// The settings that a plan relies on, with their values.
#[derive(Debug, Default)]
pub(crate) struct Settings(Vec<(Setting, Value)>);

impl Settings {
    /// As they are now.
    pub(crate) fn read(
        names: &[Setting],
        driver: &mut dyn Driver,
    ) -> Result<Settings, EthtoolError> {
        let mut read = Vec::new();
        for name in names {
            read.extend(name.read(driver)?.map(|value| (name.clone(), value)));
        }
        Ok(Settings(read))
    }

    /// These ones as they were `before`.
    #[must_use]
    pub(crate) fn keeping(mut self, left: &[Setting], before: &Settings) -> Settings {
        for (name, value) in self.0.iter_mut().filter(|(name, _)| left.contains(name)) {
            let was = before.0.iter().find(|(n, _)| n == name);
            was.into_iter().for_each(|(_, was)| *value = was.clone());
        }
        self
    }

    /// Those that are other ones now.
    pub(crate) fn changed(&self, driver: &mut dyn Driver) -> Result<Vec<Setting>, EthtoolError> {
        let mut changed = Vec::new();
        for (name, before) in &self.0 {
            if name.read(driver)?.is_some_and(|now| now != *before) {
                changed.push(name.clone());
            }
        }
        Ok(changed)
    }
}

impl DesiredConfiguration {
    /// The same without these settings, which stay as they are.
    pub(super) fn leave(&mut self, left: &[Setting]) {
        for setting in left {
            match setting {
                Setting::Queues => self.receiving = 0,
                Setting::Table => (self.spread, self.key) = (Vec::new(), None),
                Setting::Fields(flow_type) => self.fields.retain(|(t, _)| t != flow_type),
                Setting::Flag(name) => self.off.retain(|flag| flag != name),
                Setting::Feature(name) => drop(self.features.remove(name)),
            }
        }
    }
}
