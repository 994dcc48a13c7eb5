//! The list of mistakes in a configuration.

use super::super::{ConfigError, Settings};

/// The mistakes found so far: a configuration is checked as a whole.
#[derive(Default)]
pub(super) struct Problems(Vec<ConfigError>);

impl Problems {
    pub(super) fn note(&mut self, checked: Result<(), ConfigError>) {
        self.0.extend(checked.err());
    }

    pub(super) fn add(&mut self, key: &str, value: impl ToString, problem: &str, remedy: &str) {
        self.0.push(ConfigError::invalid(key, value, problem, remedy));
    }

    /// Nothing if there are no problems, else all of them with the places where values were written.
    pub(super) fn found_in(mut self, settings: &Settings) -> Result<(), ConfigError> {
        for problem in &mut self.0 {
            if let ConfigError::Invalid { at, key, value, .. } = problem {
                *at = settings.origin(key, value);
            }
        }
        ConfigError::all(self.0)
    }
}
