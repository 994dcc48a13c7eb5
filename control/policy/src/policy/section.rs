//! Reading a table of TOML: every mistake is noted with its line, and reading goes on.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weever_suggest::did_you_mean;

use crate::{Position, Problem, Problems};

/// A value with its position.
pub(super) type Value<'d> = Spanned<DeValue<'d>>;

/// The text of a policy, and the mistakes found in it so far.
pub(super) struct Reader<'t> {
    lines: Vec<&'t str>,
    /// The offset at which each line starts.
    starts: Vec<usize>,
    /// Lines with a syntax error. Other faults there follow from it.
    broken: Vec<usize>,
    pub(super) errors: Problems,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Reader<'t> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        let lines = text.split('\n').collect();
        Reader { lines, starts, broken: Vec::new(), errors: Problems::default() }
    }

    /// Notes a syntax error; of several on a line the first.
    pub(super) fn syntax(&mut self, error: &toml::de::Error) {
        let line = error.span().map_or(1, |span| self.line(span.start));
        if self.broken.contains(&line) {
            return;
        }
        self.broken.push(line);
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        let help = remedy(self.lines.get(line - 1).copied().unwrap_or_default());
        self.errors.add(Problem::new(Position::Line(line), message).help(help));
    }

    /// The line of an offset, counted from 1.
    fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).max(1)
    }

    pub(super) fn place(&self, span: &Range<usize>) -> Position {
        Position::Line(self.line(span.start))
    }

    pub(super) fn wrong(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if !self.broken.contains(&self.line(span.start)) {
            let place = self.place(span);
            self.errors.add(Problem::new(place, message).help(help.into()));
        }
    }

    /// Whether a syntax error lies between the header at `span` and the next one: then a setting that
    /// seems to be missing may be on the broken line.
    fn is_broken_below(&self, span: &Range<usize>) -> bool {
        let header = self.line(span.start);
        let below = self.lines.iter().skip(header);
        let length = below.take_while(|line| !line.trim_start().starts_with('[')).count();
        self.broken.iter().any(|line| (header..=header + length + 1).contains(line))
    }
}

/// The text to write instead of a line that is no TOML.
fn remedy(line: &str) -> String {
    let line = line.split('#').next().unwrap_or_default().trim();
    let value = line.split_once('=').map(|(_, value)| value.trim());
    if line.starts_with('[') {
        "write a header as `[[class]]` or `[locality]`".into()
    } else if line.matches('"').count() % 2 == 1 {
        "close the quotation mark on the same line".into()
    } else if value.is_some_and(|v| v.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')) {
        "put text in quotation marks: `match = \"udp dst port 53\"`".into()
    } else if line.matches(['{', '[']).count() != line.matches(['}', ']']).count() {
        "close each `{` with `}` and each `[` with `]`".into()
    } else {
        "write one `setting = value` per line".into()
    }
}

/// A table whose settings are read in turn.
pub(super) struct Section<'r, 't, 'd> {
    pub(super) reader: &'r mut Reader<'t>,
    table: &'d DeTable<'d>,
    span: Range<usize>,
    /// The name used in messages, as `class `gold``.
    pub(super) name: String,
}

impl<'r, 't, 'd> Section<'r, 't, 'd> {
    /// A table that may have these settings; others are reported.
    pub(super) fn new(
        reader: &'r mut Reader<'t>,
        table: &'d DeTable<'d>,
        span: Range<usize>,
        name: &str,
        known: &[&str],
    ) -> Section<'r, 't, 'd> {
        for (key, _) in table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
            let given = key.get_ref().as_ref();
            let all = || format!("{name} has the settings {}", known.join(", "));
            let help = did_you_mean(given, known.iter().copied()).unwrap_or_else(all);
            reader.wrong(&key.span(), format!("{name} has no setting `{given}`"), help);
        }
        Section { reader, table, span, name: name.into() }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'d Value<'d>> {
        self.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, value)| value)
    }

    /// Where the setting stands, or the section if it is not there.
    pub(super) fn place_of(&self, key: &str) -> Position {
        let span = self.get(key).map_or(self.span.clone(), Spanned::span);
        self.reader.place(&span)
    }

    /// A required setting.
    pub(super) fn required(&mut self, key: &str, example: &str) -> Option<&'d Value<'d>> {
        let value = self.get(key);
        if value.is_none() && !self.reader.is_broken_below(&self.span) {
            let (message, help) =
                (format!("{} has no `{key}`", self.name), format!("add {example}"));
            let span = self.span.clone();
            self.reader.wrong(&span, message, help);
        }
        value
    }

    /// Notes that a setting has a value of the wrong type.
    pub(super) fn mistyped(&mut self, key: &str, value: &Value<'_>, example: &str) {
        let found = match value.get_ref().type_str() {
            word @ ("integer" | "array") => format!("an {word}"),
            word => format!("a {word}"),
        };
        let message = format!("`{key}` of {} cannot be {found}", self.name);
        self.reader.wrong(&value.span(), message, format!("write {example}"));
    }

    /// Text.
    pub(super) fn text(&mut self, key: &str, value: &'d Value<'d>) -> Option<&'d str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.mistyped(key, value, &format!("text in quotation marks: `{key} = \"…\"`"));
        }
        text
    }

    /// A whole number within bounds.
    pub(super) fn number(
        &mut self,
        key: &str,
        value: &Value<'_>,
        within: RangeInclusive<i64>,
    ) -> Option<i64> {
        let (least, most) = (within.start(), within.end());
        let help = format!("a number from {least} to {most}");
        let Some(integer) = value.get_ref().as_integer() else {
            self.mistyped(key, value, &help);
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let valid = number.filter(|number| within.contains(number));
        if valid.is_none() {
            let message = format!("`{key}` of {} cannot be {integer}", self.name);
            self.reader.wrong(&value.span(), message, format!("write {help}"));
        }
        valid
    }

    /// A whole number that has a default.
    pub(super) fn number_or(
        &mut self,
        key: &str,
        default: i64,
        within: RangeInclusive<i64>,
    ) -> i64 {
        let value = self.get(key);
        value.and_then(|value| self.number(key, value, within)).unwrap_or(default)
    }

    /// `true` or `false`.
    pub(super) fn flag_or(&mut self, key: &str, default: bool) -> bool {
        let Some(value) = self.get(key) else { return default };
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.mistyped(key, value, "`true` or `false`");
        }
        flag.unwrap_or(default)
    }

    /// A list of whole numbers.
    pub(super) fn numbers(
        &mut self,
        key: &str,
        value: &'d Value<'d>,
        within: RangeInclusive<i64>,
    ) -> Vec<i64> {
        let Some(list) = value.get_ref().as_array() else {
            self.mistyped(key, value, "a list of numbers, as `[0, 1]`");
            return Vec::new();
        };
        list.iter().filter_map(|entry| self.number(key, entry, within.clone())).collect()
    }

    /// Reports a word that the setting does not accept.
    pub(super) fn unknown_word(&mut self, key: &str, value: &Value<'_>, known: &[&str]) {
        let given = value.get_ref().as_str().unwrap_or_default();
        let all = || format!("write one of {}", known.join(", "));
        let help = did_you_mean(given, known.iter().copied()).unwrap_or_else(all);
        let message = format!("`{key}` of {} cannot be `{given}`", self.name);
        self.reader.wrong(&value.span(), message, help);
    }
}
