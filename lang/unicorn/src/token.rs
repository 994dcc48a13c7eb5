//! From text to tokens. Comments are kept apart; SMT-LIB bodies are one token each.

use std::ops::Range;

use logos::{Lexer, Logos};

use crate::Diagnostic;

/// The kind of a token.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n\f\u{feff}]+")]
pub(crate) enum Kind {
    #[token("{")]
    BraceOpen,
    #[token("}")]
    BraceClose,
    #[token("[")]
    BracketOpen,
    #[token("]")]
    BracketClose,
    #[token(".")]
    Dot,
    #[token(",")]
    Comma,
    #[token(";")]
    Semicolon,
    #[regex(r"[()<>:|]|-?[0-9]+")]
    OfType,
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*")]
    Word,
    #[regex(r#""([^"\\\n]|\\[^\n])*""#)]
    Text,
    #[regex(r#""([^"\\\n]|\\[^\n])*"#)]
    OpenText,
    #[regex(r"//[^\n]*", allow_greedy = true)]
    LineComment,
    #[token("/*", block_comment)]
    BlockComment,
    /// The inside of `{ … }` after `helpers` or `semantics`.
    Raw,
    /// Past the last token.
    End,
}

fn block_comment(lexer: &mut Lexer<Kind>) {
    let rest = lexer.remainder();
    lexer.bump(rest.find("*/").map_or(rest.len(), |end| end + 2));
}

/// Words that cannot be names.
const RESERVED: [&str; 19] = [
    "graph",
    "cluster",
    "node",
    "config",
    "boolean",
    "and",
    "nand",
    "or",
    "nor",
    "port",
    "attr",
    "type",
    "semantics",
    "helpers",
    "spawn",
    "predicate",
    "constraint",
    "implementation",
    "function",
];

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// A token and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Range<usize>,
}

/// The tokens of a text: at least [`Kind::End`].
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<Token>,
    pub(crate) comments: Vec<Range<usize>>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Never fails: text that is no token is reported and skipped.
pub(crate) fn tokenize(source: &str) -> Tokens {
    let mut out = Tokens { tokens: Vec::new(), comments: Vec::new(), diagnostics: Vec::new() };
    let mut lexer = Kind::lexer(source);
    let mut raw_body = false;
    while let Some(result) = lexer.next() {
        let span = lexer.span();
        let Ok(kind) = result else {
            out.stray(source, span);
            continue;
        };
        out.accept(source, kind, span.clone());
        raw_body = match (kind, &source[span]) {
            (Kind::Word, "helpers" | "semantics") => true,
            (Kind::Word, word) if is_reserved(word) => false,
            (Kind::Word | Kind::LineComment | Kind::BlockComment, _) => raw_body,
            (Kind::BraceOpen, _) if raw_body => {
                out.raw(&mut lexer);
                false
            }
            _ => false,
        };
    }
    out.push(Kind::End, source.len()..source.len());
    out
}

impl Tokens {
    fn push(&mut self, kind: Kind, span: Range<usize>) {
        self.tokens.push(Token { kind, span });
    }

    fn accept(&mut self, source: &str, kind: Kind, span: Range<usize>) {
        match kind {
            Kind::LineComment => self.comments.push(span),
            Kind::BlockComment => {
                if !source[span.clone()].ends_with("*/") || span.len() < 4 {
                    let open = span.start..span.start + 2;
                    let error = Diagnostic::error(open, "this comment does not end");
                    self.diagnostics.push(error.help("close it with `*/`"));
                }
                self.comments.push(span);
            }
            Kind::OpenText => {
                let error = Diagnostic::error(span.clone(), "this string does not end on its line");
                self.diagnostics.push(error.help("close it with `\"`"));
                self.push(Kind::Text, span);
            }
            _ => self.push(kind, span),
        }
    }

    /// One error for a run of characters that no token starts with.
    fn stray(&mut self, source: &str, span: Range<usize>) {
        let last = self.diagnostics.last_mut().filter(|d| d.message.starts_with("unexpected char"));
        match last {
            Some(error) if error.span.end == span.start => error.span.end = span.end,
            _ => {
                let message = format!("unexpected character {:?}", &source[span.clone()]);
                self.diagnostics.push(Diagnostic::error(span, message));
            }
        }
    }

    fn raw(&mut self, lexer: &mut Lexer<Kind>) {
        let start = lexer.span().end;
        let len = smt_len(lexer.remainder());
        self.push(Kind::Raw, start..start + len);
        lexer.bump(len);
    }
}

/// How far an SMT-LIB script reaches, up to the brace that closes it or the end of the text.
/// Braces in strings, quoted symbols and comments do not count.
fn smt_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let skip_to = match bytes[at] {
            b'}' => return at,
            b'"' => b'"',
            b'|' => b'|',
            b';' => b'\n',
            _ => {
                at += 1;
                continue;
            }
        };
        let inside = bytes[at + 1..].iter().position(|b| *b == skip_to);
        at = inside.map_or(bytes.len(), |len| at + len + 2);
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<Kind> {
        tokenize(source).tokens.iter().map(|t| t.kind).collect()
    }

    #[test]
    fn tokens_of_a_port() {
        use Kind::*;
        let expected = [Word, Word, BracketOpen, Dot, Dot, Word, BracketClose, End];
        assert_eq!(kinds("port a[..B]"), expected);
    }

    #[test]
    fn comments_are_kept_apart() {
        let out = tokenize("a /* x \n y */ b // c\nd/**/e");
        assert_eq!(out.tokens.len(), 5);
        assert_eq!(out.comments.len(), 3);
    }

    #[test]
    fn an_smt_body_is_one_token() {
        let source = "semantics p q { (= |}| \"}\") ; }\n } port";
        let out = tokenize(source);
        let raw = out.tokens.iter().find(|t| t.kind == Kind::Raw).unwrap();
        assert_eq!(&source[raw.span.clone()], " (= |}| \"}\") ; }\n ");
        assert_eq!(kinds(source).len(), 8);
    }

    #[test]
    fn unfinished_and_stray_text_is_reported_once() {
        assert_eq!(tokenize("a /* x").diagnostics.len(), 1);
        assert_eq!(tokenize("a /*/").diagnostics.len(), 1);
        assert_eq!(tokenize("attr \"x\nport").diagnostics.len(), 1);
        assert_eq!(tokenize("a §§§§ b").diagnostics.len(), 1);
    }
}
