//! Facts that can be read off a file's tokens without their structure.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;

/// Lines and words, in tests too.
#[derive(Default)]
pub(super) struct Words {
    pub(super) code_lines: BTreeSet<usize>,
    pub(super) unsafe_lines: Vec<usize>,
    pub(super) clock_lines: Vec<(usize, String)>,
    /// Every name with its line, except where it is defined.
    pub(super) mentions: Vec<(usize, String)>,
}

/// The words before a name that is being defined.
const DEFINING: [&str; 9] =
    ["const", "enum", "fn", "mod", "static", "struct", "trait", "type", "union"];

impl Words {
    pub(super) fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            let rest = &tokens[index..];
            if let Some(length) = documentation(rest) {
                index += length;
                continue;
            }
            if let Some(call) = clock_call(rest) {
                self.clock_lines.push((token.span().start().line, call));
            }
            self.read_one(token);
            let before = index.checked_sub(1).map(|before| &tokens[before]);
            if let TokenTree::Ident(name) = token
                && !before.is_some_and(defines_next)
            {
                self.mentions.push((name.span().start().line, name.unraw().to_string()));
            }
            index += 1;
        }
    }

    fn read_one(&mut self, token: &TokenTree) {
        match token {
            TokenTree::Group(group) => {
                self.mark(group.span_open());
                self.read(group.stream());
                self.mark(group.span_close());
            }
            other => self.mark(other.span()),
        }
        if matches!(token, TokenTree::Ident(word) if word == "unsafe") {
            self.unsafe_lines.push(token.span().start().line);
        }
    }

    fn mark(&mut self, span: Span) {
        self.code_lines.extend(lines(span));
    }
}

pub(super) fn lines(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

fn defines_next(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(word) if DEFINING.iter().any(|defining| word == defining))
}

/// How many tokens a documentation comment takes, which the lexer turns into `#[doc = …]`.
fn documentation(tokens: &[TokenTree]) -> Option<usize> {
    let is = |token: Option<&TokenTree>, symbol| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == symbol);
    let inner = usize::from(is(tokens.get(1), '!'));
    let Some(TokenTree::Group(group)) = tokens.get(1 + inner) else { return None };
    let first = group.stream().into_iter().next();
    let is_doc = matches!(first, Some(TokenTree::Ident(word)) if word == "doc");
    let brackets = group.delimiter() == Delimiter::Bracket;
    (is(tokens.first(), '#') && brackets && is_doc).then_some(2 + inner)
}

/// `Instant::now` and `SystemTime::now`.
fn clock_call(tokens: &[TokenTree]) -> Option<String> {
    let [TokenTree::Ident(clock), _, _, TokenTree::Ident(method), ..] = tokens else {
        return None;
    };
    let call = format!("{clock}::{method}");
    ["Instant::now", "SystemTime::now"].contains(&call.as_str()).then_some(call)
}
