//! What can be wrong with a configuration, and where.

use std::io;
use std::path::{Path, PathBuf};

use weever_suggest::nearest;

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
    /// The file is not TOML, has a key that is not known, or a value of the wrong shape.
    #[error("{}:{line}:{column}: {message}{hint}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Character within the line, from 1.
        column: usize,
        /// What is wrong, naming the key.
        message: String,
        /// A suggestion, or nothing.
        hint: String,
    },
    /// A setting without which nothing works is not there.
    #[error("{key} is not set: {remedy}")]
    Missing {
        /// The setting.
        key: &'static str,
        /// How to set it.
        remedy: &'static str,
    },
    /// A value that is well-formed and makes no sense.
    #[error("{key} = {value}: {problem}; {remedy}")]
    Invalid {
        /// The setting.
        key: String,
        /// Its value.
        value: String,
        /// Why it makes no sense.
        problem: String,
        /// What would.
        remedy: String,
    },
    /// Several of the two above. It is written with a line for each.
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
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ConfigError {
        let (key, value) = (key.into(), value.to_string());
        ConfigError::Invalid { key, value, problem: problem.into(), remedy: remedy.into() }
    }

    /// What the TOML reader found, with the line and, for a name that is nearly right, a hint.
    pub(super) fn from_toml(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
        let start = error.span().map_or(0, |span| span.start);
        let (line, column) = position(text, start);
        let (message, hint) = explain(error.message());
        ConfigError::Text { path: path.into(), line, column, message, hint }
    }
}

/// Line and character of a byte offset, both from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Serde lists what it expected; of a long list only what is near helps.
fn explain(message: &str) -> (String, String) {
    let message = message.replace("unknown field", "unknown key");
    let is_choice = message.starts_with("unknown key") || message.starts_with("unknown variant");
    let mut names = message.split('`').skip(1).step_by(2);
    let Some(given) = names.next().filter(|_| is_choice) else {
        return (message, String::new());
    };
    let known: Vec<&str> = names.collect();
    let hint = match nearest(given, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    (message.clone(), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "a = 1\nä = 2\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 6), (2, 1));
        assert_eq!(position(text, 9), (2, 3));
        assert_eq!(position(text, 999), (3, 1));
    }

    #[test]
    fn a_hint_needs_a_name_that_is_near() {
        let text = "unknown field `gatway`, expected one of `dev`, `gateway`";
        assert_eq!(explain(text).1, "; did you mean `gateway`?");
        assert_eq!(explain("unknown field `zzz`, expected `dev` or `addr`").1, "");
        assert_eq!(explain("invalid type: `gateway`").1, "");
    }
}
