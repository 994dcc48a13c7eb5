//! Decodes TOML into a document. Mistakes are collected, and a wrong setting is read as if absent.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};
use weever_plan::flow::{AppId, Conj, Flow};
use weever_plan::policy::{
    Class, CoreLocality, Dedication, Document, PathCosts, QueueMode, Queues, Sharing, SharingMode,
};

use super::objective::{objective, only_setting};
use super::section::{Reader, Section, Value};
use crate::{Position, Problem, Problems, filter};

/// More classes than this are no policy that anyone has written.
const MAX_CLASSES: usize = 1024;
/// No NIC has more queues.
pub(super) const MAX_QUEUES: i64 = 65_536;
/// More workers than any machine has cores for.
const MAX_THREADS: i64 = 4096;

/// The most tokens that a policy may set.
const MAX_TOKENS: i64 = 1_000_000;

const TOP: [&str; 9] = [
    "objective",
    "assumed_rate",
    "class",
    "dedicate",
    "locality",
    "paths",
    "sharing",
    "searches",
    "simplify",
];
const CLASS: [&str; 11] = [
    "name",
    "match",
    "app",
    "queues",
    "weight",
    "priority",
    "objective",
    "mode",
    "drop",
    "ordered",
    "searches",
];

/// How often an application may ask for a search: each takes a token. Written as `[searches]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searches {
    /// The tokens that an application has at first, and the most that it saves up. With 0 it may not
    /// ask.
    pub tokens: u32,
    /// The tokens that it gets in a minute.
    pub refill: u32,
}

impl Default for Searches {
    fn default() -> Searches {
        Searches { tokens: 4, refill: 6 }
    }
}

/// A document as it was read, which may have mistakes.
pub(super) struct Decoded {
    pub(super) document: Document,
    pub(super) apps: Vec<String>,
    pub(super) searches: Searches,
    /// The limits of applications whose class has limits of its own.
    pub(super) searches_of: BTreeMap<String, Searches>,
    pub(super) trusted: Vec<TrustedApp>,
    pub(super) simplify: bool,
    pub(super) errors: Problems,
    /// The positions of the classes.
    pub(super) classes: Vec<ClassPositions>,
    pub(super) dedications: Vec<Position>,
}

/// An application that has a queue to itself, and works in the frames of its packets if it is one of these users'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedApp {
    /// Its name.
    pub app: String,
    /// Its queue.
    pub queue: u32,
    /// The users, by number.
    pub users: Vec<u32>,
}

/// The positions of a class's settings.
pub(super) struct ClassPositions {
    pub(super) name: Position,
    pub(super) matches: Position,
    pub(super) queues: Position,
    pub(super) drop: Position,
    pub(super) ordered: Position,
}

/// Reads all that can be read of a policy.
pub(super) fn decode(text: &str) -> Decoded {
    let mut reader = Reader::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    errors.iter().for_each(|error| reader.syntax(error));
    let mut top = Section::new(&mut reader, table.get_ref(), table.span(), "a policy", &TOP);
    let mut document = Document {
        objective: objective(&mut top).unwrap_or_default(),
        assumed_rate: top
            .get("assumed_rate")
            .and_then(|value| top.number("assumed_rate", value, 0..=i64::MAX))
            .map(|rate| rate as u64),
        ..Document::default()
    };
    let simplify = top.flag_or("simplify", true);
    let classes = tables(&mut top, "class", true);
    let dedications = tables(&mut top, "dedicate", true);
    let locality = tables(&mut top, "locality", false);
    let paths = tables(&mut top, "paths", false);
    let sharing = tables(&mut top, "sharing", false);
    let searches = tables(&mut top, "searches", false);
    let mut places = (Vec::new(), Vec::new());
    let (mut apps, mut trusted) = (Vec::new(), Vec::new());
    let mut searches_of = BTreeMap::new();
    for (number, table) in classes.into_iter().enumerate() {
        let (class, place, tokens) = class(&mut reader, number, table, &mut apps);
        if let Some(table) = tokens {
            let app = class.app.and_then(|app| apps.get(app.0 as usize)).cloned();
            let searches = self::searches(&mut reader, table);
            searches_of.extend(app.map(|app| (app, searches)));
        }
        document.classes.push(class);
        places.0.push(place);
    }
    for table in dedications {
        if let Some((app, queue, users, place)) = dedication(&mut reader, table) {
            if !users.is_empty() {
                trusted.push(TrustedApp { app: app.to_owned(), queue, users });
            }
            document.dedicate.push(Dedication { app: app_number(&mut apps, app), queue });
            places.1.push(place);
        }
    }
    document.locality = locality.into_iter().next().map(|table| self::locality(&mut reader, table));
    document.paths = paths.into_iter().next().map(|table| self::paths(&mut reader, table));
    document.sharing = sharing.into_iter().next().map(|table| self::sharing(&mut reader, table));
    let searches = searches.into_iter().next().map(|table| self::searches(&mut reader, table));
    let searches = searches.unwrap_or_default();
    let (classes, dedications) = places;
    Decoded {
        document,
        apps,
        searches,
        searches_of,
        trusted,
        simplify,
        errors: reader.errors,
        classes,
        dedications,
    }
}

