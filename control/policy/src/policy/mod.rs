//! Policy files: TOML, read into the planner's [`Document`].
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
//! Text takes three steps: the TOML parser recovers from syntax errors, `decode` reads the parsed text
//! into a document, and `check` compares the classes with each other. Each step goes on after a
//! mistake, so that one run reports all of them.

mod check;
mod decode;
mod objective;
mod section;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use decode::{Searches, TrustedApp};

use weever_plan::embed::Host;
use weever_plan::flow::{AppId, Flow};
use weever_plan::policy::{Classifier, Document, Policy};
use weever_suggest::did_you_mean;

use crate::flows::FlowSpec;
use crate::{Problem, Problems};

/// A policy without mistakes, ready to classify flows.
#[derive(Clone, Debug)]
pub struct CheckedPolicy {
    /// The classes, with their packets.
    pub document: Document,
    /// Made from the document once; classifying a flow parses nothing.
    pub classifier: Classifier,
    /// The names of applications; their numbers are their positions.
    pub apps: Vec<String>,
    /// How often each application may ask for a search.
    pub searches: Searches,
    /// The same for applications whose class has limits of its own, by their names.
    pub searches_of: BTreeMap<String, Searches>,
    /// Applications that work in the frames of their queue's packets.
    pub trusted: Vec<TrustedApp>,
    /// Whether each worker runs only the part of the graph that its queues need.
    pub simplify: bool,
    /// Settings that are allowed but probably mistakes.
    pub warnings: Problems,
}

/// Reads and checks a policy.
///
/// # Errors
/// All mistakes: invalid TOML, unknown settings, values of the wrong type or out of range, filters that
/// cannot be parsed or that no packet matches, and classes that contradict each other.
pub fn parse(text: &str) -> Result<CheckedPolicy, Problems> {
    let decoded = decode::decode(text);
    let (mut errors, warnings) = check::check(&decoded);
    let decode::Decoded {
        document,
        apps,
        searches,
        searches_of,
        trusted,
        simplify,
        errors: earlier,
        ..
    } = decoded;
    earlier.first.into_iter().for_each(|problem| errors.add(problem));
    if !errors.is_empty() {
        errors.first.sort_by_key(|problem| problem.place);
        return Err(errors);
    }
    let classifier = document.classifier();
    Ok(CheckedPolicy {
        document,
        classifier,
        apps,
        searches,
        searches_of,
        trusted,
        simplify,
        warnings,
    })
}

impl CheckedPolicy {
    /// The cost function for a planner. `host` has the graph that counts if the policy says so
    /// (`[paths]`).
    pub fn cost_function(&self, host: Option<&Host<'_>>) -> Box<dyn Policy> {
        self.document.policy(host)
    }

    /// Flows that the policy itself needs, beside registered ones: the classes that it drops.
    pub fn standing_flows(&self) -> Vec<Flow> {
        self.document.standing_flows(&self.classifier)
    }

    /// Gives each flow its class, weight and application. A flow that names a class belongs to it;
    /// others belong to the first class that has all of their packets, of their application or of none. A flow that names an unknown
    /// class gets the class of its packets, and is reported.
    pub fn classify(&mut self, specs: impl IntoIterator<Item = FlowSpec>) -> (Vec<Flow>, Problems) {
        let mut problems = Problems::default();
        let flows = specs.into_iter().map(|spec| self.classify_one(spec, &mut problems));
        (flows.collect(), problems)
    }

    fn classify_one(&mut self, spec: FlowSpec, problems: &mut Problems) -> Flow {
        let mut flow = Flow::of(spec.name, spec.parts);
        flow.app = spec.app.map(|app| AppId(decode::app_number(&mut self.apps, &app)));
        self.classifier.classify(&mut flow);
        if let Some(name) = &spec.class {
            match self.document.class_of(name) {
                Some((class, weight)) => {
                    (flow.class, flow.weight) = (class, weight);
                    flow.yields = self.classifier.yields(&flow);
                }
                None => {
                    let known = self.document.classes.iter().map(|class| class.name.as_str());
                    let help = did_you_mean(name, known)
                        .unwrap_or_else(|| "add it to the policy, or leave out `class=`".into());
                    let message = format!("there is no class `{name}`");
                    problems.add(Problem::new(spec.place, message).help(help));
                }
            }
        }
        flow.weight = flow.weight.saturating_mul(spec.weight).clamp(1, Flow::MAX_WEIGHT);
        flow.rate = spec.rate;
        flow.core = spec.core;
        flow
    }
}
