//! The grammar around the primitives: and, or, not, parentheses, calls, comparisons.

use weever_graph::Predicate;

use super::qualifier::Qualifier;
use super::token::{self, Token};
use super::{PredicateError, fields, labels};

/// Predicates nest no deeper than this.
const MAX_DEPTH: u32 = 64;

/// Reads a predicate in any of the three forms.
///
/// # Errors
/// Where the text stops being a predicate, and why.
pub fn parse(text: &str) -> Result<Predicate, PredicateError> {
    let mut parser = Parser { text, at: 0, depth: 0, last: None, tags: 0 };
    let predicate = parser.expression()?;
    match parser.peek() {
        // The printed form has a parenthesis per level, and must be readable again.
        Token::End if height(&predicate) > MAX_DEPTH => parser.fail(too_deep()),
        Token::End => Ok(predicate),
        _ => parser.fail("expected `and`, `or` or the end of the predicate"),
    }
}

fn too_deep() -> String {
    format!("the predicate nests deeper than {MAX_DEPTH} levels")
}

/// Levels of a predicate; 1 for a single test.
fn height(predicate: &Predicate) -> u32 {
    match predicate {
        Predicate::Not(inner) => 1 + height(inner),
        Predicate::And(parts) | Predicate::Or(parts) => {
            1 + parts.iter().map(height).max().unwrap_or(0)
        }
        _ => 1,
    }
}

#[derive(Clone)]
pub(super) struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: u32,
    /// The keywords of the test before, which a value without keywords has, too.
    pub(super) last: Option<Qualifier<'t>>,
    /// Tags that the tests so far lie behind: the next `vlan` is about the one after them.
    pub(super) tags: u32,
}

pub(super) type ParseResult<T = Predicate> = Result<T, PredicateError>;

impl<'t> Parser<'t> {
    fn rest(&self) -> (&'t str, usize) {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        (trimmed, rest.len() - trimmed.len())
    }

