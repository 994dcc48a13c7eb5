//! Configuration files: TOML, read by the table of settings.
//!
//! Serde would do for good files. Its errors speak of fields and variants, though, and stop at the first
//! mistake; here every mistake is named with its line and the correct form.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weever_service_api::settings::{Kind, Setting, TABLE, TablePlace};
use weever_suggest::did_you_mean;

use super::error::{ConfigError, Origin};
use super::settings::{Settings, Table, Written};
use super::value;

/// In bytes. No configuration is so long: it is a device, or some other file by mistake.
const LONGEST: u64 = 16 << 20;

impl Settings {
    /// Reads a configuration file of at most 16 MiB.
    ///
    /// # Errors
    /// [`ConfigError::Read`], [`ConfigError::TooLong`], and those of [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Settings, ConfigError> {
        Settings::parse(path, &read_text(path)?)
    }

    /// Reads a configuration from `text`; `path` is for messages, and relative paths begin at its
    /// directory.
    ///
    /// # Errors
    /// [`ConfigError::Text`], [`ConfigError::Invalid`], or several of them.
    pub fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
        parse(path, text)
    }
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let mut text = String::new();
    // One byte more than allowed, to notice longer files.
    let read = File::open(path).and_then(|f| f.take(LONGEST + 1).read_to_string(&mut text));
    match read {
        Err(source) => Err(ConfigError::Read { path: path.into(), source }),
        Ok(length) if length as u64 > LONGEST => Err(ConfigError::TooLong { path: path.into() }),
        Ok(_) => Ok(text),
    }
}

fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    let mut reader = Reader { path, text, problems: Vec::new() };
    let (document, errors) = DeTable::parse_recoverable(text);
    let settings = reader.document(document.get_ref());
    reader.add_syntax_errors(&errors);
    let problems = reader.problems.into_iter().map(|(_, problem)| problem).collect();
    ConfigError::all(problems).map(|()| settings)
}

type Key<'a> = Spanned<Cow<'a, str>>;

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    /// With their byte positions.
    problems: Vec<(usize, ConfigError)>,
}

/// A table of the file.
#[derive(Clone, Copy)]
enum Section<'a> {
    Top,
    Interface,
    /// A table whose name begins keys: `pool`, `route`.
    Named(&'a str),
}

impl<'a> Section<'a> {
    fn settings(self) -> impl Iterator<Item = &'static Setting> + use<'a> {
        TABLE.iter().filter(move |setting| match (self, setting.place) {
            (Section::Top, TablePlace::Interface) => setting.key != "name",
            (Section::Interface, place) => place == TablePlace::Interface,
            (Section::Top, TablePlace::Stack) => setting.table().is_none(),
            (Section::Named(name), _) => setting.table() == Some(name),
            (Section::Top, _) => false,
        })
    }

    /// The text before its keys in messages.
    fn prefix(self) -> String {
        match self {
            Section::Top => String::new(),
            Section::Interface => "interface.".into(),
            Section::Named(name) => format!("{name}."),
        }
    }
}

impl<'a> Reader<'a> {
    /// Adds the first error of TOML of each line. It is the only one of its line: the reader goes on with
    /// a guess there.
    fn add_syntax_errors(&mut self, errors: &[toml::de::Error]) {
        let mut lines = BTreeMap::new();
        for error in errors {
            let at = error.span().map_or(0, |span| span.start.min(self.text.len()));
            lines.entry(self.line_start(at)).or_insert((at, error.message()));
        }
        let problems = std::mem::take(&mut self.problems).into_iter();
        self.problems =
            problems.filter(|(at, _)| !lines.contains_key(&self.line_start(*at))).collect();
        for (start, (at, why)) in lines {
            let line = self.text[start..].lines().next().unwrap_or_default();
            let (at, message) = match value_at_fault(line) {
                Some((value, message)) => (start + value, message),
                None => {
                    let form = "each line is KEY = VALUE, [TABLE] or a comment";
                    (at, format!("this is not TOML: {why}; {form}"))
                }
            };
            let problem = ConfigError::Text { at: self.origin(at), message };
            self.problems.push((at, problem));
        }
        // The reader of TOML sorts keys by name.
        self.problems.sort_by_key(|(at, _)| *at);
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
    }

