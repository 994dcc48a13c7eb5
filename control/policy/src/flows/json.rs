//! Flows as JSON.

use serde::Deserialize;
use serde_json::Value;

use super::settings::{self, Settings};
use super::{FlowList, FlowSpec, text};
use crate::{Position, Problem};

/// A flow's object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    #[serde(rename = "match")]
    matches: String,
    rate: Option<Rate>,
    class: Option<String>,
    app: Option<String>,
    core: Option<u16>,
    weight: Option<u32>,
    name: Option<String>,
}

/// A number, or text as lines have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Rate {
    Number(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    flows: Vec<Value>,
}

pub(super) fn parse(bytes: &[u8]) -> FlowList {
    let mut out = FlowList::default();
    match entries(bytes) {
        Ok(entries) => {
            for (i, entry) in entries.into_iter().enumerate() {
                out.take(flow(entry, Position::Entry(i + 1)));
            }
        }
        Err(problem) => out.problems.add(problem),
    }
    out
}

fn entries(bytes: &[u8]) -> Result<Vec<Value>, Problem> {
    let object = bytes.trim_ascii_start().starts_with(b"{");
    let read = match object {
        true => serde_json::from_slice::<Wrapped>(bytes).map(|w| w.flows),
        false => serde_json::from_slice::<Vec<Value>>(bytes),
    };
    read.map_err(|e| {
        let help = "a list of objects is expected, or an object whose `flows` is one".to_string();
        Problem::new(Position::Line(e.line().max(1)), format!("this is no list of flows: {e}"))
            .help(help)
    })
}

fn flow(entry: Value, place: Position) -> Result<FlowSpec, Problem> {
    let object: Object =
        serde_json::from_value(entry).map_err(|e| Problem::new(place, e.to_string()))?;
    let problem = |(message, help): settings::SettingError| Problem::new(place, message).help(help);
    let rate = match object.rate {
        None => None,
        Some(Rate::Number(rate)) => Some(rate),
        Some(Rate::Text(text)) => Some(settings::rate(&text).map_err(problem)?),
    };
    let weight = object.weight.map(settings::weight).transpose().map_err(problem)?;
    let Object { class, app, core, name, .. } = object;
    text::spec(object.matches.trim(), Settings { rate, class, app, core, weight, name }, place)
}