    pub(super) fn peek(&self) -> Token<'t> {
        token::first(self.rest().0).0
    }

    pub(super) fn next(&mut self) -> Token<'t> {
        let (rest, space) = self.rest();
        let (token, len) = token::first(rest);
        self.at += space + len;
        token
    }

    pub(super) fn take(&mut self, wanted: Token) -> bool {
        let found = self.peek() == wanted;
        if found {
            self.next();
        }
        found
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.take(Token::Word(word))
    }

    pub(super) fn fail<T>(&self, message: impl Into<String>) -> ParseResult<T> {
        let at = self.at + self.rest().1;
        Err(PredicateError { at, message: message.into(), help: None })
    }

    pub(super) fn fail_with<T>(&self, message: impl Into<String>, help: &str) -> ParseResult<T> {
        self.fail(message).map_err(|e| PredicateError { help: Some(help.into()), ..e })
    }

    pub(super) fn expect(&mut self, sign: &str) -> ParseResult<()> {
        if self.take(Token::Sign(sign)) { Ok(()) } else { self.fail(format!("expected `{sign}`")) }
    }

    fn expression(&mut self) -> ParseResult {
        self.joined(Parser::negation)
    }

    /// A level deeper, as far as that is allowed.
    pub(super) fn nested(&mut self, inner: impl FnOnce(&mut Self) -> ParseResult) -> ParseResult {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(too_deep());
        }
        let inner = inner(self)?;
        self.depth -= 1;
        Ok(inner)
    }

    /// Operands with `and` and `or` between them.
    pub(super) fn joined(&mut self, operand: impl Fn(&mut Self) -> ParseResult) -> ParseResult {
        self.nested(|parser| {
            let outside = parser.tags;
            let mut all = operand(parser)?;
            let mut open = None;
            let mut changes = 0;
            while let Some(and) = parser.operator() {
                // `a or b and c or d` is a level deeper at each change, without any parenthesis.
                changes += u32::from(open != Some(and));
                if changes > MAX_DEPTH {
                    return parser.fail(too_deep());
                }
                let deepest = parser.tags;
                if !and {
                    parser.tags = outside;
                }
                let right = operand(parser)?;
                parser.tags = parser.tags.max(deepest);
                all = join(all, and, right, open == Some(and));
                open = Some(and);
            }
            Ok(all)
        })
    }

    /// Takes `and` or `or`; returns whether it is `and`.
    fn operator(&mut self) -> Option<bool> {
        let and = match self.peek() {
            Token::Word("and") | Token::Sign("&&" | "&") => true,
            Token::Word("or") | Token::Sign("||" | "|") => false,
            _ => return None,
        };
        self.next();
        Some(and)
    }

    fn negation(&mut self) -> ParseResult {
        let tags = self.tags;
        let mut negations = 0u32;
        while self.take_word("not") || self.take(Token::Sign("!")) {
            negations += 1;
            if negations > MAX_DEPTH {
                return self.fail(too_deep());
            }
        }
        let inner = self.primary()?;
        if negations > 0 {
            self.tags = tags;
        }
        Ok((0..negations).fold(inner, |p, _| Predicate::Not(Box::new(p))))
    }

    fn primary(&mut self) -> ParseResult {
        if self.take(Token::Sign("(")) {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let Token::Word(word) = self.peek() else {
            return self.fail("expected a predicate");
        };
        if let Some(of) = self.last.take()
            && of.continues_with(word)
        {
            return self.values(of);
        }
        let mut ahead = self.clone();
        ahead.next();
        let called = ahead.peek() == Token::Sign("(");
        match word {
            "and" | "or" if called => self.junction(word == "and"),
            "and" | "or" => self.fail(format!("`{word}` stands between two predicates")),
            "pred" if called => self.atom(),
            "true" => self.constant(Predicate::True),
            "false" => self.constant(Predicate::False),
            _ => match fields::field_called(word) {
                Some(field) => {
                    self.next();
                    self.comparison(field)
                }
                None => self.primitive_or_label(word),
            },
        }
    }

    fn constant(&mut self, predicate: Predicate) -> ParseResult {
        self.next();
        Ok(predicate)
    }

    /// `and(a, b, …)` or `or(a, b, …)`.
    fn junction(&mut self, and: bool) -> ParseResult {
        self.next();
        self.expect("(")?;
        let (outside, mut deepest) = (self.tags, self.tags);
        let mut parts = Vec::new();
        while !self.take(Token::Sign(")")) {
            if !parts.is_empty() {
                self.expect(",")?;
            }
            self.last = None;
            self.tags = if and { deepest } else { outside };
            parts.push(self.expression()?);
            deepest = deepest.max(self.tags);
        }
        self.tags = deepest;
        Ok(if and { Predicate::And(parts) } else { Predicate::Or(parts) })
    }

    /// `pred(label,value)`.
    fn atom(&mut self) -> ParseResult {
        self.next();
        self.expect("(")?;
        let label = self.atom_part("a label")?;
        self.expect(",")?;
        let value = self.atom_part("a value")?;
        self.expect(")")?;
        Ok(labels::atom(label, value))
    }

    fn atom_part(&mut self, what: &str) -> ParseResult<&'t str> {
        match self.peek() {
            Token::Word(part) | Token::Quoted(part) => {
                self.next();
                Ok(part)
            }
            _ => self.fail(format!("expected {what}")),
        }
    }

    fn primitive_or_label(&mut self, word: &'t str) -> ParseResult {
        if let Some(primitive) = self.primitive()? {
            return Ok(primitive);
        }
        let label = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        if !label || number {
            let help = "say first what it is, as in `port 53` or `host 10.0.0.1`";
            return self.fail_with(format!("`{word}` alone is no test"), help);
        }
        self.next();
        Ok(labels::bare(word))
    }
}

/// `left and right` or `left or right`; `grows` if `left` is the same operator's result.
fn join(left: Predicate, and: bool, right: Predicate, grows: bool) -> Predicate {
    match (left, and) {
        (Predicate::And(mut parts), true) if grows => {
            parts.push(right);
            Predicate::And(parts)
        }
        (Predicate::Or(mut parts), false) if grows => {
            parts.push(right);
            Predicate::Or(parts)
        }
        (left, true) => Predicate::And(vec![left, right]),
        (left, false) => Predicate::Or(vec![left, right]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::PredicateText;
    use super::*;

    #[test]
    fn depth_is_bounded_however_it_comes_about() {
        let (ands, nots) = ("a and b or ".repeat(30_000), "!".repeat(64));
        let parentheses = "(".repeat(100);
        for text in [format!("{ands}c"), format!("{nots}{nots}a"), format!("{parentheses}a")] {
            assert!(parse(&text).unwrap_err().message.contains("deeper than 64"), "{text:.20}");
        }
        let mixed = format!("{}(!a)", "(!b and ".repeat(20)) + &")".repeat(20);
        let predicate = parse(&mixed).unwrap();
        assert_eq!(parse(&PredicateText(&predicate).to_string()), Ok(predicate));
    }
}