/// A table of the policy with its position.
type Table<'d> = (&'d DeTable<'d>, std::ops::Range<usize>);

/// The tables of a name: any number with `[[name]]`, or one with `[name]`.
fn tables<'d>(top: &mut Section<'_, '_, 'd>, key: &str, is_list: bool) -> Vec<Table<'d>> {
    let Some(value) = top.get(key) else { return Vec::new() };
    let entries: Vec<&Value<'d>> = match value.get_ref() {
        DeValue::Array(list) if is_list => list.iter().collect(),
        DeValue::Table(_) if !is_list => vec![value],
        _ => Vec::new(),
    };
    let found: Vec<_> =
        entries.iter().filter_map(|e| Some((e.get_ref().as_table()?, e.span()))).collect();
    if found.len() != entries.len() || (entries.is_empty() && !is_empty_list(value)) {
        let header = if is_list { format!("[[{key}]]") } else { format!("[{key}]") };
        top.mistyped(key, value, &format!("its settings below the header `{header}`"));
    }
    if found.len() > MAX_CLASSES {
        let message = format!("there are more than {MAX_CLASSES} tables `[[{key}]]`");
        top.reader.wrong(&value.span(), message, "join classes by `or` in their `match`");
        return Vec::new();
    }
    found
}

fn is_empty_list(value: &Value<'_>) -> bool {
    value.get_ref().as_array().is_some_and(|list| list.is_empty())
}

/// A class, and its application's tokens.
fn class<'d>(
    reader: &mut Reader<'_>,
    number: usize,
    (table, span): Table<'d>,
    apps: &mut Vec<String>,
) -> (Class, ClassPositions, Option<Table<'d>>) {
    let mut section = Section::new(reader, table, span, "a class", &CLASS);
    let name = section.required("name", "`name = \"…\"`");
    let name = name.and_then(|value| section.text("name", value)).map(str::to_owned);
    section.name = match &name {
        Some(name) => format!("class `{name}`"),
        None => format!("class number {}", number + 1),
    };
    let app = section.get("app").and_then(|value| section.text("app", value));
    let app = app.map(|app| AppId(app_number(apps, app)));
    let packets = match (section.get("match"), app) {
        // All packets, restricted to the application's flows.
        (None, Some(_)) => vec![Conj::all()],
        _ => section
            .required("match", "`match = \"udp dst port 53\"` or `app = \"kv\"`")
            .map(|value| packets(&mut section, value))
            .unwrap_or_default(),
    };
    let tokens = section.get("searches").and_then(|value| tokens_of(&mut section, value));
    let class = Class {
        // Its absence was reported; two such classes are not two of one name.
        name: name.unwrap_or_else(|| format!("number {}", number + 1)),
        packets,
        app,
        queues: queues(&mut section),
        weight: section.number_or("weight", 1, 1..=i64::from(Flow::MAX_WEIGHT)) as u32,
        priority: section.number_or("priority", 0, i32::MIN.into()..=i32::MAX.into()) as i32,
        objective: objective(&mut section),
        mode: mode(&mut section),
        drop: section.flag_or("drop", false),
        ordered: section.flag_or("ordered", false),
    };
    let places = ClassPositions {
        name: section.place_of("name"),
        matches: section.place_of(if section.get("match").is_some() { "match" } else { "app" }),
        queues: section.place_of("queues"),
        drop: section.place_of("drop"),
        ordered: section.place_of("ordered"),
    };
    (class, places, tokens)
}

