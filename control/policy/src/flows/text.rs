//! Flows as lines.

use weever_plan::flow::Conj;

use super::settings::{Settings, is_setting};
use super::{FlowList, FlowSpec, tuple};
use crate::filter::{self, FilterError};
use crate::{Position, Problem};

/// No flow takes a longer line.
const MAX_LINE: usize = 8192;

pub(super) fn parse(bytes: &[u8]) -> FlowList {
    let mut out = FlowList::default();
    for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let place = Position::Line(i + 1);
        if line.len() > MAX_LINE {
            let message = format!("the line is longer than {MAX_LINE} bytes");
            out.take(Err(Problem::new(place, message)));
            continue;
        }
        match std::str::from_utf8(line) {
            Err(_) => out.take(Err(Problem::new(place, "the line is no UTF-8 text"))),
            Ok(text) => {
                let text = without_comment(text).trim();
                if !text.is_empty() {
                    out.take(flow(text, place));
                }
            }
        }
    }
    out
}

/// `#` starts a comment where a word could start.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if c == '#' && before.is_whitespace() {
            return &line[..at];
        }
        before = c;
    }
    line
}

fn flow(text: &str, place: Position) -> Result<FlowSpec, Problem> {
    let mut settings = Settings::default();
    let mut expression = text;
    // Settings come last.
    while let Some(word) = expression.split_whitespace().next_back().filter(|w| is_setting(w)) {
        settings.take(word).map_err(|(message, help)| Problem::new(place, message).help(help))?;
        expression = expression[..expression.len() - word.len()].trim_end();
    }
    if expression.is_empty() {
        let help = "write a filter or a five-tuple before the settings".to_string();
        return Err(Problem::new(place, "the line says not which packets").help(help));
    }
    spec(expression, settings, place)
}

/// A flow of an expression and its settings.
pub(super) fn spec(
    expression: &str,
    settings: Settings,
    place: Position,
) -> Result<FlowSpec, Problem> {
    let name = settings.name.unwrap_or_else(|| expression.to_string());
    Ok(FlowSpec {
        place,
        name,
        parts: parts(expression, place)?,
        rate: settings.rate,
        class: settings.class,
        app: settings.app,
        core: settings.core,
        weight: settings.weight.unwrap_or(1),
    })
}

/// The packets of a five-tuple or a filter. It is a mistake to mean none.
fn parts(expression: &str, place: Position) -> Result<Vec<Conj>, Problem> {
    let predicate = match tuple::parse(expression) {
        Some(tuple) => tuple.map_err(|message| Problem::new(place, message))?,
        None => filter::parse(expression).map_err(|e| no_filter(e, place))?,
    };
    filter::packets(&predicate).map_err(|e| no_filter(e, place))
}

fn no_filter(error: FilterError, place: Position) -> Problem {
    Problem::new(place, error.message).help(error.help)
}
