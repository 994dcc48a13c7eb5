//! The outcome of the demo, and the reasons why it could not be given.

use std::fmt;

use serde::Serialize;
use weever_service_api::ClientError;

use crate::peer::PeerError;

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The result was as expected.
    Ok,
    /// It found something else, met an error, or did not end in time.
    Failed,
    /// This machine cannot do it; the reason is in [`Check::found`].
    Skipped,
}

impl Verdict {
    /// For people, in seven characters at most.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Failed => "FAILED",
            Verdict::Skipped => "skipped",
        }
    }
}

/// One step of the demo.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The step's title.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
    /// The expected result.
    pub expected: String,
    /// The actual result, or the reason for skipping.
    pub found: String,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Check {
    /// The line behind the name of a step that has ended.
    pub fn verdict_line(&self) -> String {
        let Check { verdict, expected, found, seconds, .. } = self;
        let name = verdict.name();
        match verdict {
            Verdict::Skipped => format!("{name:7}  {found}"),
            Verdict::Failed if !expected.is_empty() => {
                format!("{name:7}  {found}, expected {expected}  ({seconds:.2} s)")
            }
            _ => format!("{name:7}  {found}  ({seconds:.2} s)"),
        }
    }
}

/// A counter that moved during the demo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerCount {
    /// The layer: a cluster of the graph, or the link.
    pub layer: String,
    /// The counted thing: a node, a port, a drop's reason.
    pub what: String,
    /// How many.
    pub count: u64,
}

/// The whole finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Whether every step was tried or skipped, and none failed.
    pub ok: bool,
    /// Why the demo ended before its last step.
    pub ended_early: Option<String>,
    /// How it was set up, in words.
    pub setup: Vec<String>,
    /// The steps, in order.
    pub checks: Vec<Check>,
    /// The packets of each layer.
    pub layers: Vec<LayerCount>,
    /// Path of the picture of the graph.
    pub picture: Option<String>,
}

impl Outcome {
    /// How many steps ended so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }

    /// The outcome as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers serialise")
    }
}

/// The text after the steps, which were shown while they ran: the layers, the picture and a
/// summary.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_layers(f)?;
        if let Some(picture) = &self.picture {
            writeln!(f, "\nthe graph with its counters: {picture}")?;
        }
        if let Some(why) = &self.ended_early {
            writeln!(f, "\nEnded early: {why}.")?;
        }
        let [ok, failed, skipped] =
            [Verdict::Ok, Verdict::Failed, Verdict::Skipped].map(|verdict| self.count(verdict));
        let failed = if failed == 0 { "none failed".into() } else { format!("{failed} FAILED") };
        writeln!(f, "\nsteps: {ok} ok, {failed}, {skipped} skipped")
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

/// An error of the demo.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The peer could not do its part.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The stack's control socket did not answer.
    #[error("control socket: {0}")]
    Control(#[from] ClientError),
    /// The test network could not be built.
    #[error("test network: {0}")]
    Network(#[from] weever_testbed::Error),
    /// The stack did not start.
    #[error("{0}")]
    Start(String),
    /// The picture of the graph could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Where to.
        path: String,
        /// The system's word.
        source: std::io::Error,
    },
}

impl DemoError {
    /// Makes one from the reason why a stack did not start.
    pub(crate) fn start(why: impl std::fmt::Display) -> DemoError {
        DemoError::Start(why.to_string())
    }
}
