//! Diagnostics as people read them: with the source line and a mark under it.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use weever_graph::Severity;

use crate::Diagnostic;

/// A text with more mistakes than this is no Unicorn text.
const MAX_SHOWN: usize = 64;
/// Longer lines are not shown under their diagnostics.
const MAX_LINE: usize = 2_000;

/// Shows diagnostics without colours, in their order. `file` names the source.
pub fn render(diagnostics: &[Diagnostic], source: &str, file: &str) -> String {
    let renderer = Renderer::plain().decor_style(DecorStyle::Ascii);
    render_with(&renderer, diagnostics, source, file)
}

/// The same text with colours, for a terminal.
pub fn render_styled(diagnostics: &[Diagnostic], source: &str, file: &str) -> String {
    render_with(&Renderer::styled(), diagnostics, source, file)
}

fn render_with(
    renderer: &Renderer,
    diagnostics: &[Diagnostic],
    source: &str,
    file: &str,
) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics.iter().take(MAX_SHOWN) {
        out.push_str(&render_one(renderer, diagnostic, source, file));
        out.push('\n');
    }
    if diagnostics.len() > MAX_SHOWN {
        let more = diagnostics.len() - MAX_SHOWN;
        out.push_str(&format!("{more} more are not shown; mend these first\n"));
    }
    out
}

fn render_one(renderer: &Renderer, diagnostic: &Diagnostic, source: &str, file: &str) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let span = within(source, &diagnostic.span);
    let related = diagnostic.related.as_ref().map(|(span, label)| (within(source, span), label));
    if crowded(source, &span) || related.as_ref().is_some_and(|(span, _)| crowded(source, span)) {
        return without_source(diagnostic, source, file);
    }
    let mark = AnnotationKind::Primary.span(span).label(diagnostic.label.as_str());
    let mut snippet = Snippet::source(source).path(file).annotation(mark);
    if let Some((span, label)) = related {
        let mark = AnnotationKind::Context.span(span).label(label.as_str());
        snippet = snippet.annotation(mark);
    }
    let mut group = level.primary_title(diagnostic.message.as_str()).element(snippet);
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    renderer.render(&[group])
}

/// Whether the span's lines are too long to be shown.
fn crowded(source: &str, span: &Range<usize>) -> bool {
    let before = source[..span.start].rfind('\n').map_or(span.start, |n| span.start - n);
    let after = source[span.start..].find('\n').unwrap_or(source.len() - span.start);
    before + after.max(span.len()) > MAX_LINE
}

fn without_source(diagnostic: &Diagnostic, source: &str, file: &str) -> String {
    let before = &source[..within(source, &diagnostic.span).start];
    let line = before.matches('\n').count() + 1;
    let column = before.len() - before.rfind('\n').map_or(0, |n| n + 1) + 1;
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let help = diagnostic.help.as_ref().map(|h| format!("\n  = help: {h}")).unwrap_or_default();
    format!("{severity}: {}\n --> {file}:{line}:{column}{help}", diagnostic.message)
}

/// The span, moved onto the source and its character boundaries.
fn within(source: &str, span: &Range<usize>) -> Range<usize> {
    let floor = |at: usize| source.floor_char_boundary(at.min(source.len()));
    let start = floor(span.start);
    start..floor(span.end).max(start)
}
