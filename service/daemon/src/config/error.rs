//! Mistakes in a configuration, with their places.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The file does not end within 16 MiB.
    #[error("{} is longer than 16 MiB: no configuration is; is the path right?", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML, or has a key that is unknown, missing or in the wrong place.
    #[error("{at}{message}")]
    Text {
        /// The place.
        at: Origin,
        /// The mistake, naming the key, and what to write.
        message: String,
    },
    /// A setting without which nothing works is not there.
    #[error("{key} is not set: {remedy}")]
    Missing {
        /// The setting.
        key: &'static str,
        /// The way to set it.
        remedy: &'static str,
    },
    /// A value that the setting does not take, or that does not fit the others.
    #[error("{at}{key} = {value}: {problem}")]
    Invalid {
        /// The place where it was written.
        at: Origin,
        /// The setting.
        key: String,
        /// Its value.
        value: String,
        /// The mistake, and what to write: `PROBLEM; REMEDY`.
        problem: String,
    },
    /// Several of the above. It is written with a line for each.
    #[error("{}", joined(.0))]
    Several(Vec<ConfigError>),
}

fn joined(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl ConfigError {
    pub(super) fn invalid(
        key: &str,
        value: impl ToString,
        problem: &str,
        remedy: &str,
    ) -> ConfigError {
        let (key, value) = (key.into(), value.to_string());
        ConfigError::Invalid {
            at: Origin::default(),
            key,
            value,
            problem: format!("{problem}; {remedy}"),
        }
    }

    /// `Ok` if there are no problems, else all of them.
    pub(super) fn all(mut problems: Vec<ConfigError>) -> Result<(), ConfigError> {
        match problems.len() {
            0 => Ok(()),
            1 => Err(problems.remove(0)),
            _ => Err(ConfigError::Several(problems)),
        }
    }
}

/// The place where a value was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// On the command line, or nowhere.
    #[default]
    CommandLine,
    /// In a file.
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Character within the line, from 1.
        column: usize,
    },
}

/// `FILE:LINE:COLUMN: ` in front of a message; nothing for the command line.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::CommandLine => Ok(()),
            Origin::File { path, line, column } => {
                write!(f, "{}:{line}:{column}: ", path.display())
            }
        }
    }
}

impl Origin {
    /// A path relative to the directory of the file that names it; as it is from the command line.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        match self {
            Origin::CommandLine => path.into(),
            Origin::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(path),
        }
    }
}

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

    /// Nothing if there are no problems, else all of them; `origin` gives the place where the value of a
    /// key was written.
    pub(super) fn found_at(
        mut self,
        origin: impl Fn(&str, &str) -> Origin,
    ) -> Result<(), ConfigError> {
        for problem in &mut self.0 {
            if let ConfigError::Invalid { at, key, value, .. } = problem {
                *at = origin(key, value);
            }
        }
        ConfigError::all(self.0)
    }
}
