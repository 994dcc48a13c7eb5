//! The parser's place in the text, and the smallest things it reads. SMT-LIB bodies are kept as text; only
//! their parentheses are checked.

use std::ops::Range;

use crate::Diagnostic;
use crate::ast::{Comment, Comments, Ident, Loc, Raw, Reference, Text};
use crate::comments::CommentStream;
use crate::token::{Kind, Token, Tokens, is_reserved};

pub(super) struct Parser<'s> {
    pub(super) source: &'s str,
    tokens: Vec<Token>,
    /// The end of the run of plain words that starts at each token.
    words_end: Vec<usize>,
    at: usize,
    comments: CommentStream<'s>,
    diagnostics: Vec<Diagnostic>,
    /// The number of open clusters.
    pub(super) depth: usize,
}

impl<'s> Parser<'s> {
    pub(super) fn new(source: &'s str, tokens: Tokens) -> Parser<'s> {
        let comments = CommentStream::new(source, tokens.comments);
        let diagnostics = tokens.diagnostics;
        let tokens = tokens.tokens;
        let words_end = words_end(source, &tokens);
        Parser { source, tokens, words_end, at: 0, comments, diagnostics, depth: 0 }
    }

    /// The faults found, in the order of the text.
    pub(super) fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|d| d.span.start);
        self.diagnostics
    }

    pub(super) fn kind(&self) -> Kind {
        self.tokens[self.at].kind
    }

    /// The kind of the token after `skip` others; [`Kind::End`] past the last one.
    pub(super) fn ahead(&self, skip: usize) -> Kind {
        self.tokens.get(self.at + skip).map_or(Kind::End, |t| t.kind)
    }

    pub(super) fn here(&self) -> Range<usize> {
        self.tokens[self.at].span.clone()
    }

    /// The word here, reserved or not.
    pub(super) fn word(&self) -> Option<&'s str> {
        (self.kind() == Kind::Word).then(|| &self.source[self.here()])
    }

    /// Goes past the token here and returns its place. Stays at the end.
    pub(super) fn bump(&mut self) -> Range<usize> {
        let span = self.here();
        if self.kind() != Kind::End {
            self.at += 1;
        }
        span
    }

    pub(super) fn bump_if(&mut self, kind: Kind) -> bool {
        let found = self.kind() == kind;
        if found {
            self.bump();
        }
        found
    }

    /// Goes on to the first token that starts at `offset` or later.
    pub(super) fn advance_to(&mut self, offset: usize) {
        while self.kind() != Kind::End && self.here().start < offset {
            self.bump();
        }
    }

    /// Whether the words that start here end at a bracket or brace.
    pub(super) fn words_lead_to_bracket(&self) -> bool {
        let after = self.words_end[self.at];
        let at = if self.tokens[after].kind == Kind::Word { after + 1 } else { after };
        let kind = self.tokens.get(at).map_or(Kind::End, |t| t.kind);
        matches!(kind, Kind::BracketOpen | Kind::BraceOpen)
    }

    /// Whether a line ended between the last token and this one.
    pub(super) fn starts_line(&self) -> bool {
        self.source[self.last_end()..self.here().start].contains('\n')
    }

    /// The end of the last token.
    pub(super) fn last_end(&self) -> usize {
        self.at.checked_sub(1).map_or(0, |last| self.tokens[last].span.end)
    }

    pub(super) fn comments_before_here(&mut self) -> Vec<Comment> {
        let here = self.here().start;
        self.comments.before(here)
    }

    pub(super) fn comments_before_last(&mut self) -> Vec<Comment> {
        let end = self.last_end();
        let mut comments = self.comments.before(end);
        comments.iter_mut().for_each(|c| c.gap = false);
        comments
    }

    /// Gives the comments inside and right after the item that just ended.
    pub(super) fn finish(&mut self, comments: &mut Comments) {
        let end = self.last_end();
        self.comments.finish(comments, end);
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub(super) fn error_here(&mut self, message: &str, help: Option<String>) {
        let last = self.last_end();
        let (span, label) = match self.kind() {
            Kind::End => (last..last, "the text ends here"),
            _ => (self.here(), "found this"),
        };
        self.report(Diagnostic::error(span, message).label(label).maybe_help(help));
    }

    /// The same for something that was expected to stand on the line of the last token.
    pub(super) fn error_after(&mut self, message: &str, help: Option<String>) {
        let last = self.last_end();
        if !self.starts_line() {
            return self.error_here(message, help);
        }
        let error = Diagnostic::error(last..last, message).label("before the line ends");
        self.report(error.maybe_help(help));
    }

    pub(super) fn expect(&mut self, kind: Kind, message: &str) -> Option<Range<usize>> {
        if self.kind() == kind {
            return Some(self.bump());
        }
        self.error_after(message, None);
        None
    }

    /// A name that is no reserved word. A reserved word in the place of a name is reported and taken.
    pub(super) fn name(&mut self, what: &str) -> Option<Ident> {
        let Some(word) = self.word() else {
            self.error_after(&format!("expected {what}"), None);
            return None;
        };
        if is_reserved(word) {
            let message = format!("`{word}` is a reserved word, it cannot be {what}");
            self.error_here(&message, None);
            let as_name = [Kind::BraceOpen, Kind::BracketOpen, Kind::BracketClose, Kind::Text];
            if !as_name.contains(&self.ahead(1)) {
                return None;
            }
        }
        let loc = Loc::from(self.bump());
        Some(Ident { name: word.into(), loc })
    }

    pub(super) fn reference(&mut self) -> Option<Reference> {
        let start = self.here().start;
        let mut dots = 0;
        while self.bump_if(Kind::Dot) {
            dots += 1;
        }
        let name = self.name("a node's name")?;
        Some(Reference { dots, loc: Loc { start, end: name.loc.end }, name: name.name })
    }

    pub(super) fn text(&mut self, what: &str) -> Option<Text> {
        let span = self.expect(Kind::Text, &format!("expected {what} in double quotes"))?;
        Some(Text { value: unescape(&self.source[span.clone()]), loc: Loc::from(span) })
    }

    pub(super) fn raw(&mut self, what: &str) -> Option<Raw> {
        self.expect(Kind::BraceOpen, &format!("expected `{{` after `{what}`"))?;
        let span = self.expect(Kind::Raw, "expected an SMT-LIB script")?;
        let script = &self.source[span.clone()];
        if let Err(at) = balanced(script) {
            let span = span.start + at..span.start + at + 1;
            self.report(Diagnostic::error(span, "this parenthesis has no partner"));
        }
        let missing = format!("expected `}}` at the end of `{what}`");
        self.expect(Kind::BraceClose, &missing)?;
        Some(Raw { text: dedent(script), loc: Loc::from(span) })
    }

    pub(super) fn open(&mut self, what: &str) -> bool {
        let help = format!("the body of a {what} stands in braces");
        if self.kind() == Kind::BraceOpen {
            self.bump();
            return true;
        }
        self.error_after("expected `{`", Some(help));
        false
    }

    /// The brace that closes the body of `name`. If it is missing, nothing is taken.
    pub(super) fn close(&mut self, name: &Ident, what: &str) {
        if self.bump_if(Kind::BraceClose) {
            return;
        }
        let end = self.last_end();
        let message = format!("expected `}}` to close the {what} `{}`", name.name);
        let error = Diagnostic::error(end..end, message).label("before this point");
        self.report(error.related(name.loc.range(), format!("the {what} starts here")));
    }

    /// Goes past a brace group, a bracket and its contents, or one other token.
    pub(super) fn skip_one(&mut self) {
        if self.bump_if(Kind::BracketOpen) {
            let ends = [Kind::BracketClose, Kind::BraceOpen, Kind::BraceClose, Kind::End];
            while !ends.contains(&self.kind()) {
                self.bump();
            }
            self.bump_if(Kind::BracketClose);
            return;
        }
        let mut open = 0usize;
        loop {
            match self.kind() {
                Kind::BraceOpen => open += 1,
                Kind::BraceClose => open = open.saturating_sub(1),
                Kind::End => return,
                _ => {}
            }
            self.bump();
            if open == 0 {
                return;
            }
        }
    }
}

