//! `exceptions.toml`: permitted breaches of rules, with their reasons.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::rules::load_toml;

/// The file, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exceptions {
    #[serde(default, rename = "file")]
    pub(crate) files: Vec<FileException>,
    #[serde(default, rename = "function")]
    pub(crate) functions: Vec<FunctionException>,
    #[serde(default, rename = "circle")]
    pub(crate) circles: Vec<CircleException>,
    #[serde(default)]
    pub(crate) test_only: Vec<TestOnlyException>,
}

/// A file that may be long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileException {
    pub(crate) path: PathBuf,
    pub(crate) lines: usize,
    pub(crate) reason: String,
}

/// A function that may be long.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FunctionException {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) lines: usize,
    pub(crate) reason: String,
}

/// Files of a crate that still name each other in a circle.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CircleException {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) reason: String,
}

/// An item that is public although only tests use it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestOnlyException {
    pub(crate) path: PathBuf,
    /// Without it, every item of that file or folder: for a room that is being built.
    pub(crate) name: Option<String>,
    pub(crate) reason: String,
}

impl Exceptions {
    pub(crate) fn load(root: &Path) -> Result<Self, Error> {
        load_toml(&root.join("dev/xtask/exceptions.toml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_without_a_reason_is_refused() {
        assert!(toml::from_str::<Exceptions>("[[file]]\npath = 'a.rs'\nlines = 9").is_err());
        let reasoned = "[[file]]\npath = 'a.rs'\nlines = 9\nreason = 'a table'";
        assert_eq!(toml::from_str::<Exceptions>(reasoned).unwrap().files[0].reason, "a table");
    }
}
