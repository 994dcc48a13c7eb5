//! The output of a benchmark, or the reason why there is none.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use weever_ebpf::sys::BpfError;

use crate::{Samples, Summary};

/// One line of results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The measured quantity.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The middle sample.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// The results of one benchmark, in the format that `--json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Which benchmark.
    pub bench: String,
    /// The set-up, in words: cores, queues, modes. A reader needs it to believe the figures.
    pub setup: Vec<String>,
    /// Every figure with its spread, ratios included.
    pub rows: Vec<Row>,
    /// The figures that have a name elsewhere (docs, targets): medians of paired ratios.
    pub ratios: BTreeMap<String, f64>,
}

impl Report {
    /// An empty report.
    pub fn new(bench: &str) -> Report {
        Report { bench: bench.into(), ..Report::default() }
    }

    /// Adds a line about the set-up.
    pub fn setup(&mut self, line: impl Into<String>) {
        self.setup.push(line.into());
    }

    /// Adds a row.
    pub fn row(&mut self, name: &str, unit: &str, samples: &Samples) -> Summary {
        let summary = samples.summary();
        let Summary { median, min, max } = summary;
        self.rows.push(Row { name: name.into(), unit: unit.into(), median, min, max });
        summary
    }

    /// Adds a named figure: a row with its spread, and its median under `ratios`. Without a single
    /// sample it is left out of `ratios`, rather than shown as nought.
    pub fn ratio(&mut self, key: &str, unit: &str, samples: &Samples) {
        let summary = self.row(key, unit, samples);
        if !samples.0.is_empty() {
            self.ratios.insert(key.into(), summary.median);
        }
    }

    /// The report as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and finite numbers serialise")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "bench {}", self.bench)?;
        for line in &self.setup {
            writeln!(f, "  {line}")?;
        }
        let width = self.rows.iter().map(|r| r.name.len()).max().unwrap_or(0).max(4);
        writeln!(f, "{:width$}  {:>10}  {:>10}  {:>10}  unit", "name", "median", "min", "max")?;
        for Row { name, unit, median, min, max } in &self.rows {
            writeln!(f, "{name:width$}  {median:>10.3}  {min:>10.3}  {max:>10.3}  {unit}")?;
        }
        Ok(())
    }
}

/// An error of a benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The benchmark needs rights that the process has not.
    #[error("bench {0} needs CAP_NET_ADMIN and CAP_BPF: run it as root")]
    Rights(&'static str),
    /// The benchmark needs more cores.
    #[error("bench {bench} needs two cores, this process may use {cores}")]
    Cores {
        /// Which benchmark.
        bench: &'static str,
        /// How many there are.
        cores: usize,
    },
    /// The test network could not be built.
    #[error("test network: {0}")]
    Network(#[from] weever_testbed::Error),
    /// A BPF program or map was refused.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// A contender could not be set up or failed on the way.
    #[error("{contender}: {problem}")]
    Contender {
        /// Which one.
        contender: &'static str,
        /// The failure.
        problem: String,
    },
}

impl BenchError {
    /// Wraps a contender's error.
    pub(crate) fn of<E: std::fmt::Display>(contender: &'static str) -> impl Fn(E) -> BenchError {
        move |e| BenchError::Contender { contender, problem: e.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_promised_shape() {
        let mut report = Report::new("rx");
        report.row("weever", "Mpps", &Samples(vec![4.0]));
        report.ratio("rx_vs_recvmmsg", "ratio", &Samples(vec![4.5, 4.4]));
        report.ratio("nothing", "ratio", &Samples::default());
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["bench"], "rx");
        assert_eq!(json["rows"][0]["median"], 4.0);
        assert_eq!(json["ratios"]["rx_vs_recvmmsg"], 4.45);
        assert!(json["ratios"].get("nothing").is_none());
    }
}