fn words_end(source: &str, tokens: &[Token]) -> Vec<usize> {
    let mut ends: Vec<usize> = (0..tokens.len()).collect();
    for i in (0..tokens.len().saturating_sub(1)).rev() {
        if tokens[i].kind == Kind::Word && !is_reserved(&source[tokens[i].span.clone()]) {
            ends[i] = ends[i + 1];
        }
    }
    ends
}

/// The value of a string token. An unfinished one has no closing quote.
fn unescape(token: &str) -> String {
    let mut out = String::new();
    let mut chars = token.chars().skip(1);
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(escaped @ ('"' | '\\')) => out.push(escaped),
                other => out.extend(std::iter::once('\\').chain(other)),
            },
            _ => out.push(c),
        }
    }
    out
}

/// Whether every parenthesis has a partner; if not, where the first one without is.
pub(super) fn balanced(script: &str) -> Result<(), usize> {
    let mut open = Vec::new();
    let mut quote: Option<u8> = None;
    for (at, byte) in script.bytes().enumerate() {
        match (quote, byte) {
            (Some(end), _) if byte == end => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'|') => quote = Some(byte),
            (None, b';') => quote = Some(b'\n'),
            (None, b'(') => open.push(at),
            (None, b')') => {
                open.pop().ok_or(at)?;
            }
            (None, _) => {}
        }
    }
    open.first().map_or(Ok(()), |at| Err(*at))
}

/// The text without surrounding white space and without the indentation its lines share.
pub(super) fn dedent(script: &str) -> String {
    let own_first_line = script.trim_start_matches([' ', '\t', '\r']).starts_with('\n');
    let mut lines: Vec<&str> = script.lines().map(str::trim_end).collect();
    if !own_first_line && let Some(first) = lines.first_mut() {
        *first = first.trim_start();
    }
    let from = lines.iter().position(|l| !l.is_empty()).unwrap_or(lines.len());
    let until = lines.iter().rposition(|l| !l.is_empty()).map_or(from, |last| last + 1);
    let lines = &lines[from..until];
    let shared = shared_indent(lines, own_first_line || from > 0);
    let cut = |line: &&str| line.chars().skip(indent(line).min(shared)).collect::<String>();
    lines.iter().map(cut).collect::<Vec<_>>().join("\n")
}

fn shared_indent(lines: &[&str], first_counts: bool) -> usize {
    let counted = lines.iter().skip(usize::from(!first_counts)).filter(|l| !l.is_empty());
    counted.map(|l| indent(l)).min().unwrap_or(0)
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_outside_quotes_and_comments_have_partners() {
        assert_eq!(balanced("(= |(| \")\") ; )\n"), Ok(()));
        assert_eq!(balanced("(a (b)"), Err(0));
        assert_eq!(balanced("a)"), Err(1));
    }

    #[test]
    fn shared_indentation_is_cut() {
        assert_eq!(dedent(" (= a b) "), "(= a b)");
        assert_eq!(dedent("\n    (a\n      b)\n\n    (c)\n  "), "(a\n  b)\n\n(c)");
        assert_eq!(dedent("(a\n      b)"), "(a\nb)");
        assert_eq!(dedent("  \n "), "");
    }
}
