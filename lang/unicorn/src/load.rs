//! From a file's text to a graph, with everything found on the way.

use std::fmt::{Display, Formatter};

use weever_graph::{Finding, Graph, Severity, verify_unconfigured};

use crate::diagnostic::{Diagnostic, has_errors};
use crate::{lower, parse, render};

/// A graph, with the diagnostics of its text.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The graph, not configured yet.
    pub graph: Graph,
    /// Warnings and notes.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why a text is no graph. Its `Display` shows each error in its source, over several lines.
#[derive(Clone, Debug)]
pub struct Errors {
    /// The findings, at least one error.
    pub diagnostics: Vec<Diagnostic>,
    source: String,
    file: String,
}

impl Display for Errors {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&render(&self.diagnostics, &self.source, &self.file))
    }
}

impl std::error::Error for Errors {}

/// Parses, lowers and checks a text, without the checks that need configured nodes. `file` names it in
/// messages; nothing is read from there.
///
/// # Errors
/// All errors of the first of the three steps that fails.
pub fn load(source: &str, file: &str) -> Result<Loaded, Errors> {
    let (ast, mut diagnostics) = parse(source);
    if !has_errors(&diagnostics) {
        let graph = lower::lower_into(&ast, &mut diagnostics);
        if !has_errors(&diagnostics) {
            diagnostics.extend(verify_unconfigured(&graph).iter().map(Diagnostic::from));
        }
        diagnostics.sort_by_key(|d| d.span.start);
        if !has_errors(&diagnostics) {
            return Ok(Loaded { graph, diagnostics });
        }
    }
    diagnostics.retain(|d| d.severity == Severity::Error);
    Err(Errors { diagnostics, source: source.into(), file: file.into() })
}

impl From<&Finding> for Diagnostic {
    /// Puts a finding of verification where its node was written.
    fn from(finding: &Finding) -> Diagnostic {
        let span = finding.span.start as usize..finding.span.end as usize;
        let diagnostic = Diagnostic::new(finding.severity(), span, finding.message.clone());
        diagnostic.help(finding.remedy.clone())
    }
}
