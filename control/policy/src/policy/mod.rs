//! Policy files: a page of TOML, read into the planner's [`Document`].
//!
//! ```toml
//! objective = "balance"
//!
//! [[class]]
//! name = "premium"
//! match = "udp dst port 11211 and src net 10.0.1.0/24"
//! queues = { exclusive = 4 }
//! priority = 1
//!
//! [[dedicate]]
//! app = "trading"
//! queue = 7
//! ```
//! Every mistake is reported with its line, not only the first.

mod check;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use toml::Spanned;
use weever_plan::policy::{Class, Dedication, Document, Near, NearNodes, Objective};

use crate::{Place, Problem, Problems};

/// A policy that was read, and what there is to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The policy.
    pub document: Document,
    /// The applications that it names; their numbers are their positions.
    pub apps: Vec<String>,
    /// Whether each worker runs only what its queues need of the graph.
    pub simplify: bool,
    /// What is allowed but probably not meant.
    pub doubts: Problems,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    objective: Objective,
    assumed_rate: Option<u64>,
    class: Vec<Spanned<Class>>,
    dedicate: Vec<Spanned<NamedDedication>>,
    locality: Option<Near>,
    paths: Option<NearNodes>,
    simplify: bool,
}

impl Default for File {
    fn default() -> File {
        let (class, dedicate) = (Vec::new(), Vec::new());
        let objective = Objective::default();
        let (locality, paths, simplify) = (None, None, true);
        File { objective, assumed_rate: None, class, dedicate, locality, paths, simplify }
    }
}

/// People call applications by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedDedication {
    app: String,
    queue: u32,
}

/// Reads and checks a policy.
///
/// # Errors
/// Everything that is wrong with it: what is no TOML, unknown settings, filters that cannot be read
/// or that no packet matches, classes that contradict each other.
pub fn parse(text: &str) -> Result<Page, Problems> {
    let file: File = toml::from_str(text).map_err(|e| from_toml(text, &e))?;
    let places = check::Places {
        classes: file.class.iter().map(|c| place(text, c.span().start)).collect(),
        dedications: file.dedicate.iter().map(|d| place(text, d.span().start)).collect(),
    };
    let mut apps = Vec::new();
    let named = file.dedicate.into_iter().map(Spanned::into_inner);
    let dedicate =
        named.map(|d| Dedication { app: app_number(&mut apps, &d.app), queue: d.queue }).collect();
    let document = Document {
        objective: file.objective,
        assumed_rate: file.assumed_rate,
        classes: file.class.into_iter().map(Spanned::into_inner).collect(),
        dedicate,
        locality: file.locality,
        paths: file.paths,
    };
    let (errors, doubts) = check::check(&document, &apps, &places);
    match errors.is_empty() {
        true => Ok(Page { document, apps, simplify: file.simplify, doubts }),
        false => Err(errors),
    }
}

/// The number of an application, which it gets the first time that it is named.
pub(crate) fn app_number(apps: &mut Vec<String>, name: &str) -> u32 {
    let known = apps.iter().position(|a| a == name);
    let at = known.unwrap_or_else(|| {
        apps.push(name.to_string());
        apps.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn place(text: &str, at: usize) -> Place {
    let before = &text.as_bytes()[..at.min(text.len())];
    Place::Line(before.iter().filter(|b| **b == b'\n').count() + 1)
}

fn from_toml(text: &str, error: &toml::de::Error) -> Problems {
    let place = error.span().map_or(Place::File, |span| place(text, span.start));
    let mut problems = Problems::default();
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    problems.add(Problem::new(place, message));
    problems
}