    fn document(&mut self, document: &DeTable<'_>) -> Settings {
        let mut settings = Settings::default();
        let is_table = |name: &str, place| {
            TABLE.iter().any(|setting| setting.table() == Some(name) && setting.place == place)
        };
        for (key, value) in document {
            let name: &str = key.get_ref();
            if name == "interface" || is_table(name, TablePlace::Repeated) {
                let tables = self.repeated(key, value);
                settings.repeated.insert(name.into(), tables);
            } else if is_table(name, TablePlace::Stack) {
                match value.get_ref() {
                    DeValue::Table(table) => {
                        self.table(Section::Named(name), table, &mut settings.top);
                    }
                    _ => self.say(key.span(), format!("`{name}` is a table: write [{name}]")),
                }
            } else {
                self.entry(Section::Top, key, value, &mut settings.top);
            }
        }
        settings
    }

    /// `[[interface]]`, `[[route]]` and `[[neighbour]]`.
    fn repeated(&mut self, key: &Key<'_>, value: &Spanned<DeValue<'_>>) -> Vec<Table> {
        let name: &str = key.get_ref();
        let section = if name == "interface" { Section::Interface } else { Section::Named(name) };
        let mut all = Vec::new();
        let DeValue::Array(tables) = value.get_ref() else {
            let message = format!("`{name}` may be repeated: write [[{name}]], in double brackets");
            self.say(key.span(), message);
            return all;
        };
        for value in tables {
            let DeValue::Table(table) = value.get_ref() else {
                let message = format!("`{name}` takes tables: write [[{name}]]");
                self.say(value.span(), message);
                continue;
            };
            let mut read = Table::default();
            self.table(section, table, &mut read);
            // Settings missing from an interface are judged later, together with the command line.
            let required =
                |setting: &&Setting| matches!(section, Section::Named(_)) && setting.is_required();
            for missing in section.settings().filter(required) {
                let is_there = table.iter().any(|(key, _)| key.get_ref() == missing.last_word());
                if !is_there {
                    let (word, example) = (missing.last_word(), missing.example);
                    let message =
                        format!("a [[{name}]] without `{word}`; write {word} = {example}");
                    self.say(value.span(), message);
                }
            }
            all.push(read);
        }
        all
    }

    fn table(&mut self, section: Section<'_>, table: &DeTable<'_>, into: &mut Table) {
        for (key, value) in table {
            self.entry(section, key, value, into);
        }
    }

    fn entry(
        &mut self,
        section: Section<'_>,
        key: &Key<'_>,
        value: &Spanned<DeValue<'_>>,
        into: &mut Table,
    ) {
        let name: &str = key.get_ref();
        let Some(setting) = section.settings().find(|setting| setting.last_word() == name) else {
            return self.say(key.span(), unknown(section, name));
        };
        match value.get_ref() {
            DeValue::Array(values) if setting.is_list => {
                values.iter().for_each(|value| self.value(section, setting, value, into));
            }
            _ => self.value(section, setting, value, into),
        }
    }

    fn value(
        &mut self,
        section: Section<'_>,
        setting: &'static Setting,
        value: &Spanned<DeValue<'_>>,
        into: &mut Table,
    ) {
        let (raw, start) = (self.raw(value.span()), value.span().start);
        let text = match (setting.kind, value.get_ref()) {
            (Kind::Switch, DeValue::Boolean(is_on)) => Ok(is_on.to_string()),
            (Kind::Number(..) | Kind::Cores, DeValue::Integer(number)) => {
                let decimal = i128::from_str_radix(number.as_str(), number.radix());
                Ok(decimal.map_or(number.to_string(), |decimal| decimal.to_string()))
            }
            (kind, DeValue::String(text)) if kind.is_text() || kind == Kind::Cores => {
                Ok(text.to_string())
            }
            (kind, found) => Err(wrong_type(setting, kind, found, raw)),
        };
        let checked = text.and_then(|text| value::check(setting.kind, &text).map(|()| text));
        let origin = self.origin(start);
        match checked {
            Ok(text) => into.add(setting.key, Written { text, origin }),
            Err(problem) => {
                let key = format!("{}{}", section.prefix(), setting.last_word());
                let value = shortened(raw);
                let problem = ConfigError::Invalid { at: origin, key, value, problem };
                self.problems.push((start, problem));
            }
        }
    }

    /// The value as written.
    fn raw(&self, span: Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }

    fn say(&mut self, span: Range<usize>, message: String) {
        let at = self.origin(span.start);
        self.problems.push((span.start, ConfigError::Text { at, message }));
    }

    /// The place of a byte.
    fn origin(&self, offset: usize) -> Origin {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let (line, column) =
            (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1);
        Origin::File { path: self.path.into(), line, column }
    }
}

