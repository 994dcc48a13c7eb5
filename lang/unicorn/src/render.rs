//! Diagnostics as people read them: with the source line and a mark under it.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use weever_graph::Severity;

use crate::Diagnostic;

/// Shows diagnostics without colours, in their order. `file` names the source.
pub fn render(diagnostics: &[Diagnostic], source: &str, file: &str) -> String {
    let renderer = Renderer::plain().decor_style(DecorStyle::Ascii);
    render_with(&renderer, diagnostics, source, file)
}

/// The same with colours, for a terminal.
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
    for diagnostic in diagnostics {
        out.push_str(&render_one(renderer, diagnostic, source, file));
        out.push('\n');
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
    let mark = AnnotationKind::Primary.span(span).label(diagnostic.label.as_str());
    let mut snippet = Snippet::source(source).path(file).annotation(mark);
    if let Some((span, label)) = &diagnostic.related {
        let mark = AnnotationKind::Context.span(within(source, span)).label(label.as_str());
        snippet = snippet.annotation(mark);
    }
    let mut group = level.primary_title(diagnostic.message.as_str()).element(snippet);
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    renderer.render(&[group])
}

/// The span, moved onto the source and its character boundaries.
fn within(source: &str, span: &Range<usize>) -> Range<usize> {
    let floor = |at: usize| source.floor_char_boundary(at.min(source.len()));
    let start = floor(span.start);
    start..floor(span.end).max(start)
}
