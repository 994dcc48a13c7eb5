//! The faults of a text, with their places and remedies.

use std::ops::Range;

use weever_graph::Severity;

/// One thing found in a Unicorn text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The place, in bytes of the source.
    pub span: Range<usize>,
    /// The fault, in one sentence.
    pub message: String,
    /// The thing at `span`, in a few words; may be empty.
    pub label: String,
    /// The remedy.
    pub help: Option<String>,
    /// Another place that has to do with it.
    pub related: Option<(Range<usize>, String)>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, span, message.into())
    }

    /// A warning at `span`.
    pub fn warning(span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, span, message.into())
    }

    /// A note at `span`.
    pub fn note(span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Note, span, message.into())
    }

    pub(crate) fn new(severity: Severity, span: Range<usize>, message: String) -> Diagnostic {
        Diagnostic { severity, span, message, label: String::new(), help: None, related: None }
    }

    /// The same diagnostic with a label.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// The same diagnostic with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// The same diagnostic with another place.
    #[must_use]
    pub fn related(mut self, span: Range<usize>, label: impl Into<String>) -> Diagnostic {
        self.related = Some((span, label.into()));
        self
    }

    pub(crate) fn maybe_help(mut self, help: Option<String>) -> Diagnostic {
        self.help = help.or(self.help);
        self
    }
}

/// Whether any of them is an error.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}
