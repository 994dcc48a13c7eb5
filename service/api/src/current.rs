//! Method `settings`: the present values of the settings that `set` can change.

use serde::{Deserialize, Serialize};

use crate::{Assignment, Method};

/// Parameters of `settings`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsRequest {}

impl Method for SettingsRequest {
    const NAME: &'static str = "settings";
    type Answer = Settings;
}

/// Answer to `settings`. Given back to `set`, it changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Services, interfaces, routes of operators, and settings of the whole stack. Parameters of
    /// nodes are in the graph.
    pub settings: Vec<Assignment>,
}
