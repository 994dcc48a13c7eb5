//! What the demo found, for people and for machines.

use std::fmt;

use serde::Serialize;

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was tried.
    pub name: String,
    /// What should have happened.
    pub expected: String,
    /// What did.
    pub found: String,
    /// Whether they agree.
    pub ok: bool,
}

/// A counter that moved during the demo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerCount {
    /// The layer: a cluster of the graph, or the link.
    pub layer: String,
    /// What is counted: a node, a port, a drop's reason.
    pub what: String,
    /// How many.
    pub count: u64,
}

/// The whole finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Whether every check agreed.
    pub ok: bool,
    /// How it was set up, in words.
    pub setup: Vec<String>,
    /// The checks, in order.
    pub checks: Vec<Check>,
    /// What happened at each layer.
    pub layers: Vec<LayerCount>,
    /// Where the picture of the graph lies.
    pub picture: Option<String>,
}

impl Outcome {
    /// Records a check that compares two values.
    pub fn compare<T: PartialEq + fmt::Display>(&mut self, name: &str, expected: T, found: T) {
        let ok = expected == found;
        self.record(name, expected.to_string(), found.to_string(), ok);
    }

    /// Records a check.
    pub fn record(&mut self, name: &str, expected: String, found: String, ok: bool) {
        self.checks.push(Check { name: name.into(), expected, found, ok });
        self.ok = self.checks.iter().all(|c| c.ok);
    }
}

impl Outcome {
    /// The outcome as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers serialise")
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.setup {
            writeln!(f, "{line}")?;
        }
        let width = self.checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
        writeln!(f)?;
        for check in &self.checks {
            let mark = if check.ok { "ok    " } else { "FAILED" };
            write!(f, "  {mark}  {:width$}  {}", check.name, check.found)?;
            match check.ok {
                true => writeln!(f)?,
                false => writeln!(f, "  (expected {})", check.expected)?,
            }
        }
        self.write_layers(f)?;
        if let Some(picture) = &self.picture {
            writeln!(f, "\nthe graph with its counters: {picture}")?;
        }
        writeln!(f, "\n{}", if self.ok { "All went well." } else { "Something FAILED." })
    }
}

impl Outcome {
    fn write_layers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.layers.is_empty() {
            return Ok(());
        }
        let what = self.layers.iter().map(|l| l.what.len()).max().unwrap_or(0).max(4);
        let layer = self.layers.iter().map(|l| l.layer.len()).max().unwrap_or(0).max(5);
        writeln!(f, "\n  {:layer$}  {:what$}  {:>9}", "layer", "what", "packets")?;
        let mut last = "";
        for LayerCount { layer: name, what: text, count } in &self.layers {
            let shown = if name == last { "" } else { name };
            writeln!(f, "  {shown:layer$}  {text:what$}  {count:>9}")?;
            last = name;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_fails_the_whole() {
        let mut outcome = Outcome::default();
        outcome.compare("a", 1, 1);
        assert!(outcome.ok);
        outcome.compare("b", 1, 2);
        outcome.compare("c", 3, 3);
        assert!(!outcome.ok);
        let text = outcome.to_string();
        assert!(text.contains("FAILED  b  2  (expected 1)"), "{text}");
    }
}