/// The table of an application's own tokens.
fn tokens_of<'d>(section: &mut Section<'_, '_, 'd>, value: &'d Value<'d>) -> Option<Table<'d>> {
    let Some(table) = value.get_ref().as_table() else {
        section.mistyped("searches", value, "`searches = { tokens = 10, refill = 60 }`");
        return None;
    };
    if section.get("app").is_none() {
        let message = format!("{} has `searches`, but no application that could ask", section.name);
        section.reader.wrong(&value.span(), message, "add `app`, or write a table `[searches]`");
    }
    Some((table, value.span()))
}

/// The packets of a class; none if the filter is wrong.
fn packets(section: &mut Section<'_, '_, '_>, value: &Value<'_>) -> Vec<Conj> {
    let Some(text) = value.get_ref().as_str() else {
        section.mistyped("match", value, "a filter in quotation marks: `match = \"udp\"`");
        return Vec::new();
    };
    match filter::parse(text).and_then(|predicate| filter::packets(&predicate)) {
        Ok(packets) => packets,
        Err(error) => {
            let message = format!("the filter of {}: {}", section.name, error.message);
            let help = "write a pcap-filter about packets, as `udp dst port 53`";
            let help = error.help.unwrap_or_else(|| help.into());
            section.reader.wrong(&value.span(), message, help);
            Vec::new()
        }
    }
}

fn queues(section: &mut Section<'_, '_, '_>) -> Queues {
    let Some(value) = section.get("queues") else { return Queues::Shared };
    let message = format!("{} has no queue at all", section.name);
    let help = "give it one, or write `queues = \"shared\"`";
    match (value.get_ref().as_str(), only_setting(value)) {
        (Some("shared"), _) => return Queues::Shared,
        (_, Some(("exclusive", count))) => match section.number("exclusive", count, 0..=MAX_QUEUES)
        {
            Some(0) => section.reader.wrong(&count.span(), message, help),
            count => return Queues::Exclusive(count.unwrap_or(1) as u32),
        },
        (_, Some(("only", list))) => {
            let before = section.reader.errors.count();
            let queues = section.numbers("only", list, 0..=MAX_QUEUES - 1);
            if !queues.is_empty() {
                return Queues::Only(queues.into_iter().map(|queue| queue as u32).collect());
            }
            if section.reader.errors.count() == before {
                section.reader.wrong(&list.span(), message, help);
            }
        }
        (Some(_), _) => section.unknown_word("queues", value, &["shared"]),
        _ => section.mistyped(
            "queues",
            value,
            "`\"shared\"`, `{ exclusive = 2 }` or `{ only = [0, 1] }`",
        ),
    }
    Queues::Shared
}

fn mode(section: &mut Section<'_, '_, '_>) -> Option<QueueMode> {
    let value = section.get("mode")?;
    match section.text("mode", value)? {
        "busy" => Some(QueueMode::Busy),
        "adaptive" => Some(QueueMode::Adaptive),
        "interrupt" => Some(QueueMode::Interrupt),
        _ => {
            section.unknown_word("mode", value, &["busy", "adaptive", "interrupt"]);
            None
        }
    }
}

fn dedication<'d>(
    reader: &mut Reader<'_>,
    (table, span): Table<'d>,
) -> Option<(&'d str, u32, Vec<u32>, Position)> {
    let known = ["app", "queue", "trusted"];
    let mut section = Section::new(reader, table, span.clone(), "a dedication", &known);
    let app = section.required("app", "the application's name, as `app = \"kv\"`");
    let app = app.and_then(|value| section.text("app", value));
    let queue = section.required("queue", "the application's queue, as `queue = 5`");
    let queue = queue.and_then(|value| section.number("queue", value, 0..=MAX_QUEUES - 1));
    let users = section.get("trusted");
    let users = users.map(|value| section.numbers("trusted", value, 0..=u32::MAX.into()));
    let users = users.into_iter().flatten().map(|user| user as u32).collect();
    Some((app?, queue? as u32, users, section.reader.place(&span)))
}

