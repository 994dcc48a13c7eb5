//! The findings of the checks, or the reason why they could not be made.

use std::path::PathBuf;
use std::{fmt, io};

/// Findings in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Which command it is of.
    command: &'static str,
    failures: Vec<Finding>,
    warnings: Vec<Finding>,
}

#[derive(Debug)]
struct Finding {
    check: &'static str,
    place: String,
    message: String,
}

impl Findings {
    /// An empty report of the command.
    pub(crate) fn new(command: &'static str) -> Self {
        Self { command, ..Self::default() }
    }

    /// A broken rule: the command will fail.
    pub(crate) fn fail(
        &mut self,
        check: &'static str,
        place: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.failures.push(Finding { check, place: place.into(), message: message.into() });
    }

    /// Something to look at before it breaks a rule.
    pub(crate) fn warn(
        &mut self,
        check: &'static str,
        place: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.warnings.push(Finding { check, place: place.into(), message: message.into() });
    }

    pub(crate) fn failed(&self) -> bool {
        !self.failures.is_empty()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (severity, findings) in [("warning", &self.warnings), ("FAILED", &self.failures)] {
            for Finding { check, place, message } in findings {
                writeln!(f, "{severity} [{check}] {place}: {message}")?;
            }
        }
        let (failures, warnings) = (self.failures.len(), self.warnings.len());
        writeln!(f, "xtask {}: {failures} failures, {warnings} warnings", self.command)
    }
}

#[cfg(test)]
impl Findings {
    /// `check place: message` of each failure.
    pub(crate) fn failures(&self) -> Vec<String> {
        Self::lines(&self.failures)
    }

    /// `check place: message` of each warning.
    pub(crate) fn warnings(&self) -> Vec<String> {
        Self::lines(&self.warnings)
    }

    fn lines(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(|f| format!("{} {}: {}", f.check, f.place, f.message)).collect()
    }
}

/// The checks did not run to their end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error("cannot run `{command}`: {source}")]
    Start { command: String, source: io::Error },
    #[error("`{command}` failed: {stderr}")]
    Command { command: String, stderr: String },
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot restrict system calls: {0}")]
    Filter(#[from] seccompiler::Error),
    #[error("{path} is invalid: {message}")]
    Parse { path: PathBuf, message: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_fail() {
        let mut report = Findings::default();
        report.warn("size", "a.rs", "is long");
        assert!(!report.failed());
        report.fail("unsafe", "b.rs", "is bold");
        assert!(report.failed());
        let text = report.to_string();
        assert!(text.contains("warning [size] a.rs: is long"), "{text}");
        assert!(text.contains("FAILED [unsafe] b.rs: is bold"), "{text}");
        assert!(text.ends_with("1 failures, 1 warnings\n"), "{text}");
    }
}
