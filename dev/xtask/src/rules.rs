//! The rules as data: `rules.toml` says which crate may know which and which rooms are special,
//! `exceptions.toml` which breaches are permitted and why.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::report::Error;

/// The file, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rules {
    /// Names for lists of crates, used as `@name`.
    #[serde(default)]
    pub(crate) groups: BTreeMap<String, Vec<String>>,
    /// Each crate of ours is in at least one of them.
    #[serde(default, rename = "rule")]
    pub(crate) rules: Vec<Rule>,
    /// Where the word `unsafe` may be written.
    #[serde(default)]
    pub(crate) unsafe_rooms: Vec<String>,
    /// Where the time is an argument.
    #[serde(default)]
    pub(crate) clockless_rooms: Vec<String>,
    /// Rooms that exist for tests: their public items are for tests to use.
    #[serde(default)]
    pub(crate) test_rooms: Vec<String>,
}

/// The dependencies allowed to some crates, direct or through others.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// The crates that it applies to.
    pub(crate) crates: Vec<String>,
    /// If present: the only crates *of ours* that they may use.
    pub(crate) only: Option<Vec<String>>,
    /// Crates, of ours or from elsewhere, that they may not use.
    #[serde(default)]
    pub(crate) never: Vec<String>,
    /// Said when the rule is broken.
    pub(crate) because: String,
}

impl Rules {
    pub(crate) fn load(root: &Path) -> Result<Self, Error> {
        load_toml(&root.join("dev/xtask/rules.toml"))
    }

    /// A list with its `@groups` replaced by their members.
    pub(crate) fn expand<'a>(&'a self, names: &'a [String]) -> Vec<&'a str> {
        let group = |name: &str| name.strip_prefix('@').and_then(|name| self.groups.get(name));
        names
            .iter()
            .flat_map(|name| match group(name) {
                Some(members) => members.iter().map(String::as_str).collect(),
                None => vec![name.as_str()],
            })
            .collect()
    }
}

/// Reads a TOML file into a value.
pub(crate) fn load_toml<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text =
        fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    toml::from_str(&text)
        .map_err(|e| Error::Parse { path: path.to_owned(), message: e.to_string() })
}

/// The file, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exceptions {
    #[serde(default, rename = "file")]
    pub(crate) files: Vec<FileException>,
    #[serde(default)]
    pub(crate) small: Vec<SmallException>,
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

/// A file that may be short.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SmallException {
    pub(crate) path: PathBuf,
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
    fn groups_expand_to_their_members() {
        let text = "[groups]\ntools = ['t1', 't2']\n[[rule]]\ncrates = ['a']\nnever = ['x', '@tools']\nbecause = 'b'";
        let rules: Rules = toml::from_str(text).unwrap();
        assert_eq!(rules.expand(&rules.rules[0].never), ["x", "t1", "t2"]);
    }

    #[test]
    fn a_misspelt_key_is_an_error() {
        assert!(toml::from_str::<Rules>("[[rule]]\ncrate = ['a']\nbecause = 'b'").is_err());
    }

    #[test]
    fn the_projects_own_file_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let rules = Rules::load(&root).unwrap();
        assert!(rules.rules.iter().any(|r| r.crates == ["weever-graph"]));
        assert!(rules.unsafe_rooms.contains(&"data/ring".to_owned()));
    }

    #[test]
    fn an_exception_without_a_reason_is_refused() {
        assert!(toml::from_str::<Exceptions>("[[file]]\npath = 'a.rs'\nlines = 9").is_err());
        let reasoned = "[[file]]\npath = 'a.rs'\nlines = 9\nreason = 'a table'";
        assert_eq!(toml::from_str::<Exceptions>(reasoned).unwrap().files[0].reason, "a table");
    }
}
