//! Settings as they were written, in a file or on the command line.
//!
//! The path of a value: [`Settings::read`] (a file) and `weever up`'s options make [`Settings`], in which
//! every value is text that its [`Kind`](weever_service_api::settings::Kind) has been checked to take,
//! with its place. Options win ([`Settings::overridden_by`]). `Config::try_from` reads the values with
//! types and checks how they fit together.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use weever_service_api::settings::{Default as Unset, Setting, TablePlace, find};

use super::error::Origin;
use super::value;

/// The settings of a file or a command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The stack, and its first interface.
    pub(super) top: Table,
    /// The tables that may be repeated, by name: `interface`, `route`, `neighbour`.
    pub(super) repeated: BTreeMap<String, Vec<Table>>,
}

/// Values by the keys of their settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table(BTreeMap<&'static str, Vec<Written>>);

/// A value as it was written. Its setting takes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) origin: Origin,
}

impl Settings {
    /// Adds a value of the setting `key` from the command line.
    ///
    /// # Errors
    /// Why the setting does not take it.
    pub(crate) fn add_option(&mut self, key: &'static str, text: &str) -> Result<(), String> {
        value::check(find(key).expect("options are made of the table").kind, text)?;
        self.top.add(key, Written { text: text.into(), origin: Origin::CommandLine });
        Ok(())
    }

    /// These settings, where `over` does not say otherwise. Lists are replaced, not joined.
    #[must_use]
    pub fn overridden_by(mut self, over: Settings) -> Settings {
        self.top.0.extend(over.top.0);
        self.repeated.extend(over.repeated);
        self
    }

    /// The tables `[[name]]`.
    pub(super) fn tables(&self, name: &str) -> &[Table] {
        self.repeated.get(name).map_or(&[], Vec::as_slice)
    }

    /// Where the setting `key` was given this value, as messages name both: `interface.mtu` in a table
    /// `[[interface]]`. A message may show a value in another form: then where it was first given any. An
    /// interface has its name and more from its device, where nothing else is said.
    pub(super) fn origin(&self, key: &str, value: &str) -> Origin {
        let (tables, key) = match key.strip_prefix("interface.") {
            Some(key) => (self.tables("interface"), key),
            None => match key.split_once('.').map(|(table, _)| self.tables(table)) {
                Some(tables @ [_, ..]) => (tables, key),
                _ => (std::slice::from_ref(&self.top), key),
            },
        };
        let written = || tables.iter().filter_map(|table| table.0.get(key)).flatten();
        let same = written().find(|written| written.text == value);
        let of_device = || tables.iter().filter_map(|table| table.0.get("dev")).flatten();
        let of_device = || of_device().find(|device| device.text == value);
        let found = same.or_else(|| written().next()).or_else(of_device);
        found.map(|written| written.origin.clone()).unwrap_or_default()
    }
}

impl Table {
    pub(super) fn add(&mut self, key: &'static str, written: Written) {
        self.0.entry(key).or_default().push(written);
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Whether it says anything of an interface.
    pub(super) fn describes_an_interface(&self) -> bool {
        let of_interface = |key: &&str| find(key).is_some_and(|s| s.place == TablePlace::Interface);
        self.0.keys().any(of_interface)
    }

    /// The value of a setting that has a default; that if it is not set.
    pub(super) fn get<T: FromStr>(&self, key: &str) -> T {
        let setting = setting(key);
        self.find(key).unwrap_or_else(|| match setting.default {
            Unset::Value(default) => typed(setting, default),
            Unset::None(_) => panic!("{key} has no default"),
        })
    }

    /// The value of a setting, if it is set.
    pub(super) fn find<T: FromStr>(&self, key: &str) -> Option<T> {
        self.list(key).pop()
    }

    /// The values of a setting that takes several.
    pub(super) fn list<T: FromStr>(&self, key: &str) -> Vec<T> {
        let setting = setting(key);
        let values = self.0.get(key).into_iter().flatten();
        values.map(|written| typed(setting, &written.text)).collect()
    }

    /// The path that a setting names.
    pub(super) fn path(&self, key: &str) -> Option<PathBuf> {
        let Written { text, origin } = self.0.get(key)?.last()?;
        Some(origin.resolve(text))
    }
}

fn setting(key: &str) -> &'static Setting {
    find(key).unwrap_or_else(|| panic!("there is no setting {key}"))
}

/// Reads a value that the setting's kind has been checked to take. A test that reads every setting makes
/// sure that kinds and types agree.
fn typed<T: FromStr>(setting: &Setting, text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{} = {text} is of another type", setting.key))
}