/// A key that its section does not have: it belongs elsewhere, or is mistyped.
fn unknown(section: Section<'_>, name: &str) -> String {
    let elsewhere =
        TABLE.iter().find(|setting| !setting.key.is_empty() && setting.last_word() == name);
    let header = match section {
        Section::Top => String::new(),
        Section::Interface => "[[interface]]".into(),
        Section::Named(table) => match TABLE.iter().find(|s| s.table() == Some(table)) {
            Some(setting) if setting.place == TablePlace::Repeated => format!("[[{table}]]"),
            _ => format!("[{table}]"),
        },
    };
    match elsewhere {
        Some(setting) if setting.table().is_none() && setting.place != TablePlace::Repeated => {
            if setting.key == "name" {
                return "`name` is for interfaces in tables [[interface]]".into();
            }
            return format!(
                "`{name}` stands below {header} and is read as part of it; move it to the top of the \
                 file, above the first line in brackets"
            );
        }
        Some(Setting { place: TablePlace::Stack, .. }) => {
            let table = elsewhere.and_then(Setting::table).unwrap_or_default();
            return format!(
                "`{name}` belongs into the table [{table}]; write {table}.{name} = … here, or [{table}] above it"
            );
        }
        _ => {}
    }
    let known = || section.settings().map(Setting::last_word);
    let tables = || TABLE.iter().filter_map(Setting::table).chain(["interface"]);
    let hint = match section {
        Section::Top => did_you_mean(name, known().chain(tables())),
        _ => did_you_mean(name, known()),
    };
    let hint = hint.unwrap_or_else(|| match section {
        Section::Top => "docs/settings.md lists the settings".into(),
        _ => format!("use {}", known().collect::<Vec<_>>().join(", ")),
    });
    format!("unknown key `{name}`; {hint}")
}

/// A value of another type than the setting's: the mistake, and what to write.
fn wrong_type(setting: &Setting, kind: Kind, found: &DeValue<'_>, raw: &str) -> String {
    let word = setting.last_word();
    let (what, unquoted) = match found {
        DeValue::String(text) => ("text", Some(text.to_string())),
        DeValue::Integer(_) | DeValue::Float(_) => ("a number", None),
        DeValue::Boolean(_) => ("true or false", None),
        DeValue::Datetime(_) => ("a date", None),
        DeValue::Array(_) if setting.is_list => ("a list in a list", None),
        DeValue::Array(_) => ("a list", None),
        DeValue::Table(_) => ("a table", None),
    };
    let remedy = match unquoted {
        Some(text) if value::check(kind, &text).is_ok() => {
            format!("write {word} = {text}, without quotes")
        }
        _ if kind.is_text() && value::check(kind, raw).is_ok() => {
            format!("write {word} = \"{raw}\", in quotes")
        }
        _ if kind == Kind::Endpoint => match value::check(kind, raw) {
            Err(problem) if raw.parse::<u16>().is_ok() => problem,
            _ => format!("write {word} = {}", setting.example),
        },
        _ => format!("give {kind}, such as {word} = {}", setting.example),
    };
    format!("it is {what}; {remedy}")
}

/// The mistake in the value of a line that is not TOML, if the line is one of a setting; with the
/// byte at which the value begins.
fn value_at_fault(line: &str) -> Option<(usize, String)> {
    let (key, rest) = line.split_once('=')?;
    let value = rest.trim();
    let at = line.len() - rest.trim_start().len();
    let key = key.trim();
    let last = key.rsplit('.').next().unwrap_or(key);
    let setting = TABLE.iter().find(|s| !s.key.is_empty() && s.last_word() == last)?;
    let example = setting.example;
    let text = value.split('#').next().unwrap_or(value).trim();
    let message = match value.chars().next() {
        None | Some('#') => format!("{key} has no value; write {key} = {example}"),
        Some(quote @ ('"' | '\'')) if value.matches(quote).count() == 1 => {
            let text = text.trim_matches(quote);
            format!("{key} = {value}: the quote is not closed; write {key} = {quote}{text}{quote}")
        }
        Some('"' | '\'' | '{') => return None,
        Some('[') => format!("{key} = {value}: it is not a list; write {key} = {example}"),
        Some(_) if setting.kind.is_text() || setting.kind == Kind::Cores => {
            format!("{key} = {value}: text is in quotes; write {key} = \"{text}\"")
        }
        Some(_) => format!("{key} = {value}: it is not {}; write {key} = {example}", setting.kind),
    };
    Some((at, message))
}

/// A value as messages repeat it: one line, and not a long one.
fn shortened(raw: &str) -> String {
    let line = raw.lines().next().unwrap_or_default();
    match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into(),
    }
}