fn locality(reader: &mut Reader<'_>, (table, span): Table<'_>) -> CoreLocality {
    let mut section = Section::new(reader, table, span, "[locality]", &["cores", "weight"]);
    let cores = section.required("cores", "the core of each queue's worker, as `cores = [0, 2]`");
    let cores = cores.map(|value| section.numbers("cores", value, 0..=u16::MAX.into()));
    CoreLocality {
        cores: cores.unwrap_or_default().into_iter().map(|core| core as u16).collect(),
        weight: section.number_or("weight", 1, 0..=u32::MAX.into()) as u32,
    }
}

fn paths(reader: &mut Reader<'_>, (table, span): Table<'_>) -> PathCosts {
    let known = ["weight", "crossing", "nodes"];
    let mut section = Section::new(reader, table, span, "[paths]", &known);
    let PathCosts { weight, crossing, .. } = PathCosts::default();
    let mut nodes = BTreeMap::new();
    if let Some(value) = section.get("nodes") {
        match value.get_ref().as_table() {
            None => section.mistyped("nodes", value, "costs by name: `nodes = { RxL4UDP = 3 }`"),
            Some(table) => {
                for (name, cost) in table {
                    let name = name.get_ref().as_ref();
                    if let Some(cost) = section.number(name, cost, 0..=u32::MAX.into()) {
                        nodes.insert(name.to_owned(), cost as u32);
                    }
                }
            }
        }
    }
    PathCosts {
        weight: section.number_or("weight", weight.into(), 0..=u32::MAX.into()) as u32,
        crossing: section.number_or("crossing", crossing.into(), 0..=u32::MAX.into()) as u32,
        nodes,
    }
}

fn sharing(reader: &mut Reader<'_>, (table, span): Table<'_>) -> Sharing {
    const MODES: [&str; 3] = ["shared", "scale-out", "auto"];
    let mut section =
        Section::new(reader, table, span, "[sharing]", &["mode", "threads", "ordered"]);
    let value = section.required("mode", "`mode = \"shared\"`, `\"scale-out\"` or `\"auto\"`");
    let mode = match value.and_then(|value| Some((section.text("mode", value)?, value))) {
        Some(("shared", _)) => SharingMode::Shared,
        Some(("auto", _)) => SharingMode::Auto,
        Some(("scale-out", _)) | None => SharingMode::ScaleOut,
        Some((_, value)) => {
            section.unknown_word("mode", value, &MODES);
            SharingMode::ScaleOut
        }
    };
    let threads = section.get("threads");
    let threads = threads.and_then(|value| section.number("threads", value, 1..=MAX_THREADS));
    let ordered = section.flag_or("ordered", false);
    Sharing { mode, threads: threads.map(|threads| threads as u16), ordered }
}

fn searches(reader: &mut Reader<'_>, (table, span): Table<'_>) -> Searches {
    let mut section = Section::new(reader, table, span, "[searches]", &["tokens", "refill"]);
    let Searches { tokens, refill } = Searches::default();
    Searches {
        tokens: section.number_or("tokens", tokens.into(), 0..=MAX_TOKENS) as u32,
        refill: section.number_or("refill", refill.into(), 1..=MAX_TOKENS) as u32,
    }
}

/// A mistake of the document's own, for `check`.
pub(super) fn problem(place: Position, message: String, help: impl Into<String>) -> Problem {
    Problem::new(place, message).help(help.into())
}

/// The number of an application, which it gets the first time that it is named.
pub(super) fn app_number(apps: &mut Vec<String>, name: &str) -> u32 {
    let known = apps.iter().position(|app| app == name);
    let at = known.unwrap_or_else(|| {
        apps.push(name.to_string());
        apps.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}
