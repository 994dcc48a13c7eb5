//! The work of a device for the host's graph, as it is shown.

use serde_json::{Value, json};
use weever_graph::Predicate;
use weever_plan::nic::Vouched;
use weever_unicorn::predicate::PredicateText;

/// What a device does for the host's graph.
pub(crate) struct Work {
    /// The names of the features that have to be on for it.
    pub(super) needs: Vec<String>,
    pub(super) vouched: Vouched,
}

impl Work {
    /// A line for each kind; nothing if the device does nothing.
    pub(crate) fn lines(&self, nic: &str) -> String {
        let line = |what: &str, facts: &[Predicate]| {
            let facts: Vec<String> =
                facts.iter().map(|fact| PredicateText(fact).to_string()).collect();
            listed(what, &facts)
        };
        let text = line("holds of all that is received", &self.vouched.always)
            + &line("of packets that it says so of", &self.vouched.each)
            + &line("filled in when sent", &self.vouched.filled)
            + &listed("features that have to be on", &self.needs);
        if text.is_empty() { text } else { format!("\nthe work of {nic}:\n{text}") }
    }

    /// The same for programs.
    pub(crate) fn value(&self) -> Value {
        let texts = |facts: &[Predicate]| {
            facts.iter().map(|fact| PredicateText(fact).to_string()).collect::<Vec<_>>()
        };
        let Vouched { always, each, filled } = &self.vouched;
        json!({
            "always": texts(always),
            "each": texts(each),
            "filled": texts(filled),
            "features": self.needs,
        })
    }
}

fn listed(what: &str, words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!("{what}: {}\n", words.join(", ")) }
}
